"""Reads a lake file zone by zone, verified, with ranged reads of an object.

Opening takes one fetch of the tail, a zone takes one fetch of exactly its bytes. Zones are dense:
the first begins with the file's first seq, each next one after the last row of the one before, the
last ends with the file's last seq. Holes that would make a zone too long are zones of their own
without bytes.

Parquet locates a row group by its offset in the file. So the bytes of a zone are stored at that
offset of a buffer that is as long as the file and otherwise untouched, which costs only address
space; pyarrow then decodes them without calling back into Python.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_64_intdigest, xxh3_128

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.lake.files.file_writer import FORMAT_KEY, FORMAT_VERSION, ZONE_SPAN, ZONES_KEY
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.files.zone import Zone
from strandline.platform.direct_file import aligned_memory
from strandline.platform.thread_pool import ThreadPool

Fetch = Callable[[int, int], bytes]
"""Returns bytes of the object: from an offset, so many. Its errors pass through."""

RECORD = tuple(SCHEMA.names)
"""The default columns, without the typed ones: those are derived from ``data``."""

FetchInto = Callable[[int, memoryview], None]
"""The same into a given buffer, which it fills: saves a copy where a store supports it."""

_ALWAYS = ("seq", "ts")
_TS = SCHEMA.get_field_index("ts")
_CONTENT_STEP = 8 * 1024 * 1024
_STORED_ZONES = msgspec.json.Decoder(list[tuple[int, int, int, int, int]])


class LakeFileFacts(Protocol):
    """The facts needed to read a file: any entry of a manifest or checkpoint."""

    @property
    def first_seq(self) -> int: ...
    @property
    def last_seq(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def tail_offset(self) -> int: ...
    @property
    def tail_checksum(self) -> int: ...


class ZoneInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A zone without its content."""

    first_seq: int
    last_seq: int
    rows: int
    ts_min: int
    ts_max: int
    offset: int = 0
    size: int = 0
    checksum: int = 0
    group: int = -1
    """The row group, -1 for a zone of holes."""


