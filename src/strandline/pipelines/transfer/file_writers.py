"""Writes records as files of other programs: Parquet, CSV and JSON lines, one for each folder.

| | parquet | csv, jsonl |
|---|---|---|
| `seq` | 64-bit integer | number |
| `ts` | timestamp, microseconds, UTC | RFC 3339: `2026-11-16T08:15:00.123456Z` |
| `tag`, `node` | text | text |
| `key`, `meta` | bytes; text unless data is `binary` | base64; text unless data is `binary` |
| `data`, as `binary` | bytes | base64 |
| `data`, as `text` | text | text |
| `data`, as `json` | columns (``pipelines/splits/flatten_json.py``) | csv the same; jsonl the JSON
itself |

In CSV null is an empty value, and empty text is ``""``.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from strandline.errors import Invalid
from strandline.pipelines.splits import record_schema as named
from strandline.pipelines.splits.flatten_json import FlattenedField, arrays_of
from strandline.pipelines.transfer.json_rows import json_rows, json_values
from strandline.platform.input_files import HIVE_NULL
from strandline.platform.objectstore.protocol import is_key

FORMATS = ("parquet", "csv", "jsonl")
DATA_FORMS = ("binary", "text", "json")
PARTITIONS = ("day", "hour", "tag")
_GROUP_ROWS = 131_072
_BYTES = ("key", "meta", "data")
_TIME_FORMATS = {"day": ("%Y-%m-%d",), "hour": ("%Y-%m-%d", "%H")}
_raw = msgspec.json.Decoder(msgspec.Raw)


class ExportFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The form of exported files."""

    format: str
    columns: tuple[str, ...]
    """Columns of the record, in their order."""
    data: str
    partition_by: str = ""
    expanded: tuple[FlattenedField, ...] = ()

    def needed(self) -> tuple[str, ...]:
        """The columns of records to read."""
        partition_column = {"day": "ts", "hour": "ts", "tag": "tag"}.get(self.partition_by)
        return tuple(
            name
            for name in named.RECORD
            if name in ("seq", *self.columns) or name == partition_column
        )

    @property
    def embeds_json(self) -> bool:
        """Whether data is JSON inside a JSON line."""
        return self.format == "jsonl" and self.data == "json"

    @property
    def flattens_json(self) -> bool:
        return self.data == "json" and self.format != "jsonl" and "data" in self.columns

    def file_columns(self) -> tuple[str, ...]:
        """Columns of the record that become columns of a file; folder names have the partition."""
        omitted = {"tag"} if self.partition_by == "tag" else set()
        omitted |= {"data"} if self.flattens_json else set()
        return tuple(name for name in self.columns if name not in omitted)


class ExportContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one file."""

    folder: str
    rows: int
    content: bytes


def write_files(rendering: ExportFormat, batches: Iterator[pa.RecordBatch]) -> list[ExportContent]:
    """Files with the rows of some batches, in order: one for each folder."""
    writers: dict[str, _Writer] = {}
    for batch in batches:
        for folder, rows in _by_folder(rendering, batch):
            if folder not in writers:
                writers[folder] = _WRITERS[rendering.format](rendering)
            writers[folder].add(_file_columns(rendering, rows))
    return [writer.done(folder) for folder, writer in writers.items()]


def _by_folder(
    rendering: ExportFormat, batch: pa.RecordBatch
) -> Iterator[tuple[str, pa.RecordBatch]]:
    if not rendering.partition_by:
        yield "", batch
        return
    names = _folders(rendering.partition_by, batch)
    for folder in dict.fromkeys(names):  # in the order of their first rows
        yield folder, batch.filter(pa.array([name == folder for name in names]))


def _folders(by: str, batch: pa.RecordBatch) -> list[str]:
    if by == "tag":
        return [_tag_folder(tag) for tag in batch.column("tag").to_pylist()]
    parts = [
        pc.strftime(batch.column("ts"), time_format).to_pylist()
        for time_format in _TIME_FORMATS[by]
    ]
    return [
        f"day={row[0]}/" + "".join(f"hour={hour}/" for hour in row[1:])
        for row in zip(*parts, strict=True)
    ]


def _tag_folder(tag: str | None) -> str:
    if tag is None:
        return f"tag={HIVE_NULL}/"
    if not tag or not is_key(f"tag={tag}") or "/" in tag or tag == HIVE_NULL:
        raise Invalid(
            f"the tag {tag!r} cannot name a folder: it may have letters, digits and -_.=; export "
            "without partitions, or by day"
        )
    return f"tag={tag}/"


def _file_columns(rendering: ExportFormat, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of a file with their types."""
    names, arrays = [], []
    for name in rendering.file_columns():
        array = batch.column(name)
        if name in _BYTES and not (rendering.embeds_json and name == "data"):
            array = _readable(rendering, name, array, batch)
        names.append(name)
        arrays.append(array)
    if rendering.flattens_json:
        seqs, data = batch.column("seq").to_pylist(), batch.column("data").to_pylist()
        names += [each.column for each in rendering.expanded]
        arrays += arrays_of(rendering.expanded, seqs, data)
    return pa.record_batch(arrays, names=names)


