"""Converts rows of files to records, and reports bad rows. Pure.

``data`` is the whole row as JSON (``json_rows.py``) unless a column is named. A column of bytes or
text is stored unchanged, any other as JSON. A line of JSON is stored as it is, without surrounding
space.

A row is bad when it has no data, does not match the format, or has a field over its limit. It is
reported with its file and number, and never imported in part.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from strandline.config.settings import LimitSettings
from strandline.errors import Invalid
from strandline.ingest.staged_files import COLUMNS
from strandline.log.append.batch import KEY_SIZE_MAX, META_SIZE_MAX, NODE_SIZE_MAX, TAG_SIZE_MAX
from strandline.pipelines.transfer.csv_types import CsvType, typed_values
from strandline.pipelines.transfer.json_rows import json_rows, json_text, json_values

BAD_ROWS_LISTED_MAX = 10
"""Most bad rows that a summary lists."""

_SIZES = {
    "key": KEY_SIZE_MAX,
    "tag": TAG_SIZE_MAX,
    "node": NODE_SIZE_MAX,
    "meta": META_SIZE_MAX,
    "data": LimitSettings().record_bytes_max,
}
_TEXTS = ("tag", "node")
_BYTES_LIKE = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_TEXT_LIKE = (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_value = msgspec.json.Decoder(msgspec.Raw)
_text_value = msgspec.json.Decoder(str)


class Fields(msgspec.Struct, frozen=True, kw_only=True):
    """The column for each field of a record; fields without a column stay empty."""

    data: str = ""
    """A column; the whole row as JSON when empty."""
    key: str = ""
    tag: str = ""
    node: str = ""
    meta: str = ""
    tag_value: str = ""
    """The tag of every record, instead of a column."""
    node_value: str = ""
    base64: bool = False
    """Whether columns for data, key and meta hold base64, as an export to text writes them."""

    def check(self) -> None:
        for name in _TEXTS:
            if getattr(self, name) and getattr(self, f"{name}_value"):
                raise Invalid(f"{name} is a column or one value for all, not both")
            if len(getattr(self, f"{name}_value").encode()) > _SIZES[name]:
                raise Invalid(f"{name}_value has {_SIZES[name]} bytes at most")

    def columns(self) -> dict[str, str]:
        """The source column of each field."""
        columns = {name: getattr(self, name) for name in COLUMNS.names}
        return {name: column for name, column in columns.items() if column}

    def schema(self) -> pa.Schema:
        """The schema of staged rows: the same for every file of an import."""
        columns = self.columns()
        values = {name for name in _TEXTS if getattr(self, f"{name}_value")}
        fields = {"data", *columns, *values}
        return pa.schema([field for field in COLUMNS if field.name in fields])


class BadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that cannot be converted to a record."""

    file: str
    row: int
    """Its line, or its number in a file without lines, from 1."""
    reason: str


class BadRowReceiver(Protocol):
    """Receives bad rows."""

    def report(self, row: int, reason: str) -> None: ...


class BadRows:
    """Collects the bad rows of one task: raises the first, or counts all. Owned by one thread."""

    def __init__(self, file: str, *, skip: bool, number: Callable[[int], int]) -> None:
        """``number`` finds the row's number in its file; called only for listed rows."""
        self._file = file
        self._skip = skip
        self._number = number
        self.count = 0
        self.listed: list[BadRow] = []

    def report(self, row: int, reason: str) -> None:
        self.count += 1
        if not self._skip:
            raise Invalid(
                f"row {self._number(row)} of {self._file}: {reason}; it and the rows after it were "
                "not imported: correct it, or skip bad rows with on_bad skip"
            )
        if len(self.listed) < BAD_ROWS_LISTED_MAX:
            self.listed.append(BadRow(file=self._file, row=self._number(row), reason=reason))


Folders = Sequence[tuple[str, str | None]]


