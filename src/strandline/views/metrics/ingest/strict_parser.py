"""Line protocol -> tables, or an error with its position.

    line         measurement [, tag=value]...  field=number [, field=number]...  [at]
                 with one space before the fields, and one before the time
    number       1.5  -2e3        float64
                 12i  -7i         int64
                 12u              int64; 2^63 and above is rejected
                 t T true True TRUE f F false False FALSE      bool
    at           an integer since 1970, in the precision of the write: s, ms, us or ns
    escapes      backslash before comma or space; in names of tags and fields and in values of tags
                 also before "="; any other backslash is literal
    comment      a line that starts with "#"; empty lines are ignored

The syntax is InfluxDB's, except that only numbers can be stored: a string is an error. So are a
duplicate tag or field, a tag without a value, and a number that is not finite. An error has line
and column, both from 1, and then nothing of the text is written.

``parse`` passes texts of many plain lines to vectorized_parser.py, and plain lines to
fast_parser.py.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from strandline.errors import Invalid
from strandline.views.metrics.ingest.batch import PointTable
from strandline.views.metrics.ingest.batch_builder import TableBuilder
from strandline.views.metrics.ingest.fast_parser import BOOLS, fast_parse
from strandline.views.metrics.ingest.vectorized_parser import vectorized_parse
from strandline.views.metrics.names import canonical, check_name
from strandline.views.metrics.value_types import AT_MAX, AT_MIN, ValueKind, bits_of

PRECISIONS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

_MEASUREMENT = re.compile(r"(?:\\[, ]|\\(?![, ])|[^ ,\\])+")
_NAME = re.compile(r"(?:\\[,= ]|\\(?![,= ])|[^ ,=\\])+")
_VALUE = re.compile(r"[^ ,]+")
_SPACES = re.compile(r" +")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INT = re.compile(r"([+-]?[0-9]+)[iu]")
_AT = re.compile(r"-?[0-9]+")
_ESCAPED = re.compile(r"\\([,= ])")


class LineHead(NamedTuple):
    """The head of a line: the series of its points."""

    measurement: str
    series: bytes


def parse(text: str | bytes, *, precision: str, now_ns: int) -> list[PointTable]:
    """The points of a text. A line without a time has the time ``now_ns``."""
    unit = PRECISIONS.get(precision)
    if unit is None:
        raise Invalid(f"precision {precision!r}: give one of {', '.join(PRECISIONS)}")
    decoded = _decode(text)

    def add_line(line: str, number: int, builder: TableBuilder) -> None:
        _Line(line.removesuffix("\r"), number).add_to(builder, unit, now_ns)

    columns = vectorized_parse(decoded, unit=unit, now_ns=now_ns, head_of=parse_head)
    if columns is not None:
        return columns
    fast = fast_parse(decoded, unit=unit, now_ns=now_ns, head_of=parse_head, add_line=add_line)
    return parse_exactly(decoded, unit=unit, now_ns=now_ns) if fast is None else fast


def parse_exactly(text: str, *, unit: int, now_ns: int) -> list[PointTable]:
    """The same, with every line parsed strictly."""
    builder = TableBuilder()
    for number, line in enumerate(text.split("\n"), start=1):
        _Line(line.removesuffix("\r"), number).add_to(builder, unit, now_ns)
    table_counts = builder.measurements()
    return [
        table if table_counts[table.measurement] > 1 else table._replace(order=None)
        for table in builder.tables()
    ]


def parse_head(text: str) -> LineHead | None:
    """Measurement and tags; None if the text is anything else."""
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
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position == len(self._text)

    def add_to(self, builder: TableBuilder, unit: int, now_ns: int) -> None:
        self._position = len(self._text) - len(self._text.lstrip(" \t"))
        if self.at_end or self._text[self._position] == "#":
            return
        head = self.head()
        self._expect(_SPACES, "a space, then fields")
        fields = self._fields()
        at = now_ns
        if not self.at_end:
            self._expect(_SPACES, "a space, then the time")
        if not self.at_end:
            at = self._at(unit)
        rest = self._text[self._position :].lstrip(" ")
        if rest:
            raise self._error("expected the end of the line", len(self._text) - len(rest))
        builder.add(head.measurement, head.series, fields, at, place=self._number)

    def head(self) -> LineHead:
        start = self._position
        text = self._expect(_MEASUREMENT, "a measurement")
        name = re.sub(r"\\([, ])", r"\1", text)
        with self._errors_at(start):
            check_name(name, "a measurement")
        tags: dict[str, str] = {}
        while self._skip(","):
            start = self._position
            tag = self._name("a tag")
            self._expect_text("=", "= and the tag's value")
            value = self._name(f"the value of tag {tag!r}")
            if tag in tags:
                raise self._error(f"tag {tag!r} is there twice", start)
            with self._errors_at(start):
                canonical({tag: value})
            tags[tag] = value
        with self._errors_at(start):
            return LineHead(name, canonical(tags))

    def _fields(self) -> dict[str, tuple[ValueKind, int]]:
        fields: dict[str, tuple[ValueKind, int]] = {}
        while True:
            start = self._position
            name = self._name("a field")
            if name in fields:
                raise self._error(f"field {name!r} is there twice", start)
            with self._errors_at(start):
                check_name(name, "a field")
            self._expect_text("=", "= and the field's value")
            fields[name] = self._field_value(name)
            if not self._skip(","):
                return fields

    def _field_value(self, field: str) -> tuple[ValueKind, int]:
        start = self._position
        if self._text[start : start + 1] == '"':
            raise self._error(
                f"field {field!r} is a string: only numbers and booleans can be stored"
            )
        raw = self._expect(_VALUE, f"the value of field {field!r}")
        with self._errors_at(start):
            if _FLOAT.fullmatch(raw):
                return ValueKind.FLOAT, bits_of(raw, ValueKind.FLOAT)
            whole = _INT.fullmatch(raw)
            if whole is not None and not (raw[-1] == "u" and raw[0] == "-"):
                return ValueKind.INT, bits_of(whole[1], ValueKind.INT)
        if raw in BOOLS:
            return ValueKind.BOOL, int(BOOLS[raw])
        raise self._error(f"{raw!r} is not a number (1.5, 12i, 12u) nor true or false", start)

    def _at(self, unit: int) -> int:
        start = self._position
        raw = self._expect(_VALUE, "the time")
        if not _AT.fullmatch(raw):
            raise self._error(f"{raw!r} is not a time: write an integer", start)
        at = int(raw) * unit if len(raw) < 30 else AT_MAX + 1
        if not AT_MIN <= at <= AT_MAX:
            raise self._error(
                f"{raw!r} is not a time: in nanoseconds it needs more than 64 bits", start
            )
        return at

    def _name(self, what: str) -> str:
        return _ESCAPED.sub(r"\1", self._expect(_NAME, what))

    def _skip(self, sign: str) -> bool:
        is_there = self._text.startswith(sign, self._position)
        self._position += is_there
        return is_there

    def _expect_text(self, sign: str, what: str) -> None:
        if not self._skip(sign):
            raise self._error(f"expected {what}")

    def _expect(self, pattern: re.Pattern[str], what: str) -> str:
        match = pattern.match(self._text, self._position)
        if match is None:
            raise self._error(f"expected {what}")
        self._position = match.end()
        return match[0]

    def _error(self, reason: str, position: int | None = None) -> Invalid:
        column = (self._position if position is None else position) + 1
        return Invalid(f"line {self._number}, column {column}: {reason}; nothing was written")

    def _errors_at(self, position: int) -> _PositionedErrors:
        return _PositionedErrors(self, position)


class _PositionedErrors:
    """Adds a position in the line to errors."""

    __slots__ = ("_line", "_position")

    def __init__(self, line: _Line, position: int) -> None:
        self._line = line
        self._position = position

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Invalid):
            raise self._line._error(str(error), self._position) from error


def _decode(text: str | bytes) -> str:
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
