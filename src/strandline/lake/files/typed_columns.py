"""Typed columns: the fields of a topic's schema, derived from ``data``. Pure.

``data`` is authoritative and is not changed. It is read as one JSON object per row, and a field is
null where it is missing, null, or not of its type; all are null where ``data`` is not a JSON
object. Of a repeated key the last one counts. ``schema.py`` defines which values fit a type, and
the name of a field's column.

Most rows fit: they are decoded at once, by a struct type created for the schema. A row that does
not fit is split into its fields, and each is decoded alone. Both ways read JSON with the same
parser, so the other fields of such a row have the same values.

msgspec rounds a time to the microsecond, but numbers are truncated. So a row with a time of more
digits is decoded a second time without them, for its times.

Only a schema is needed, and every manifest has it: a process that rewrites files of a lake without
its store writes the same columns.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta
from msgspec.structs import astuple

from strandline.errors import Invalid, UnsupportedFormat
from strandline.lake.files.record_columns import SCHEMA, TABLE
from strandline.schema import FieldType, FieldTypeName, Schema, column_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MICROSECOND = timedelta(microseconds=1)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
_LAST_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
U64_MAX = 2**64 - 1

ARROW: dict[FieldTypeName, pa.DataType] = {
    "string": pa.string(),
    "u64": pa.uint64(),
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "datetime": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "enum": pa.string(),
}

AwareDatetime = Annotated[datetime, Meta(tz=True)]
JSON: dict[FieldTypeName, Any] = {
    "string": str,
    "u64": Annotated[int, Meta(ge=0)],  # msgspec does not accept a bound as large as the upper one
    "i64": Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)],
    "f64": float,
    "bool": bool,
    "datetime": AwareDatetime | int | float,
    "date": date | int | float,
}
_OTHER_TEXT: dict[FieldTypeName, Any] = {
    "datetime": msgspec.json.Decoder(date),
    "date": msgspec.json.Decoder(AwareDatetime),
}
"""A date where a time is expected, and a time where a date is: a type accepts only one text."""

find_long_fraction = re.compile(rb"\.[0-9]{7}").search
_LONG_TIME = re.compile(rb"(:[0-9]{2}:[0-9]{2}\.[0-9]{6})[0-9]+")
_LONG_TIME_TEXT = re.compile(_LONG_TIME.pattern.decode())
_BLOCK = 1024
"""Rows that are searched together for times with more digits."""

EXAMPLE_MAX = 60
"""Maximum characters of a value in a message."""

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class TypeMismatch(msgspec.Struct, frozen=True):
    """Values of a field that do not fit its type, in some rows."""

    field: str
    type: str
    count: int
    first: int
    """The row of the first of them."""
    example: str
    """Its JSON, shortened."""


class TypedColumns:
    """The typed columns of one version of a schema. Immutable; safe from many threads."""

    def __init__(self, schema: Schema, own: pa.Schema) -> None:
        """``own`` are the system columns beside them."""
        try:
            kinds = schema.types()
        except Invalid as error:
            raise UnsupportedFormat(f"{error}; or upgrade, if a newer version wrote it") from error
        self.version = schema.version
        self._fields = tuple(kinds)
        self.kinds = {column_of(name, own.names): kind for name, kind in kinds.items()}
        """By column name, which differs from a field's name if a system column has that name."""
        fields = [pa.field(name, ARROW[kind.name]) for name, kind in self.kinds.items()]
        self.columns: pa.Schema = pa.schema([*own, *fields])
        """The system columns, and the typed ones after them."""
        names = [(f"f{index}", name) for index, name in enumerate(kinds)]
        types = [_json_type(kind) for kind in self.kinds.values()]
        self._row_type = row_type(names, [(each, None) for each in types])
        self._row = msgspec.json.Decoder(self._row_type)
        self._getters = [operator.attrgetter(own) for own, _ in names]
        cut = [(msgspec.Raw, msgspec.Raw()) for _ in names]
        self._splitter = msgspec.json.Decoder(row_type(names, cut))
        self._decoders = [_decoders(kind) for kind in self.kinds.values()]
        both = zip(names, self.kinds.values(), strict=True)
        self._moments = [own for (own, _), kind in both if kind.name == "datetime"]

    def add_typed_columns(self, table: pa.Table) -> pa.Table:
        """Records with their typed columns."""
        if not self.kinds:
            return table
        arrays = [*table.columns, *self.derive(table["data"])]
        return pa.Table.from_arrays(arrays, schema=self.columns)

    def derive(self, data: pa.ChunkedArray) -> list[pa.Array]:
        """The typed columns alone."""
        rows = [row for texts in _blocks(data) for row in self._rows(texts)]
        return [
            array_of(list(map(getter, rows)), kind)
            for getter, kind in zip(self._getters, self.kinds.values(), strict=True)
        ]

    def type_mismatches(
        self, data: pa.ChunkedArray, columns: Sequence[pa.Array]
    ) -> list[TypeMismatch]:
        """Values that exist and do not fit their type; ``columns`` are the derived columns."""
        suspects = [
            (index, name, kind, column, encoded_name(name))
            for index, (name, kind, column) in enumerate(
                zip(self._fields, self.kinds.values(), columns, strict=True)
            )
            if column.null_count
        ]
        mismatches = []
        for index, name, kind, column, key in suspects:
            count, first, example = 0, 0, b""
            empty = pa.chunked_array([column]).is_null().to_numpy()
            for at in np.flatnonzero(empty & _mentions(data, key)):
                part = self._field_json(data[int(at)].as_py(), index)
                if part not in (b"", b"null"):
                    first, example = (first, example) if count else (int(at), part)
                    count += 1
            if count:
                mismatches.append(TypeMismatch(name, str(kind), count, first, _shorten(example)))
        return mismatches

    def _field_json(self, text: bytes, index: int) -> bytes:
        """The JSON of one field; empty where it is missing."""
        try:
            parts = astuple(self._splitter.decode(text))
        except DECODE_ERRORS:
            return b""
        return bytes(parts[index]).strip()

    def _rows(self, texts: list[bytes]) -> list[msgspec.Struct]:
        decode, rows = self._row.decode, []
        together = b"".join(texts) if self._moments else b""
        if has_hidden_digits(together):
            return list(map(self._by_field, texts))
        for text in texts:
            try:
                rows.append(decode(text))
            except DECODE_ERRORS:
                rows.append(self._by_field(text))
        if has_long_time(together):
            truncate_times(texts, rows, self._moments, decode, self._by_field)
        return rows

    def _by_field(self, text: bytes) -> msgspec.Struct:
        """A row whose fields are decoded one by one."""
        try:
            parts = astuple(self._splitter.decode(text))
        except DECODE_ERRORS:
            return self._row_type()
        return self._row_type(
            *(_value(part, decoders) for part, decoders in zip(parts, self._decoders, strict=True))
        )