def _readable(
    rendering: ExportFormat, name: str, array: pa.Array, batch: pa.RecordBatch
) -> pa.Array:
    if rendering.data == "binary":
        if rendering.format == "parquet":
            return array
        encoded = [None if value is None else b64encode(value) for value in array.to_pylist()]
        return pa.array(encoded, pa.binary()).cast(pa.string())
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        seqs = batch.column("seq").to_pylist()
        for seq, value in zip(seqs, array.to_pylist(), strict=True):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                raise Invalid(
                    f"{name} of record {seq} is not text in UTF-8: export with data as binary"
                ) from None
        raise


class _Writer(Protocol):
    """Writes one file. Owned by one thread."""

    def __init__(self, rendering: ExportFormat) -> None: ...

    def add(self, batch: pa.RecordBatch) -> None: ...

    def done(self, folder: str) -> ExportContent: ...


class _Parquet:
    """Row groups of many rows, independent of the sizes of batches."""

    def __init__(self, rendering: ExportFormat) -> None:
        del rendering
        self._sink = pa.BufferOutputStream()
        self._writer: Any = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._count += len(batch)
        self._rows += len(batch)
        if self._count >= _GROUP_ROWS:
            self._write()

    def done(self, folder: str) -> ExportContent:
        self._write()
        self._writer.close()
        content = self._sink.getvalue().to_pybytes()
        return ExportContent(folder=folder, rows=self._rows, content=content)

    def _write(self) -> None:
        if self._writer is None:
            schema = self._waiting[0].schema
            self._writer = parquet.ParquetWriter(self._sink, schema, compression="zstd")
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=_GROUP_ROWS)
        self._waiting, self._count = [], 0


class _Csv:
    """A line of names, then a line for each row."""

    def __init__(self, rendering: ExportFormat) -> None:
        del rendering
        self._sink = pa.BufferOutputStream()
        self._writer: Any = None
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        texts = _with_texts(batch)
        if self._writer is None:
            self._writer = csv.CSVWriter(self._sink, texts.schema)
        self._writer.write_batch(texts)
        self._rows += len(batch)

    def done(self, folder: str) -> ExportContent:
        self._writer.close()
        content = self._sink.getvalue().to_pybytes()
        return ExportContent(folder=folder, rows=self._rows, content=content)


class _JsonLines:
    """A JSON object in each line."""

    def __init__(self, rendering: ExportFormat) -> None:
        self._rendering = rendering
        self._lines: list[bytes] = []

    def add(self, batch: pa.RecordBatch) -> None:
        names = batch.schema.names
        values = [
            _embedded(batch)
            if self._rendering.embeds_json and name == "data"
            else json_values(column, name)
            for name, column in zip(names, batch.columns, strict=True)
        ]
        self._lines += json_rows(names, values)

    def done(self, folder: str) -> ExportContent:
        content = b"\n".join([*self._lines, b""])
        return ExportContent(folder=folder, rows=len(self._lines), content=content)


_WRITERS: dict[str, type[_Writer]] = {"parquet": _Parquet, "csv": _Csv, "jsonl": _JsonLines}


def _with_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times as text: their format does not depend on the CSV library."""
    columns = [
        pa.array(json_values(column, name), pa.string())
        if pa.types.is_timestamp(column.type)
        else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def _embedded(batch: pa.RecordBatch) -> Sequence[msgspec.Raw]:
    seqs = batch.column("seq").to_pylist() if "seq" in batch.schema.names else None
    values = []
    for index, data in enumerate(batch.column("data").to_pylist()):
        try:
            data.decode()
            _raw.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            record = f"record {seqs[index]}" if seqs else "a record"
            raise Invalid(
                f"{record} is not JSON ({error}): export data as text or binary"
            ) from None
        line = msgspec.json.format(data, indent=-1) if b"\n" in data else data
        values.append(msgspec.Raw(line))
    return values