class RecordMapper:
    """Converts the rows of one file to records. Owned by one thread."""

    def __init__(
        self,
        fields: Fields,
        folders: Folders,
        bad: BadRowReceiver,
        types: Mapping[str, CsvType] | None = None,
    ) -> None:
        """``types`` are the types of text columns that have numbers or booleans."""
        self._fields = fields
        self._types = types or {}
        self._columns = fields.columns()
        self._folders = folders
        self._bad = bad
        self._schema = fields.schema()

    def of_table(
        self, table: pa.RecordBatch, rows: Sequence[int], broken: dict[int, str]
    ) -> pa.RecordBatch:
        """Records of table rows with these numbers; ``broken`` has the reasons of bad rows."""
        existing = set(table.schema.names)
        extra = [(name, value) for name, value in self._folders if name not in existing]
        names = [*table.schema.names, *(name for name, _ in extra)]
        if len(set(names)) < len(names):
            raise Invalid(f"the file has two columns of one name: {', '.join(names)}")
        arrays = [
            *table.columns,
            *(pa.repeat(pa.scalar(v, pa.string()), len(table)) for _, v in extra),
        ]
        values: dict[str, list[Any]] = {}
        for field, column in self._columns.items():
            if column not in names:
                raise Invalid(f"there is no column {column!r}: columns are {', '.join(names)}")
            values[field] = _raw_values(arrays[names.index(column)], column)
        if "data" not in values:
            columns = [json_values(array, name) for array, name in zip(arrays, names, strict=True)]
            for index, name in enumerate(table.schema.names):
                if name in self._types:
                    columns[index] = typed_values(columns[index], self._types[name])
            values["data"] = json_rows(names, columns)
        return self._records(values, rows, broken)

    def of_lines(self, lines: Sequence[bytes], rows: Sequence[int]) -> pa.RecordBatch:
        """Records of JSON values with these numbers."""
        broken: dict[int, str] = {}
        values: dict[str, list[Any]] = {name: [] for name in {"data", *self._columns}}
        for index, line in enumerate(lines):
            values_of: dict[str, Any] = {}
            try:
                values_of = self._of_line(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                broken[index] = f"it is not valid JSON, or not an object ({error})"
            for name, column in values.items():
                column.append(values_of.get(name))
        return self._records(values, rows, broken)

    def _of_line(self, line: bytes) -> dict[str, Any]:
        line.decode()  # the decoder does not validate strings that it skips
        if not self._columns and not self._folders:
            _raw_value.decode(line)
            return {"data": line}
        fields = _raw_fields.decode(line)
        for name, value in self._folders:
            fields.setdefault(name, msgspec.Raw(json_text(value)))
        values: dict[str, Any] = {
            field: _raw_field(fields.get(column)) for field, column in self._columns.items()
        }
        if "data" not in self._columns:
            values["data"] = json_text(fields) if self._folders else line
        return values

    def _records(
        self, values: dict[str, list[Any]], rows: Sequence[int], broken: dict[int, str]
    ) -> pa.RecordBatch:
        """Rows with the types of a record, without the bad ones."""
        for field, column in values.items():
            if self._fields.base64 and field in self._columns and field not in _TEXTS:
                column[:] = [
                    _decoded_base64(value, index, broken) for index, value in enumerate(column)
                ]
            _check(field, column, broken)
        for index in sorted(broken):
            self._bad.report(rows[index], broken[index])
        good = [index for index in range(len(rows)) if index not in broken]
        arrays = []
        for field in self._schema:
            if field.name in values:
                column = values[field.name]
                selected = column if len(good) == len(column) else [column[index] for index in good]
                arrays.append(pa.array(selected, pa.binary()).cast(field.type))
            else:
                value = getattr(self._fields, f"{field.name}_value")
                arrays.append(pa.repeat(pa.scalar(value, field.type), len(good)))
        return pa.record_batch(arrays, schema=self._schema)


def _raw_values(array: pa.Array, name: str) -> list[Any]:
    """A column as the bytes of its values."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if any(test(array.type) for test in (*_BYTES_LIKE, *_TEXT_LIKE)):
        values: list[Any] = array.cast(pa.binary()).to_pylist()
        return values
    return [None if value is None else json_text(value) for value in json_values(array, name)]


def _raw_field(raw: msgspec.Raw | None) -> bytes | None:
    if raw is None:
        return None
    text = bytes(raw).strip()
    if text == b"null":
        return None
    return _text_value.decode(text).encode() if text.startswith(b'"') else text


def _decoded_base64(value: bytes | None, index: int, broken: dict[int, str]) -> bytes | None:
    if value is None:
        return None
    try:
        return b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        broken.setdefault(index, f"it is not base64 ({error})")
        return None


def _check(field: str, column: Sequence[bytes | None], broken: dict[int, str]) -> None:
    size_max = _SIZES[field]
    for index, value in enumerate(column):
        if value is None:
            if field == "data":
                broken.setdefault(index, "it has no data")
        elif len(value) > size_max:
            broken.setdefault(index, f"its {field} of {len(value)} bytes is over {size_max}")
        elif field in _TEXTS and not value.isascii():
            try:
                value.decode()
            except UnicodeDecodeError:
                broken.setdefault(index, f"its {field} is not text in UTF-8")
