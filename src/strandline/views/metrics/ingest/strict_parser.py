"""Line protocol -> tables, exactly, or an error that says where.

    line         measurement [, tag=value]...  field=number [, field=number]...  [at]
                 with one space before the fields, and one before the time
    number       1.5  -2e3        float64
                 12i  -7i         int64
                 12u              int64; 2^63 and above is refused
                 t T true True TRUE f F false False FALSE      bool
    at           a whole number since 1970, in the precision of the write: s, ms, us or ns
    escapes      backslash before comma or space; in names of tags and fields and in values of tags
                 also before "="; any other backslash is itself
    comment      a line that begins with "#"; empty lines are fine

The syntax is InfluxDB's, except that only numbers can be kept: a string is an error. So are a tag
or field that is named twice, a tag without a value, and a number that is not finite. An error tells
line and column, both from 1, and nothing of the text is taken then.

``parse`` leaves texts of many plain lines to vectorized_parser.py, and plain lines to
fast_parser.py.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from strandline.errors import Invalid
from strandline.views.metrics.ingest.batch import Table
from strandline.views.metrics.ingest.batch_builder import TableBuilder
from strandline.views.metrics.ingest.fast_parser import BOOLS, quick_parse
from strandline.views.metrics.ingest.vectorized_parser import column_parse
from strandline.views.metrics.names import canonical, check_name
from strandline.views.metrics.value_types import AT_MAX, AT_MIN, Kind, bits_of

PRECISIONS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

_MEASUREMENT = re.compile(r"(?:\\[, ]|\\(?![, ])|[^ ,\\])+")
_NAME = re.compile(r"(?:\\[,= ]|\\(?![,= ])|[^ ,=\\])+")
_VALUE = re.compile(r"[^ ,]+")
_SPACES = re.compile(r" +")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INT = re.compile(r"([+-]?[0-9]+)[iu]")
_AT = re.compile(r"-?[0-9]+")
_ESCAPED = re.compile(r"\\([,= ])")


class Head(NamedTuple):
    """What a line begins with: whose points these are."""

    measurement: str
    series: bytes


def parse(text: str | bytes, *, precision: str, now_ns: int) -> list[Table]:
    """The points of a text. A line without a time is of now."""
    unit = PRECISIONS.get(precision)
    if unit is None:
        raise Invalid(f"precision {precision!r}: give one of {', '.join(PRECISIONS)}")
    decoded = _decoded(text)

    def add_line(line: str, number: int, builder: TableBuilder) -> None:
        _Line(line.removesuffix("\r"), number).add_to(builder, unit, now_ns)

    columns = column_parse(decoded, unit=unit, now_ns=now_ns, head_of=parse_head)
    if columns is not None:
        return columns
    quick = quick_parse(decoded, unit=unit, now_ns=now_ns, head_of=parse_head, add_line=add_line)
    return parse_exactly(decoded, unit=unit, now_ns=now_ns) if quick is None else quick


def parse_exactly(text: str, *, unit: int, now_ns: int) -> list[Table]:
    """The same, every line by itself."""
    builder = TableBuilder()
    for number, line in enumerate(text.split("\n"), start=1):
        _Line(line.removesuffix("\r"), number).add_to(builder, unit, now_ns)
    alike = builder.measurements()
    return [
        table if alike[table.measurement] > 1 else table._replace(order=None)
        for table in builder.tables()
    ]


def parse_head(text: str) -> Head | None:
    """Measurement and tags; None when the text is not exactly that."""
    try:
        line = _Line(text, 1)
        head = line.head()
    except Invalid:
        return None
    return head if line.at_end else None


class _Line:
    """One line, read from left to right. Owned by one thread."""

    def __init__(self, text: str, number: int) -> None:
        self._text = text
        self._number = number
        self._place = 0

    @property
    def at_end(self) -> bool:
        return self._place == len(self._text)

    def add_to(self, builder: TableBuilder, unit: int, now_ns: int) -> None:
        self._place = len(self._text) - len(self._text.lstrip(" \t"))
        if self.at_end or self._text[self._place] == "#":
            return
        head = self.head()
        self._expect(_SPACES, "a space, then fields")
        fields = self._fields()
        at = now_ns
        if not self.at_end:
            self._expect(_SPACES, "a space, then the time")
        if not self.at_end:
            at = self._at(unit)
        rest = self._text[self._place :].lstrip(" ")
        if rest:
            raise self._error("expected the end of the line", len(self._text) - len(rest))
        builder.add(head.measurement, head.series, fields, at, place=self._number)

    def head(self) -> Head:
        start = self._place
        found = self._expect(_MEASUREMENT, "a measurement")
        name = re.sub(r"\\([, ])", r"\1", found)
        with self._at_place(start):
            check_name(name, "a measurement")
        tags: dict[str, str] = {}
        while self._skip(","):
            start = self._place
            tag = self._name("a tag")
            self._expect_sign("=", "= and the tag's value")
            value = self._name(f"the value of tag {tag!r}")
            if tag in tags:
                raise self._error(f"tag {tag!r} is there twice", start)
            with self._at_place(start):
                canonical({tag: value})
            tags[tag] = value
        with self._at_place(start):
            return Head(name, canonical(tags))

    def _fields(self) -> dict[str, tuple[Kind, int]]:
        fields: dict[str, tuple[Kind, int]] = {}
        while True:
            start = self._place
            name = self._name("a field")
            if name in fields:
                raise self._error(f"field {name!r} is there twice", start)
            with self._at_place(start):
                check_name(name, "a field")
            self._expect_sign("=", "= and the field's value")
            fields[name] = self._number_here(name)
            if not self._skip(","):
                return fields

    def _number_here(self, field: str) -> tuple[Kind, int]:
        start = self._place
        if self._text[start : start + 1] == '"':
            raise self._error(f"field {field!r} is a string: only numbers and booleans can be kept")
        raw = self._expect(_VALUE, f"the value of field {field!r}")
        with self._at_place(start):
            if _FLOAT.fullmatch(raw):
                return Kind.FLOAT, bits_of(raw, Kind.FLOAT)
            whole = _INT.fullmatch(raw)
            if whole is not None and not (raw[-1] == "u" and raw[0] == "-"):
                return Kind.INT, bits_of(whole[1], Kind.INT)
        if raw in BOOLS:
            return Kind.BOOL, int(BOOLS[raw])
        raise self._error(f"{raw!r} is not a number (1.5, 12i, 12u) nor true or false", start)

    def _at(self, unit: int) -> int:
        start = self._place
        raw = self._expect(_VALUE, "the time")
        if not _AT.fullmatch(raw):
            raise self._error(f"{raw!r} is no time: give a whole number", start)
        at = int(raw) * unit if len(raw) < 30 else AT_MAX + 1
        if not AT_MIN <= at <= AT_MAX:
            raise self._error(
                f"{raw!r} is no time: in nanoseconds it needs more than 64 bits", start
            )
        return at

    def _name(self, what: str) -> str:
        return _ESCAPED.sub(r"\1", self._expect(_NAME, what))

    def _skip(self, sign: str) -> bool:
        found = self._text.startswith(sign, self._place)
        self._place += found
        return found

    def _expect_sign(self, sign: str, what: str) -> None:
        if not self._skip(sign):
            raise self._error(f"expected {what}")

    def _expect(self, pattern: re.Pattern[str], what: str) -> str:
        found = pattern.match(self._text, self._place)
        if found is None:
            raise self._error(f"expected {what}")
        self._place = found.end()
        return found[0]

    def _error(self, reason: str, place: int | None = None) -> Invalid:
        column = (self._place if place is None else place) + 1
        return Invalid(f"line {self._number}, column {column}: {reason}; nothing was written")

    def _at_place(self, place: int) -> _Place:
        return _Place(self, place)


class _Place:
    """Gives errors inside it the place where the line has gone wrong."""

    __slots__ = ("_line", "_place")

    def __init__(self, line: _Line, place: int) -> None:
        self._line = line
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Invalid):
            raise self._line._error(str(error), self._place) from error


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return bytes(text).decode()
    except UnicodeDecodeError as error:
        before = text[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        raise Invalid(
            f"line {line}, column {column}: not UTF-8 (byte {text[error.start]:#04x}); nothing was "
            "written"
        ) from error
