"""Files that are imported: cut into slices, and read slice by slice.

    parquet    cut between row groups
    jsonl      a JSON value in each line, empty lines passed over; cut anywhere: a line belongs to
               the slice in which it begins
    json       one array of JSON values, or values one behind the other as in jsonl; read whole
    csv        with a line of names first; a value may have line breaks, so it is cut only when told
               that none has. An empty value without quotes is null; ``csv_types.py`` says which
               values become numbers

Files with a second ending ``.gz``, ``.zst`` or ``.bz2`` are unpacked, and read whole.
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
from strandline.pipelines.transfer.row_mapping import Bad, Fields, Shaper
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
_SEARCHED = 64 * 1024
_HEADER_MAX = 1024 * 1024


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the rows of a file."""

    file: SourceFile
    format: str
    packed: str = ""
    first: int = 0
    next: int = -1
    """Row groups, or bytes in which lines begin; -1 is to the end."""
    size: int
    rows: int | None = None
    """Where that is known before it is read."""
    types: tuple[tuple[str, CsvType], ...] = ()
    """Columns of a CSV file that are not text."""


def slices_of(
    file: SourceFile, asked: str, *, size_max: int, splittable: bool, count: bool
) -> list[Slice]:
    """A file cut into slices of about a size. ``count`` looks for numbers of rows too."""
    kind, packed = _kind(file, asked)
    whole = Slice(file=file, format=kind, packed=packed, size=file.size)
    large = file.size > size_max and not packed
    if kind == "parquet" and (large or count):
        return _row_groups(whole, size_max)
    if large and (kind == "jsonl" or (kind == "csv" and splittable)):
        return _byte_ranges(whole, size_max)
    return [whole]


def read_slice(piece: Slice, fields: Fields, *, skip: bool) -> tuple[Iterator[pa.RecordBatch], Bad]:
    """The records of a slice; what was bad is complete when they are exhausted."""
    reader = _Reader(piece, fields, skip=skip)
    return reader.records(), reader.bad


def number_columns(piece: Slice) -> tuple[str, ...]:
    """The columns of a whole CSV file in which all values are numbers."""
    reader = _Reader(piece, Fields(), skip=True)
    found = NumberColumns()
    for batch in reader.columns():
        found.add(batch)
    return found.found()


def is_csv(file: SourceFile, asked: str) -> bool:
    """Whether a file is read as CSV."""
    return _kind(file, asked)[0] == "csv"


def _kind(file: SourceFile, asked: str) -> tuple[str, str]:
    name = file.url.rpartition("/")[2].lower()
    stem, _, ending = name.rpartition(".")
    packed = _PACKED.get(ending, "")
    if packed:
        ending = stem.rpartition(".")[2]
    kind = _ENDINGS.get(ending, "") if asked == "auto" else asked
    if not kind:
        raise Invalid(f"the name of {file.url} does not tell its format: say --format csv, …")
    if packed and kind == "parquet":
        raise Invalid(f"{file.url} is packed Parquet, which is compressed inside: unpack it")
    return kind, packed


def _row_groups(whole: Slice, size_max: int) -> list[Slice]:
    with open_source(whole.file) as opened:
        told = _parquet(whole, opened).metadata
        sizes = [
            sum(
                told.row_group(at).column(column).total_compressed_size
                for column in range(told.num_columns)
            )
            for at in range(told.num_row_groups)
        ]
        rows = [told.row_group(at).num_rows for at in range(told.num_row_groups)]
    found: list[Slice] = []
    first = 0
    for place in range(1, len(sizes) + 1):
        if place == len(sizes) or sum(sizes[first : place + 1]) > size_max:
            found.append(
                msgspec.structs.replace(
                    whole,
                    first=first,
                    next=place,
                    size=sum(sizes[first:place]),
                    rows=sum(rows[first:place]),
                )
            )
            first = place
    if whole.file.size <= size_max:  # counted, but not cut: as when nobody counts
        return [msgspec.structs.replace(whole, rows=sum(rows))]
    return found


