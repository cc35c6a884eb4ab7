"""Divides imported files into slices, and reads the slices.

    parquet    divided between row groups
    jsonl      a JSON value in each line, empty lines are skipped; divided between lines
    json       one array of JSON values, or one value after the other as in jsonl; read whole
    csv        with a line of names first; values may have line breaks, so a file is divided only
               with ``splittable``. An unquoted empty value is null; numbers: ``csv_types.py``

Files with a second ending ``.gz``, ``.zst`` or ``.bz2`` are decompressed, and read whole.
"""

from __future__ import annotations

import csv as plain_csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import csv, parquet

from strandline.errors import Invalid
from strandline.pipelines.transfer.csv_types import CsvType, NumberColumns
from strandline.pipelines.transfer.row_mapping import BadRows, Fields, RecordMapper
from strandline.platform.input_files import SourceFile, open_source

FORMATS = ("parquet", "csv", "json", "jsonl")
_ENDINGS = {
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
}
_PACKED = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "bz2": "bz2"}
_BATCH_ROWS = 8_192
_BLOCK = 4 * 1024 * 1024
_CSV_BLOCK = 16 * 1024 * 1024  # no row may be longer
_LINE_MAX = 64 * 1024 * 1024
_SEARCH_SIZE = 64 * 1024
_HEADER_MAX = 1024 * 1024


class FileSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the rows of a file."""

    file: SourceFile
    format: str
    packed: str = ""
    first: int = 0
    next: int = -1
    """Range of row groups, or of bytes in which lines begin; -1: to the end."""
    size: int
    rows: int | None = None
    """Number of rows, if it is known before reading."""
    types: tuple[tuple[str, CsvType], ...] = ()
    """Columns of a CSV file that are not text."""


def slices_of(
    file: SourceFile, requested: str, *, size_max: int, splittable: bool, count: bool
) -> list[FileSlice]:
    """Divide a file into slices of about ``size_max``. With ``count`` also read row counts."""
    kind, codec = _format_of(file, requested)
    whole = FileSlice(file=file, format=kind, packed=codec, size=file.size)
    large = file.size > size_max and not codec
    if kind == "parquet" and (large or count):
        return _row_groups(whole, size_max)
    if large and (kind == "jsonl" or (kind == "csv" and splittable)):
        return _byte_ranges(whole, size_max)
    return [whole]


def read_slice(
    part: FileSlice, fields: Fields, *, skip: bool
) -> tuple[Iterator[pa.RecordBatch], BadRows]:
    """The records of a slice; its bad rows are complete when the records are exhausted."""
    reader = _Reader(part, fields, skip=skip)
    return reader.records(), reader.bad


def number_columns(slice_: FileSlice) -> tuple[str, ...]:
    """The columns of a whole CSV file in which all values are numbers."""
    reader = _Reader(slice_, Fields(), skip=True)
    columns = NumberColumns()
    for batch in reader.columns():
        columns.add(batch)
    return columns.names()


def is_csv(file: SourceFile, requested: str) -> bool:
    """Whether a file is read as CSV."""
    return _format_of(file, requested)[0] == "csv"


def _format_of(file: SourceFile, requested: str) -> tuple[str, str]:
    name = file.url.rpartition("/")[2].lower()
    stem, _, ending = name.rpartition(".")
    codec = _PACKED.get(ending, "")
    if codec:
        ending = stem.rpartition(".")[2]
    kind = _ENDINGS.get(ending, "") if requested == "auto" else requested
    if not kind:
        raise Invalid(f"the format of {file.url} is not known from its name: use --format csv, …")
    if codec and kind == "parquet":
        raise Invalid(f"{file.url} is compressed Parquet, which is not supported: decompress it")
    return kind, codec


def _row_groups(whole: FileSlice, size_max: int) -> list[FileSlice]:
    with open_source(whole.file) as file:
        metadata = _parquet(whole, file).metadata
        sizes = [
            sum(
                metadata.row_group(group).column(column).total_compressed_size
                for column in range(metadata.num_columns)
            )
            for group in range(metadata.num_row_groups)
        ]
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    slices: list[FileSlice] = []
    first = 0
    for end in range(1, len(sizes) + 1):
        if end == len(sizes) or sum(sizes[first : end + 1]) > size_max:
            slices.append(
                msgspec.structs.replace(
                    whole,
                    first=first,
                    next=end,
                    size=sum(sizes[first:end]),
                    rows=sum(rows[first:end]),
                )
            )
            first = end
    if whole.file.size <= size_max:  # counted, but not divided: as without count
        return [msgspec.structs.replace(whole, rows=sum(rows))]
    return slices


def _byte_ranges(whole: FileSlice, size_max: int) -> list[FileSlice]:
    size = whole.file.size
    return [
        msgspec.structs.replace(
            whole,
            first=first,
            next=min(first + size_max, size),
            size=min(first + size_max, size) - first,
        )
        for first in range(0, size, size_max)
    ]


def _parquet(slice_: FileSlice, opened: Any) -> Any:
    try:
        return parquet.ParquetFile(opened)
    except pa.ArrowException as error:
        raise Invalid(f"{slice_.file.url} cannot be read as Parquet: {error}") from error


class _Reader:
    """Reads one slice. Owned by one thread."""

    def __init__(self, slice_: FileSlice, fields: Fields, *, skip: bool) -> None:
        self._slice = slice_
        self._fields = fields
        self.bad = BadRows(slice_.file.url, skip=skip, number=self._number)
        self._shaper = RecordMapper(fields, slice_.file.folders, self.bad, dict(slice_.types))
        self._rows_before: int | None = None

    def records(self) -> Iterator[pa.RecordBatch]:
        readers = {
            "parquet": self._of_parquet,
            "csv": self._of_csv,
            "json": self._of_json,
            "jsonl": self._of_lines,
        }
        try:
            yield from readers[self._slice.format]()
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise Invalid(
                f"{self._slice.file.url} cannot be read as {self._slice.format}: {error}"
            ) from error

    def _of_parquet(self) -> Iterator[pa.RecordBatch]:
        with open_source(self._slice.file) as opened:
            yield from self._of_row_groups(_parquet(self._slice, opened))

    def _of_row_groups(self, file: Any) -> Iterator[pa.RecordBatch]:
        slice_ = self._slice
        groups = range(slice_.first, file.num_row_groups if slice_.next < 0 else slice_.next)
        row = 1 + sum(file.metadata.row_group(group).num_rows for group in range(slice_.first))
        names = file.schema_arrow.names
        selected = [name for name in self._fields.columns().values() if name in names]
        batches = file.iter_batches(
            _BATCH_ROWS,
            row_groups=list(groups),
            columns=selected if self._fields.data else None,
            use_threads=False,
        )
        for batch in batches:
            yield self._shaper.of_table(batch, range(row, row + len(batch)), {})
            row += len(batch)

    def _of_lines(self) -> Iterator[pa.RecordBatch]:
        lines: list[bytes] = []
        numbers: list[int] = []
        size = 0
        for number, line in enumerate(_lines(self._blocks(), self._slice), start=1):
            value = line.strip()
            if not value:
                continue
            lines.append(value)
            numbers.append(number)
            size += len(value)
            if len(lines) >= _BATCH_ROWS or size >= _BLOCK:
                yield self._shaper.of_lines(lines, numbers)
                lines, numbers, size = [], [], 0
        if lines:
            yield self._shaper.of_lines(lines, numbers)

    def _of_json(self) -> Iterator[pa.RecordBatch]:
        if not _begins_array(self._blocks()):
            yield from self._of_lines()
            return
        try:
            values = msgspec.json.decode(b"".join(self._blocks()), type=list[msgspec.Raw])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Invalid(f"{self._slice.file.url} is not a JSON array: {error}") from error
        for first in range(0, len(values), _BATCH_ROWS):
            batch = [
                msgspec.json.format(bytes(raw), indent=-1) for raw in values[first:][:_BATCH_ROWS]
            ]
            yield self._shaper.of_lines(batch, range(first + 1, first + 1 + len(batch)))

    def columns(self) -> Iterator[pa.RecordBatch]:
        """The rows of a whole CSV file as columns of bytes, without those that are bad."""
        with self._stream() as stream:
            names = _column_names(stream)
        with self._stream() as stream:
            try:
                yield from _csv(stream, [], names, has_header=True) if names else ()
            except pa.ArrowException as error:
                raise Invalid(f"{self._slice.file.url} cannot be read as csv: {error}") from error

    def _of_csv(self) -> Iterator[pa.RecordBatch]:
        with self._stream() as stream:
            names = _column_names(stream)
        if not names:
            return
        if self._slice.next < 0:
            with self._stream() as stream:
                yield from self._of_rows(stream, names)
        elif lines := b"".join(self._blocks()):
            yield from self._of_rows(pa.BufferReader(lines), names)

    def _of_rows(self, source: Any, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        has_header = not self._slice.first
        bad_rows: list[tuple[int, str]] = []
        reported, row = 0, 2 if has_header else 1
        reader = _csv(source, bad_rows, names, has_header=has_header)
        while True:
            batch = next(reader, None)
            for number_of, reason in bad_rows[reported:]:
                self.bad.report(number_of, reason)
            reported = len(bad_rows)
            if batch is None:
                return
            numbers = _numbered(row, len(batch), [number_of for number_of, _ in bad_rows])
            row = numbers[-1] + 1 if numbers else row
            texts, broken = _texts(batch)
            yield self._shaper.of_table(texts, numbers, broken)

    @contextmanager
    def _stream(self) -> Iterator[Any]:
        """The whole file, decompressed."""
        with open_source(self._slice.file) as opened:
            codec = self._slice.packed
            yield pa.CompressedInputStream(opened, codec) if codec else opened

    def _blocks(self) -> Iterator[bytes]:
        """The bytes of the slice, from the first line that begins in it to the end of its last."""
        with self._stream() as stream:
            offset, end = 0, -1
            if self._slice.next >= 0:
                offset = _line_from(stream, self._slice.first)
                end = _line_from(stream, self._slice.next)
                stream.seek(offset)
            while block := stream.read(_BLOCK if end < 0 else min(_BLOCK, end - offset)):
                yield block
                offset += len(block)

    def _number(self, row: int) -> int:
        """The number in its file of a row of this slice."""
        if self._slice.format not in ("jsonl", "csv") or not self._slice.first:
            return row
        if self._rows_before is None:
            with open_source(self._slice.file) as opened:
                self._rows_before = _lines_before(opened, _line_from(opened, self._slice.first))
        return self._rows_before + row


def _line_from(opened: Any, offset: int) -> int:
    """The offset of the first line that begins at an offset or after it."""
    if not offset or offset >= opened.size():
        return min(offset, int(opened.size()))
    position = offset - 1  # a line begins here when the byte before ends one
    opened.seek(position)
    while block := opened.read(_SEARCH_SIZE):
        index = block.find(b"\n")
        if index >= 0:
            return int(position + index + 1)
        position += len(block)
    return position


def _lines_before(opened: Any, offset: int) -> int:
    opened.seek(0)
    count, left = 0, offset
    while left and (block := opened.read(min(_BLOCK, left))):
        count += block.count(b"\n")
        left -= len(block)
    return count


def _lines(blocks: Iterator[bytes], slice_: FileSlice) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *complete, rest = (rest + block).split(b"\n")
        yield from complete
        if len(rest) > _LINE_MAX:
            raise Invalid(
                f"{slice_.file.url} has a line of over {_LINE_MAX} bytes: is it {slice_.format}?"
            )
    if rest:
        yield rest


def _begins_array(blocks: Iterator[bytes]) -> bool:
    for block in blocks:
        text = block.lstrip()
        if text:
            return text.startswith(b"[")
    return False


def _column_names(stream: Any) -> list[str]:
    """The names of the columns; none when there are no rows."""
    begin = bytes(stream.read(_HEADER_MAX)).removeprefix(b"\xef\xbb\xbf")
    if b"\n" not in begin and b"\r" not in begin:
        return []
    return next(plain_csv.reader(io.StringIO(begin.decode(errors="replace"), newline="")), [])


def _csv(
    source: Any, bad_rows: list[tuple[int, str]], names: Sequence[str], *, has_header: bool
) -> Any:
    """Batches of byte columns; rows with too many or too few values are added to ``bad_rows``."""

    def skip_row(row: Any) -> str:
        reason = f"it has {row.actual_columns} values, not {row.expected_columns}"
        bad_rows.append((row.number, reason))
        return "skip"

    return csv.open_csv(
        source,
        csv.ReadOptions(
            use_threads=False, block_size=_CSV_BLOCK, column_names=None if has_header else names
        ),
        csv.ParseOptions(
            newlines_in_values=True,
            invalid_row_handler=skip_row,
            ignore_empty_lines=len(names) > 1,  # with one column an empty line is a row
        ),
        csv.ConvertOptions(
            default_column_type=pa.binary(),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def _numbered(row: int, count: int, skipped_rows: Sequence[int]) -> list[int]:
    """The numbers of ``count`` rows from ``row`` on, without skipped ones."""
    skipped = set(skipped_rows)
    numbers: list[int] = []
    while len(numbers) < count:
        if row not in skipped:
            numbers.append(row)
        row += 1
    return numbers


def _texts(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Byte columns as text, and the rows that are not text."""
    broken: dict[int, str] = {}
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns.append(column.cast(pa.string()))
        except pa.ArrowInvalid:
            columns.append(_readable(column, name, broken))
    return pa.record_batch(columns, names=batch.schema.names), broken


def _readable(column: pa.Array, name: str, broken: dict[int, str]) -> pa.Array:
    texts: list[str | None] = []
    for index, value in enumerate(column.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            texts.append(None)
            broken.setdefault(index, f"its column {name!r} is not text in UTF-8")
    return pa.array(texts, pa.string())