@functools.lru_cache(maxsize=256)
def _shape(version: int, fields: tuple[tuple[str, str], ...], is_table: bool) -> TypedColumns:  # noqa: FBT001 - a cache key, positional
    return TypedColumns(Schema(version, dict(fields)), TABLE if is_table else SCHEMA)


def typed_columns_of(schema: Schema, *, is_table: bool = False) -> TypedColumns:
    """The typed columns of a schema, created once: in files of records, or of an event table."""
    return _shape(schema.version, tuple(schema.fields.items()), is_table)


def _json_type(kind: FieldType) -> Any:
    one = Literal[kind.variants] if kind.name == "enum" else JSON[kind.name]
    return one | None


def row_type(
    names: list[tuple[str, str]], types: list[tuple[Any, Any]], *, strict: bool = False
) -> type[msgspec.Struct]:
    """A struct type of rows. Its attributes have generated names: a field may be called ``from``. A
    strict type rejects other fields, and its fields are keyword arguments."""
    return msgspec.defstruct(
        "Row",
        [(own, kind, default) for (own, _), (kind, default) in zip(names, types, strict=True)],
        rename=dict(names),
        gc=False,
        forbid_unknown_fields=strict,
        kw_only=strict,
    )


def reader_of(kind: FieldType) -> Callable[[msgspec.Raw], Any]:
    """A decoder of one JSON value: None where it does not fit."""
    decoders = _decoders(kind)

    def read(part: msgspec.Raw) -> Any:
        value = _value(part, decoders)
        if kind.name == "datetime":
            age = value - EPOCH if type(value) is datetime else _since_epoch(value)
            if age is None or not _FIRST_US <= age // _MICROSECOND <= _LAST_US:
                return None
            return EPOCH + age
        if kind.name == "date":
            return _day(value)
        return None if kind.name == "u64" and value is not None and value > U64_MAX else value

    return read


def encoded_name(name: str) -> bytes:
    """A field's name in JSON, if the writer did not escape more than it must."""
    return msgspec.json.encode(name)


def _mentions(data: pa.ChunkedArray, key: bytes) -> Any:
    """Which texts contain a name, or an escape that may hide it."""
    plain = pc.match_substring(data, key.decode()).to_numpy()
    return plain | pc.match_substring(data, "\\").to_numpy()