class LakeFileReader:
    """One immutable file. Safe from many threads, when ``fetch`` is."""

    def __init__(
        self,
        fetch: Fetch,
        listed: LakeFileFacts,
        topic_id: int,
        label: str,
        fetch_into: FetchInto | None = None,
    ) -> None:
        self.listed = listed
        self.label = label
        self._fetch = fetch
        self._fetch_into = fetch_into
        self._topic_id = topic_id
        self._opened: tuple[Any, list[ZoneInfo]] | None = None

    @property
    def zones(self) -> list[ZoneInfo]:
        """The zones in order; fetches the tail on first use."""
        return self._open()[1]

    def bounds(self, index: int, column: str) -> tuple[Any, Any] | None:
        """Smallest and largest value of a column in a zone, both None when it has no value there;
        None when the file has no statistics."""
        group = self.zones[index].group
        if group < 0:
            return None, None
        row_group = self._open()[0].row_group(group)
        values = row_group.column(SCHEMA.get_field_index(column)).statistics
        if values is None or (values.num_values and not values.has_min_max):
            return None
        return (values.min, values.max) if values.num_values else (None, None)

    def zone_at(self, seq: int) -> int:
        """The index of the zone that covers a seq; LookupError when the file does not."""
        if not self.listed.first_seq <= seq <= self.listed.last_seq:
            raise LookupError(seq)
        return bisect.bisect_right(self.zones, seq, key=lambda zone: zone.first_seq) - 1

    def zone_at_time(self, ts: int) -> int:
        """The index of the first zone that holds this time or a later one, or after the last."""
        return bisect.bisect_left(self.zones, ts, key=lambda zone: zone.ts_max)

    def zone(self, index: int, columns: Sequence[str] = RECORD) -> Zone:
        """A zone with the columns of a record, or with seq, ts and the chosen ones."""
        info = self.zones[index]
        return Zone(
            self._rows(info, _with_seq_and_ts(columns)),
            topic_id=self._topic_id,
            first_seq=info.first_seq,
            last_seq=info.last_seq,
            ts=self.zones[index - 1].ts_max if index else info.ts_min,
        )

    def rows(self, index: int, columns: Sequence[str] = RECORD) -> pa.Table:
        """The rows of a zone without holes, with exactly these columns."""
        return self._rows(self.zones[index], columns)

    def tables(
        self, columns: Sequence[str] = RECORD, *, threads: ThreadPool, ahead: int = 4
    ) -> Iterator[pa.Table]:
        """The rows of the whole file, a table for each row group, ``ahead`` of them read ahead."""
        pending: deque[Future[pa.Table]] = deque()
        selected = _with_seq_and_ts(columns)
        try:
            for info in self.zones:
                if info.rows:
                    pending.append(threads.submit(self._rows, info, selected))
                if len(pending) > ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def content(self) -> str:
        """The hash of all bytes, read in steps: equals the entry's in an intact file."""
        hasher = xxh3_128()
        for part in self.parts():
            hasher.update(part)
        return hasher.hexdigest()

    def parts(self) -> Iterator[bytes]:
        """All bytes, a few megabytes at a time, unchecked."""
        for offset in range(0, self.listed.size, _CONTENT_STEP):
            yield self._fetch(offset, min(_CONTENT_STEP, self.listed.size - offset))

    def _rows(self, info: ZoneInfo, columns: Sequence[str]) -> pa.Table:
        if info.group < 0:
            empty = self._open()[0].schema.to_arrow_schema().empty_table()
            return empty.select(list(columns))
        memory = aligned_memory(self.listed.size)
        target = memory[info.offset : info.offset + info.size]
        if self._fetch_into is not None:
            self._fetch_into(info.offset, target)
        else:
            fetched = self._fetch(info.offset, info.size)
            if len(fetched) != info.size:
                raise self._damaged(f"got {len(fetched)} of a zone's {info.size} bytes", info)
            target[:] = fetched
        if xxh3_64_intdigest(target, self._topic_id) != info.checksum:
            raise self._damaged("a zone fails its checksum", info)
        source = pa.BufferReader(pa.py_buffer(memory))
        file = pq.ParquetFile(source, metadata=self._open()[0])
        return file.read_row_group(info.group, columns=list(columns))

    def _open(self) -> tuple[Any, list[ZoneInfo]]:
        if self._opened is None:
            metadata = self._metadata()
            self._opened = metadata, list(_zones(metadata, self.listed))
        return self._opened

    def _metadata(self) -> Any:
        listed = self.listed
        tail = self._fetch(listed.tail_offset, listed.size - listed.tail_offset)
        if xxh3_64_intdigest(tail, self._topic_id) != listed.tail_checksum:
            raise Corrupt(
                "the footer of a lake file fails its checksum",
                path=self.label,
                offset=listed.tail_offset,
                topic_id=self._topic_id,
                first_seq=listed.first_seq,
                last_seq=listed.last_seq,
            )
        metadata = pq.read_metadata(pa.BufferReader(tail))
        version = int(metadata.metadata[FORMAT_KEY.encode()])
        if version > FORMAT_VERSION:
            raise UnsupportedFormat(f"{self.label} has lake format {version}: upgrade to read it")
        return metadata

    def _damaged(self, reason: str, info: ZoneInfo) -> Corrupt:
        return Corrupt(
            reason,
            path=self.label,
            offset=info.offset,
            topic_id=self._topic_id,
            first_seq=info.first_seq,
            last_seq=info.last_seq,
        )


def _with_seq_and_ts(columns: Sequence[str]) -> list[str]:
    return [*dict.fromkeys((*_ALWAYS, *columns))]


def _zones(metadata: Any, listed: LakeFileFacts) -> Iterator[ZoneInfo]:
    """The row groups, and the holes around them, as dense zones."""
    stored = _STORED_ZONES.decode(metadata.metadata[ZONES_KEY.encode()])
    seq, ts = listed.first_seq, 0
    for group, (first_row, last_row, offset, size, checksum) in enumerate(stored):
        row_group = metadata.row_group(group)
        stamps = row_group.column(_TS).statistics
        if last_row - seq >= ZONE_SPAN:
            yield from _holes(seq, first_row, ts or stamps.min_raw)
            seq = first_row
        last_seq = last_row
        if group == len(stored) - 1 and listed.last_seq - seq < ZONE_SPAN:
            last_seq = listed.last_seq
        yield ZoneInfo(
            first_seq=seq,
            last_seq=last_seq,
            rows=row_group.num_rows,
            ts_min=stamps.min_raw,
            ts_max=stamps.max_raw,
            offset=offset,
            size=size,
            checksum=checksum,
            group=group,
        )
        seq, ts = last_seq + 1, stamps.max_raw
    yield from _holes(seq, listed.last_seq + 1, ts)


def _holes(first_seq: int, next_seq: int, ts: int) -> Iterator[ZoneInfo]:
    for seq in range(first_seq, next_seq, ZONE_SPAN):
        last_seq = min(seq + ZONE_SPAN, next_seq) - 1
        yield ZoneInfo(first_seq=seq, last_seq=last_seq, rows=0, ts_min=ts, ts_max=ts)
