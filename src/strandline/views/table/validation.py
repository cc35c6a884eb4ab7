"""Validates events: whether a JSON object fits its table. Strict. Pure.

An event has every required field, no field twice and no field that the table lacks. Each value fits
its type (``schema.py``), and only optional fields may be null.

Most events fit: a type built for the schema decodes them, and only four conditions remain that the
type cannot check. If the type rejects an event, or one of the four is in doubt, a wider type
decodes the event and each field is checked: either it is valid (a day in place of a time), or the
error has the field and the reason (``validation_errors.py``). The second way decides; the first is
a short cut.

**A duplicate field** is found by counting quotation marks. A key has two, text has two more, and
nothing else has any except escaped ones: if an event has as many as its row must have, it has no
second key. Which marks are escaped is clear unless a backslash is escaped, too; then it is in
doubt, and if a mark is also written as ``\\u0022``, the keys are listed. Counting costs 41 ns,
decoding 430 (12 fields, 260 bytes, in batches), and every optional field and every time costs 50 to
58, as its number of marks varies. With one of each that is a third of the decoding; to parse a
second time would cost more than the first.

**A time outside the years 1 to 9999 in UTC** can only come from a time with an offset in the first
or the last of these years: a time in one of the two is in doubt.

**A time with more digits than microseconds** is rounded by msgspec, and must be cut: such an event
is decoded twice. The check costs 2 ns for every event of a table with times, and 95 for an event
with a dot (170 bytes, in batches).

**A number from 2^64 on**: msgspec does not support this bound. The check costs 38 ns for every u64.
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
    DECODE_ERRORS,
    JSON,
    U64_MAX,
    AwareDatetime,
    find_long_fraction,
    has_hidden_digits,
    has_long_time,
    reader_of,
    row_type,
    truncate_times,
)
from strandline.schema import FieldType, FieldTypeName, Schema
from strandline.views.table.validation_errors import duplicate_keys, validation_error

BLOCK = 128
"""Events that are checked together: few enough to check each again when one is in doubt."""

_Getter = Callable[[Any], Any]
_QUOTE = ord('"')
_SMALL = 4096
"""Bytes from which numpy counts faster than ``bytes.count``."""

# Integers from ge to 0 are seconds; above 0 every unit is valid. A value outside these bounds may
# still be a time: the wide type decides.
_Count = Annotated[int, Meta(ge=-62_135_596_800, le=2**63 - 1)]
_Seconds = Annotated[float, Meta(ge=-62_135_596_800.0, le=253_402_300_799.0)]
_FAST: dict[FieldTypeName, Any] = {
    **JSON,
    "datetime": AwareDatetime | _Count | _Seconds,
    "date": date | _Count | _Seconds,
}
_WIDE: dict[FieldTypeName, Any] = {
    **JSON,
    **dict.fromkeys(("u64", "datetime", "date"), msgspec.Raw),
}
_QUOTES_BY_TYPE: dict[type, int] = {
    **dict.fromkeys((str, datetime, date), 4),
    **dict.fromkeys((int, float, bool, NoneType), 2),
    UnsetType: 0,
}
"""Quotation marks of a field by the type of its value, those of its key included."""


class Validator:
    """Checks events against one version of a table. Immutable; safe from many threads."""

    def __init__(self, schema: Schema, event: str = "") -> None:
        self.schema = schema
        self.event = event
        kinds = schema.types()
        names = [(f"f{index}", name) for index, name in enumerate(kinds)]
        fast_types = [_type(kind, _FAST) for kind in kinds.values()]
        self._decode_fast = msgspec.json.Decoder(row_type(names, fast_types, strict=True)).decode
        wide_types = [_type(kind, _WIDE) for kind in kinds.values()]
        self._decode_wide = msgspec.json.Decoder(row_type(names, wide_types, strict=True)).decode
        self._quotes = 0
        """Quotation marks that every event has at least."""
        self._varying: list[_Getter] = []
        self._u64_getters: list[_Getter] = []
        self._times: list[tuple[_Getter, _Getter]] = []
        self._time_names: list[str] = []
        self._wide_fields: list[tuple[str, Callable[[msgspec.Raw], Any], bool]] = []
        for (own, _), kind in zip(names, kinds.values(), strict=True):
            self._add_field(own, kind)

    def check(self, data: bytes) -> None:
        """Raise Invalid unless the event fits."""
        self.decode(data)

    def decode(self, data: bytes) -> msgspec.Struct:
        """The row of an event; raises Invalid if it does not fit."""
        try:
            row = self._decode_fast(data)
        except DECODE_ERRORS:
            return self._decode_slowly(data)
        if not self._is_valid(data, row):
            return self._decode_slowly(data)
        if self._times and (find_long_fraction(data) or b"\\" in data):
            return self._cut_time(data, row)
        return row

    def decode_many(self, data: Sequence[bytes]) -> list[msgspec.Struct]:
        """The rows of events; raises Invalid if one does not fit."""
        rows: list[msgspec.Struct] = []
        for block in _blocks(data):
            decoded = self._decode_block(block)
            rows += (
                decoded if decoded is not None else self._one_by_one(block, len(rows), len(data))
            )
        return rows

    def decode_fitting(self, data: Sequence[bytes]) -> list[msgspec.Struct | None]:
        """The rows of events; None for an event that does not fit."""
        rows: list[msgspec.Struct | None] = []
        for block in _blocks(data):
            rows += self._decode_block(block) or map(self._decode_or_none, block)
        return rows

    def _add_field(self, own: str, kind: FieldType) -> None:
        """Register the checks of a field that its type does not do."""
        getter = operator.attrgetter(own)
        if kind.name == "datetime":
            self._times.append((operator.attrgetter(f"{own}.year"), getter))
            self._time_names.append(own)
        elif kind.optional or kind.name == "date":
            self._varying.append(getter)
        else:
            self._quotes += 4 if kind.name in ("string", "enum") else 2
        if kind.name == "u64":
            self._u64_getters.append(getter)
        if _WIDE.get(kind.name) is msgspec.Raw:
            self._wide_fields.append((own, reader_of(kind), kind.optional))

    def _decode_block(self, block: Sequence[bytes]) -> list[msgspec.Struct] | None:
        """The rows of all events; None if one is in doubt."""
        try:
            rows = list(map(self._decode_fast, block))
        except DECODE_ERRORS:
            return None
        text = b"".join(block)
        if not self._are_valid(text, rows):
            return None
        if self._times and has_long_time(text):
            self._cut_times(block, rows)
        return rows

    def _cut_time(self, data: bytes, row: msgspec.Struct) -> msgspec.Struct:
        if has_hidden_digits(data):
            return self._decode_slowly(data)
        rows = [row]
        self._cut_times([data], rows)
        return rows[0]

    def _cut_times(self, data: Sequence[bytes], rows: list[msgspec.Struct]) -> None:
        truncate_times(data, rows, self._time_names, self._decode_fast, self._decode_slowly)

    def _one_by_one(self, block: Sequence[bytes], before: int, of: int) -> list[msgspec.Struct]:
        rows = []
        for index, data in enumerate(block, before + 1):
            try:
                rows.append(self.decode(data))
            except Invalid as error:
                if of == 1:
                    raise
                raise Invalid(f"event {index} of {of}, none is stored: {error}") from None
        return rows

    def _decode_or_none(self, data: bytes) -> msgspec.Struct | None:
        try:
            return self.decode(data)
        except Invalid:
            return None

    def _are_valid(self, text: bytes, rows: Sequence[msgspec.Struct]) -> bool:
        """Whether no field is duplicate and no value is out of bounds; False if in doubt."""
        marks = self._quotes * len(rows)
        for getter in self._varying:
            marks += sum(map(_QUOTES_BY_TYPE.__getitem__, map(type, map(getter, rows))))
        for year_of, getter in self._times:
            try:
                years = {*map(year_of, rows)}
                marks += 4 * len(rows)
            except AttributeError:
                values = list(map(getter, rows))
                years = {value.year for value in values if type(value) is datetime}
                marks += sum(map(_QUOTES_BY_TYPE.__getitem__, map(type, values)))
            if 1 in years or 9999 in years:
                return False
        for getter in self._u64_getters:
            if _any_too_large(list(map(getter, rows))):
                return False
        return _has_quotes(marks, text) and not (self._times and has_hidden_digits(text))

    def _is_valid(self, data: bytes, row: msgspec.Struct) -> bool:
        """The same for one event: the code for many takes twice as long for one."""
        marks = self._quotes
        for getter in self._varying:
            marks += _QUOTES_BY_TYPE[type(getter(row))]
        for _, getter in self._times:
            value = getter(row)
            if type(value) is datetime and value.year in (1, 9999):
                return False
            marks += _QUOTES_BY_TYPE[type(value)]
        for getter in self._u64_getters:
            value = getter(row)
            if type(value) is int and value > U64_MAX:
                return False
        return _has_quotes(marks, data)

    def _decode_slowly(self, data: bytes) -> msgspec.Struct:
        """The row of an event, or the error with the reason why it does not fit."""
        try:
            row = self._decode_wide(data)
        except DECODE_ERRORS as error:
            raise validation_error(self.schema, self.event, data) from error
        if _has_duplicate(row, data):
            raise validation_error(self.schema, self.event, data)
        for own, read, optional in self._wide_fields:
            part = getattr(row, own)
            value = read(part) if part else UNSET
            if value is None and not (optional and bytes(part) == b"null"):
                raise validation_error(self.schema, self.event, data)
            setattr(row, own, value)
        return row


@functools.lru_cache(maxsize=256)
def _validator(version: int, fields: tuple[tuple[str, str], ...], event: str) -> Validator:
    return Validator(Schema(version, dict(fields)), event)


def validator_of(schema: Schema, event: str = "") -> Validator:
    """The validator of a schema, cached. Its errors name the event."""
    return _validator(schema.version, tuple(schema.fields.items()), event)


def _type(kind: FieldType, types: dict[FieldTypeName, Any]) -> tuple[Any, Any]:
    """The type of a field and its default."""
    one = Literal[kind.variants] if kind.name == "enum" else types[kind.name]
    if not kind.optional:
        return one, msgspec.NODEFAULT
    return (one, msgspec.Raw()) if one is msgspec.Raw else (one | None | UnsetType, UNSET)


def _has_duplicate(row: msgspec.Struct, data: bytes) -> bool:
    """Whether a field is duplicate: exact, never in doubt."""
    if b"\\u0022" in data:  # decodes to a mark that the data does not have, and may hide a key
        return bool(duplicate_keys(data))
    return sum(map(_quotes, astuple(row))) != data.count(b'"')


def _quotes(value: Any) -> int:
    """Quotation marks of a field, escaped ones included."""
    if isinstance(value, str):
        return 4 + value.count('"')
    if isinstance(value, msgspec.Raw):
        return 2 + bytes(value).count(b'"') if value else 0
    return _QUOTES_BY_TYPE[type(value)]


def _blocks(data: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (data[first : first + BLOCK] for first in range(0, len(data), BLOCK))


def _any_too_large(values: list[Any]) -> bool:
    """Whether a value exceeds u64: a bound that the type cannot have."""
    try:
        exceeds: bool = max(values) > U64_MAX
    except TypeError:  # None, or absent
        exceeds = any(value > U64_MAX for value in values if type(value) is int)
    return exceeds


def _has_quotes(marks: int, text: bytes) -> bool:
    """Whether the text has exactly so many quotation marks, except escaped ones; False if in
    doubt."""
    quotes = text.count(b'"') if len(text) < _SMALL else _count_quotes(text)
    if quotes > marks and b"\\\\" not in text:
        quotes -= text.count(b'\\"')
    return marks == quotes


def _count_quotes(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _QUOTE))