def _shorten(part: bytes) -> str:
    text = part.decode(errors="replace")
    return text if len(text) <= EXAMPLE_MAX else f"{text[:EXAMPLE_MAX]}…"


def has_long_time(text: bytes) -> bool:
    """Whether JSON contains a possible time with more digits than microseconds."""
    return b"." in text and bool(find_long_fraction(text) and _LONG_TIME.search(text))


def has_hidden_digits(text: bytes) -> bool:
    """Whether JSON may have a time whose digits, dot or colons are written as escapes."""
    return b"\\" in text and (b"\\u002" in text or b"\\u003" in text)


def truncate_times(
    texts: Sequence[bytes],
    rows: list[msgspec.Struct],
    moments: Sequence[str],
    decode: Callable[[bytes], msgspec.Struct],
    by_field: Callable[[bytes], msgspec.Struct],
) -> None:
    """Replace the times of rows, which were rounded, by those of texts that are truncated."""
    for index, text in enumerate(texts):
        cut, replaced = _LONG_TIME.subn(rb"\1", text)
        if not replaced:
            continue
        try:
            exact = decode(cut)
        except DECODE_ERRORS:  # the truncated text was not a time but, say, a variant of an enum
            rows[index] = by_field(text)
            continue
        for own in moments:
            setattr(rows[index], own, getattr(exact, own))


def truncate_time(text: str) -> str:
    """The text of a time without the digits after its microseconds."""
    return _LONG_TIME_TEXT.sub(r"\1", text)


def _decoders(kind: FieldType) -> tuple[Any, ...]:
    own = msgspec.json.Decoder(_json_type(kind)).decode
    other = _OTHER_TEXT.get(kind.name)
    if other is None:
        return (own,)
    return tuple(functools.partial(_decode_time, decode) for decode in (own, other.decode))


def _decode_time(decode: Callable[[bytes], Any], part: msgspec.Raw) -> Any:
    text = bytes(part)
    if b"\\" in text:
        text = msgspec.json.encode(msgspec.json.decode(text))
    return decode(_LONG_TIME.sub(rb"\1", text))


def _value(part: msgspec.Raw, decoders: tuple[Any, ...]) -> Any:
    for decode in decoders:
        if part:
            try:
                return decode(part)
            except DECODE_ERRORS:
                continue
    return None


def _blocks(data: pa.ChunkedArray) -> Iterator[list[bytes]]:
    for chunk in data.chunks:
        for first in range(0, len(chunk), _BLOCK):
            yield chunk.slice(first, _BLOCK).to_pylist()


def array_of(values: Sequence[Any], kind: FieldType) -> pa.Array:
    if kind.name == "datetime":
        return _moments(values)
    if kind.name == "date":
        return pa.array(map(_day, values), pa.date32())
    if kind.name == "u64" and any(value is not None and value > U64_MAX for value in values):
        values = [None if value is None or value > U64_MAX else value for value in values]
    return pa.array(values, ARROW[kind.name])


def _moments(values: Sequence[Any]) -> pa.Array:
    # Durations since 1970 and not datetimes: pyarrow reads the zone of every datetime, which takes
    # twice as long.
    ages = [value - EPOCH if type(value) is datetime else _since_epoch(value) for value in values]
    micros = pa.array(ages, pa.duration("us")).cast(pa.int64())
    in_range = pc.and_(pc.greater_equal(micros, _FIRST_US), pc.less_equal(micros, _LAST_US))
    return pc.if_else(in_range, micros, None).cast(ARROW["datetime"])


def _since_epoch(value: date | int | float | None) -> timedelta | None:
    if value is None:
        return None
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC) - EPOCH
    micros = microseconds(value)
    return None if micros is None else timedelta(microseconds=micros)


def _day(value: date | int | float | None) -> date | None:
    if isinstance(value, datetime):
        return _day_of((value - EPOCH) // _MICROSECOND)
    if value is None or isinstance(value, date):
        return value
    micros = microseconds(value)
    return None if micros is None else _day_of(micros)


def _day_of(micros: int) -> date | None:
    if not _FIRST_US <= micros <= _LAST_US:
        return None
    return (EPOCH + timedelta(microseconds=micros)).date()


def microseconds(number: int | float) -> int | None:
    """A number as microseconds since 1970, None outside of the years 1 to 9999."""
    size = abs(number)
    if isinstance(number, float):
        micros = round(number * 1e6) if size < 1e12 else _LAST_US + 1
    elif size < 10**11:
        micros = number * 10**6
    elif size < 10**14:
        micros = number * 1000
    elif size < 10**16:
        micros = number
    else:
        micros = number // 1000 if size < 10**19 else _LAST_US + 1
    return micros if _FIRST_US <= micros <= _LAST_US else None
