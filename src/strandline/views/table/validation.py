"""Events on their way in: does a JSON object fit its table? Strict. Pure.

An event has every required field, no field twice and none that the table lacks; each value fits its
type (``schema.py``), and null is for optional fields alone.

Most events fit: a type made for the schema decodes them, and that is all there is to it but for
four things that the type cannot see. If it refuses an event, or one of the four is in doubt, the
event is decoded by a wider type and looked at field by field: either all is well (a day where a
moment is usual), or the error says what is not and why (``validation_errors.py``). The second way
alone decides; the first is a short cut.

**A field that comes twice** is seen by counting quotation marks. A key has two, text has two more,
and nothing else has any but escaped ones: if an event has as many as its row must have, there is no
second key anywhere. Which marks are escaped is plain unless a backslash is escaped, too; then it is
in doubt, and if a mark is written as ``\\u0022`` besides, the keys are listed. Counting costs 41 ns
beside the 430 that decoding takes (12 fields, 260 bytes, in batches), and every optional field and
every time 50 to 58: each may have more marks or fewer. With one of both that is a third of what
decoding takes; to parse a second time would cost more than the first.

**A time outside of the years 1 to 9999 in UTC** can only come from a moment in one of the two with
an offset: if one of these years is there, it is in doubt.

**A time with more digits than microseconds** is rounded by msgspec, and must be cut: such an event
is decoded twice. To look costs 2 ns for every event of a table with times, and 95 where an event
has a dot (170 bytes, in batches).

**A number from 2^64 on**: msgspec knows no such bound. To look costs 38 ns for every u64.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from types import NoneType
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple

from strandline.errors import Invalid
from strandline.lake.files.typed_columns import (
    JSON,
    MISFITS,
    U64_MAX,
    Moment,
    cut_moments,
    find_long_fraction,
    has_hidden_digits,
    has_long_time,
    reader_of,
    row_type,
)
from strandline.schema import Kind, KindName, Schema
from strandline.views.table.validation_errors import keys_twice, refusal

BLOCK = 128
"""Events that are looked at together: few enough to look again at each when one is in doubt."""

_Getter = Callable[[Any], Any]
_QUOTE = ord('"')
_SMALL = 4096
"""Bytes from which numpy counts faster than bytes do."""

# Whole numbers are seconds from here to 0, and every unit is right above; what is outside of these
# bounds may still be a time.
_Count = Annotated[int, Meta(ge=-62_135_596_800, le=2**63 - 1)]
_Seconds = Annotated[float, Meta(ge=-62_135_596_800.0, le=253_402_300_799.0)]
_USUAL: dict[KindName, Any] = {
    **JSON,
    "datetime": Moment | _Count | _Seconds,
    "date": date | _Count | _Seconds,
}
_WIDE: dict[KindName, Any] = {**JSON, **dict.fromkeys(("u64", "datetime", "date"), msgspec.Raw)}
_MARKS: dict[type, int] = {
    **dict.fromkeys((str, datetime, date), 4),
    **dict.fromkeys((int, float, bool, NoneType), 2),
    UnsetType: 0,
}
"""Quotation marks of a field by the type of its value, those of its key included."""


class Validator:
    """Whether events fit one version of a table. Immutable; safe from many threads."""

    def __init__(self, schema: Schema, event: str = "") -> None:
        self.schema = schema
        self.event = event
        kinds = schema.kinds()
        names = [(f"f{place}", name) for place, name in enumerate(kinds)]
        usual = [_type(kind, _USUAL) for kind in kinds.values()]
        self._usual = msgspec.json.Decoder(row_type(names, usual, strict=True)).decode
        wide = [_type(kind, _WIDE) for kind in kinds.values()]
        self._wide = msgspec.json.Decoder(row_type(names, wide, strict=True)).decode
        self._marks = 0
        """Quotation marks that every event has."""
        self._loose: list[_Getter] = []
        self._naturals: list[_Getter] = []
        self._moments: list[tuple[_Getter, _Getter]] = []
        self._moment_names: list[str] = []
        self._wide_fields: list[tuple[str, Callable[[msgspec.Raw], Any], bool]] = []
        for (own, _), kind in zip(names, kinds.values(), strict=True):
            self._note(own, kind)

    def check(self, data: bytes) -> None:
        """Raise unless it fits."""
        self.decode(data)

    def decode(self, data: bytes) -> msgspec.Struct:
        """The row of an event."""
        try:
            row = self._usual(data)
        except MISFITS:
            return self._slowly(data)
        if not self._sure_of_one(data, row):
            return self._slowly(data)
        if self._moments and (find_long_fraction(data) or b"\\" in data):
            return self._cut_moment(data, row)
        return row

    def decode_many(self, data: Sequence[bytes]) -> list[msgspec.Struct]:
        """The rows of events, all or none."""
        rows: list[msgspec.Struct] = []
        for block in _blocks(data):
            found = self._at_once(block)
            rows += found if found is not None else self._one_by_one(block, len(rows), len(data))
        return rows

    def fitting(self, data: Sequence[bytes]) -> list[msgspec.Struct | None]:
        """The rows of events, None where one does not fit."""
        rows: list[msgspec.Struct | None] = []
        for block in _blocks(data):
            rows += self._at_once(block) or map(self._maybe, block)
        return rows

    def _note(self, own: str, kind: Kind) -> None:
        """What must be looked at besides the type of a field."""
        getter = operator.attrgetter(own)
        if kind.name == "datetime":
            self._moments.append((operator.attrgetter(f"{own}.year"), getter))
            self._moment_names.append(own)
        elif kind.optional or kind.name == "date":
            self._loose.append(getter)
        else:
            self._marks += 4 if kind.name in ("string", "enum") else 2
        if kind.name == "u64":
            self._naturals.append(getter)
        if _WIDE.get(kind.name) is msgspec.Raw:
            self._wide_fields.append((own, reader_of(kind), kind.optional))

    def _at_once(self, block: Sequence[bytes]) -> list[msgspec.Struct] | None:
        """The rows of all, None if one is in doubt."""
        try:
            rows = list(map(self._usual, block))
        except MISFITS:
            return None
        text = b"".join(block)
        if not self._sure(text, rows):
            return None
        if self._moments and has_long_time(text):
            self._cut_moments(block, rows)
        return rows

    def _cut_moment(self, data: bytes, row: msgspec.Struct) -> msgspec.Struct:
        if has_hidden_digits(data):
            return self._slowly(data)
        rows = [row]
        self._cut_moments([data], rows)
        return rows[0]

    def _cut_moments(self, data: Sequence[bytes], rows: list[msgspec.Struct]) -> None:
        cut_moments(data, rows, self._moment_names, self._usual, self._slowly)

    def _one_by_one(self, block: Sequence[bytes], before: int, of: int) -> list[msgspec.Struct]:
        rows = []
        for place, data in enumerate(block, before + 1):
            try:
                rows.append(self.decode(data))
            except Invalid as error:
                if of == 1:
                    raise
                raise Invalid(f"event {place} of {of}, none is taken: {error}") from None
        return rows

    def _maybe(self, data: bytes) -> msgspec.Struct | None:
        try:
            return self.decode(data)
        except Invalid:
            return None

    def _sure(self, text: bytes, rows: Sequence[msgspec.Struct]) -> bool:
        """Whether no field comes twice and no time is out of bounds: False if it is in doubt."""
        marks = self._marks * len(rows)
        for getter in self._loose:
            marks += sum(map(_MARKS.__getitem__, map(type, map(getter, rows))))
        for year_of, getter in self._moments:
            try:
                years = {*map(year_of, rows)}
                marks += 4 * len(rows)
            except AttributeError:
                values = list(map(getter, rows))
                years = {value.year for value in values if type(value) is datetime}
                marks += sum(map(_MARKS.__getitem__, map(type, values)))
            if 1 in years or 9999 in years:
                return False
        for getter in self._naturals:
            if _too_large(list(map(getter, rows))):
                return False
        return _as_many(marks, text) and not (self._moments and has_hidden_digits(text))

    def _sure_of_one(self, data: bytes, row: msgspec.Struct) -> bool:
        """The same for one event: what pays for many takes twice as long for it."""
        marks = self._marks
        for getter in self._loose:
            marks += _MARKS[type(getter(row))]
        for _, getter in self._moments:
            value = getter(row)
            if type(value) is datetime and value.year in (1, 9999):
                return False
            marks += _MARKS[type(value)]
        for getter in self._naturals:
            value = getter(row)
            if type(value) is int and value > U64_MAX:
                return False
        return _as_many(marks, data)

    def _slowly(self, data: bytes) -> msgspec.Struct:
        """The row of an event, or the error that says why there is none."""
        try:
            row = self._wide(data)
        except MISFITS as error:
            raise refusal(self.schema, self.event, data) from error
        if _has_twice(row, data):
            raise refusal(self.schema, self.event, data)
        for own, read, optional in self._wide_fields:
            part = getattr(row, own)
            value = read(part) if part else UNSET
            if value is None and not (optional and bytes(part) == b"null"):
                raise refusal(self.schema, self.event, data)
            setattr(row, own, value)
        return row


@functools.lru_cache(maxsize=256)
def _validator(version: int, fields: tuple[tuple[str, str], ...], event: str) -> Validator:
    return Validator(Schema(version, dict(fields)), event)


def validator_of(schema: Schema, event: str = "") -> Validator:
    """The validator of a schema, made once. Its errors name the event."""
    return _validator(schema.version, tuple(schema.fields.items()), event)


def _type(kind: Kind, types: dict[KindName, Any]) -> tuple[Any, Any]:
    """The type of a field and its default."""
    one = Literal[kind.variants] if kind.name == "enum" else types[kind.name]
    if not kind.optional:
        return one, msgspec.NODEFAULT
    return (one, msgspec.Raw()) if one is msgspec.Raw else (one | None | UnsetType, UNSET)


def _has_twice(row: msgspec.Struct, data: bytes) -> bool:
    """Whether a field comes twice: never in doubt."""
    if b"\\u0022" in data:  # a mark in a text that is none in the data, and may make up for a key
        return bool(keys_twice(data))
    return sum(map(_marks, astuple(row))) != data.count(b'"')


def _marks(value: Any) -> int:
    """Quotation marks of a field, an escaped one counted as a mark."""
    if isinstance(value, str):
        return 4 + value.count('"')
    if isinstance(value, msgspec.Raw):
        return 2 + bytes(value).count(b'"') if value else 0
    return _MARKS[type(value)]


def _blocks(data: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (data[first : first + BLOCK] for first in range(0, len(data), BLOCK))


def _too_large(values: list[Any]) -> bool:
    """Whether one of them is more than u64 has, which the type cannot be told."""
    try:
        found: bool = max(values) > U64_MAX
    except TypeError:  # None, or absent
        found = any(value > U64_MAX for value in values if type(value) is int)
    return found


def _as_many(marks: int, text: bytes) -> bool:
    """Whether it has so many quotation marks and no more, but for escaped ones; False if that is
    in doubt."""
    quotes = text.count(b'"') if len(text) < _SMALL else _counted(text)
    if quotes > marks and b"\\\\" not in text:
        quotes -= text.count(b'\\"')
    return marks == quotes


def _counted(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _QUOTE))