def _byte_ranges(whole: Slice, size_max: int) -> list[Slice]:
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


def _parquet(piece: Slice, opened: Any) -> Any:
    try:
        return parquet.ParquetFile(opened)
    except pa.ArrowException as error:
        raise Invalid(f"{piece.file.url} cannot be read as Parquet: {error}") from error


class _Reader:
    """Reads one slice. Owned by one thread."""

    def __init__(self, piece: Slice, fields: Fields, *, skip: bool) -> None:
        self._piece = piece
        self._fields = fields
        self.bad = Bad(piece.file.url, skip=skip, number=self._number)
        self._shaper = Shaper(fields, piece.file.folders, self.bad, dict(piece.types))
        self._before: int | None = None

    def records(self) -> Iterator[pa.RecordBatch]:
        ways = {
            "parquet": self._of_parquet,
            "csv": self._of_csv,
            "json": self._of_json,
            "jsonl": self._of_lines,
        }
        try:
            yield from ways[self._piece.format]()
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise Invalid(
                f"{self._piece.file.url} cannot be read as {self._piece.format}: {error}"
            ) from error

    def _of_parquet(self) -> Iterator[pa.RecordBatch]:
        with open_source(self._piece.file) as opened:
            yield from self._of_row_groups(_parquet(self._piece, opened))

    def _of_row_groups(self, file: Any) -> Iterator[pa.RecordBatch]:
        piece = self._piece
        groups = range(piece.first, file.num_row_groups if piece.next < 0 else piece.next)
        row = 1 + sum(file.metadata.row_group(at).num_rows for at in range(piece.first))
        names = file.schema_arrow.names
        wanted = [name for name in self._fields.columns().values() if name in names]
        batches = file.iter_batches(
            _BATCH_ROWS,
            row_groups=list(groups),
            columns=wanted if self._fields.data else None,
            use_threads=False,
        )
        for batch in batches:
            yield self._shaper.of_table(batch, range(row, row + len(batch)), {})
            row += len(batch)

    def _of_lines(self) -> Iterator[pa.RecordBatch]:
        lines: list[bytes] = []
        numbers: list[int] = []
        size = 0
        for number, line in enumerate(_lines(self._blocks(), self._piece), start=1):
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
            raise Invalid(f"{self._piece.file.url} is no array of JSON values: {error}") from error
        for first in range(0, len(values), _BATCH_ROWS):
            some = [
                msgspec.json.format(bytes(raw), indent=-1) for raw in values[first:][:_BATCH_ROWS]
            ]
            yield self._shaper.of_lines(some, range(first + 1, first + 1 + len(some)))

    def columns(self) -> Iterator[pa.RecordBatch]:
        """The rows of a whole CSV file as columns of bytes, without those that are bad."""
        with self._stream() as stream:
            names = _header(stream)
        with self._stream() as stream:
            try:
                yield from _csv(stream, [], names, headed=True) if names else ()
            except pa.ArrowException as error:
                raise Invalid(f"{self._piece.file.url} cannot be read as csv: {error}") from error

    def _of_csv(self) -> Iterator[pa.RecordBatch]:
        with self._stream() as stream:
            names = _header(stream)
        if not names:
            return
        if self._piece.next < 0:
            with self._stream() as stream:
                yield from self._of_rows(stream, names)
        elif lines := b"".join(self._blocks()):
            yield from self._of_rows(pa.BufferReader(lines), names)

    def _of_rows(self, source: Any, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        headed = not self._piece.first
        unfit: list[tuple[int, str]] = []
        told, row = 0, 2 if headed else 1
        reader = _csv(source, unfit, names, headed=headed)
        while True:
            batch = next(reader, None)
            for place, reason in unfit[told:]:
                self.bad.tell(place, reason)
            told = len(unfit)
            if batch is None:
                return
            numbers = _numbered(row, len(batch), [place for place, _ in unfit])
            row = numbers[-1] + 1 if numbers else row
            texts, broken = _texts(batch)
            yield self._shaper.of_table(texts, numbers, broken)

    @contextmanager
    def _stream(self) -> Iterator[Any]:
        """The whole file, unpacked."""
        with open_source(self._piece.file) as opened:
            packed = self._piece.packed
            yield pa.CompressedInputStream(opened, packed) if packed else opened

    def _blocks(self) -> Iterator[bytes]:
        """The bytes of the slice, from the first line that begins in it to the end of its last."""
        with self._stream() as stream:
            at, end = 0, -1
            if self._piece.next >= 0:
                at = _line_from(stream, self._piece.first)
                end = _line_from(stream, self._piece.next)
                stream.seek(at)
            while block := stream.read(_BLOCK if end < 0 else min(_BLOCK, end - at)):
                yield block
                at += len(block)

    def _number(self, row: int) -> int:
        """The number of a row in its file, of one in this slice."""
        if self._piece.format not in ("jsonl", "csv") or not self._piece.first:
            return row
        if self._before is None:
            with open_source(self._piece.file) as opened:
                self._before = _lines_before(opened, _line_from(opened, self._piece.first))
        return self._before + row


def _line_from(opened: Any, offset: int) -> int:
    """Where the first line begins at an offset or behind it."""
    if not offset or offset >= opened.size():
        return min(offset, int(opened.size()))
    at = offset - 1  # a line begins here when the byte before ends one
    opened.seek(at)
    while block := opened.read(_SEARCHED):
        found = block.find(b"\n")
        if found >= 0:
            return int(at + found + 1)
        at += len(block)
    return at


def _lines_before(opened: Any, offset: int) -> int:
    opened.seek(0)
    count, left = 0, offset
    while left and (block := opened.read(min(_BLOCK, left))):
        count += block.count(b"\n")
        left -= len(block)
    return count


def _lines(blocks: Iterator[bytes], piece: Slice) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        if len(rest) > _LINE_MAX:
            raise Invalid(
                f"{piece.file.url} has a line of over {_LINE_MAX} bytes: is it {piece.format}?"
            )
    if rest:
        yield rest


def _begins_array(blocks: Iterator[bytes]) -> bool:
    for block in blocks:
        text = block.lstrip()
        if text:
            return text.startswith(b"[")
    return False


def _header(stream: Any) -> list[str]:
    """The names of the columns; none when there are no rows."""
    begin = bytes(stream.read(_HEADER_MAX)).removeprefix(b"\xef\xbb\xbf")
    if b"\n" not in begin and b"\r" not in begin:
        return []
    return next(plain_csv.reader(io.StringIO(begin.decode(errors="replace"), newline="")), [])


def _csv(source: Any, unfit: list[tuple[int, str]], names: Sequence[str], *, headed: bool) -> Any:
    """Batches of columns of bytes; rows with too many or too few values go to ``unfit``."""

    def note(row: Any) -> str:
        reason = f"it has {row.actual_columns} values, not {row.expected_columns}"
        unfit.append((row.number, reason))
        return "skip"

    return csv.open_csv(
        source,
        csv.ReadOptions(
            use_threads=False, block_size=_CSV_BLOCK, column_names=None if headed else names
        ),
        csv.ParseOptions(
            newlines_in_values=True,
            invalid_row_handler=note,
            ignore_empty_lines=len(names) > 1,  # of one column an empty line is a row
        ),
        csv.ConvertOptions(
            default_column_type=pa.binary(),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def _numbered(row: int, count: int, left_out: Sequence[int]) -> list[int]:
    """The numbers of rows from one on, without those that were left out."""
    gone = set(left_out)
    numbers: list[int] = []
    while len(numbers) < count:
        if row not in gone:
            numbers.append(row)
        row += 1
    return numbers


def _texts(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Columns of bytes as text, and the rows in which they are none."""
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
    for place, value in enumerate(column.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            texts.append(None)
            broken.setdefault(place, f"its column {name!r} is not text in UTF-8")
    return pa.array(texts, pa.string())
