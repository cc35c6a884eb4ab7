"""Runs one task of a read, here or on an executor: reads parts of topics as Arrow batches.

A part is a piece of one lake file, a range of the store itself, or rows that were sent with the
task. Tasks never write: they read files that do not change, or open the store read-only. A worker
of Spark keeps a few stores open for its next tasks.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.errors import (
    Corrupt,
    NotAStore,
    NotFound,
    ObjectStoreDenied,
    RecordsLost,
    Unavailable,
    UnknownTopic,
)
from strandline.lake import object_keys
from strandline.lake.cold_index import ColdFile
from strandline.lake.files.file_reader import LakeFileReader, ZoneInfo
from strandline.log.read.snapshot import TopicSnapshot
from strandline.log.topic.topic import Topic
from strandline.pipelines.splits import record_schema
from strandline.pipelines.splits.predicates import Condition, matching_rows
from strandline.pipelines.splits.snapshot_position import open_readonly
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store

_STORES_MAX = 4
_TRIES = 4


class FilePart(msgspec.Struct, frozen=True, kw_only=True):
    """Zones of one lake file. Files are divided by the first seqs of zones."""

    lake: str
    topic: str
    topic_id: int
    manifest: int
    file: ColdFile
    own_first: int
    own_next: int
    first_seq: int
    last_seq: int
    """Only rows from first to last are read."""
    deleted: bytes = b""


class HotPart(msgspec.Struct, frozen=True, kw_only=True):
    """Records of the store that are not in the lake, at a snapshot."""

    store: str
    lake: str
    snapshot: TopicSnapshot
    first_seq: int
    last_seq: int

    @property
    def topic(self) -> str:
        return self.snapshot.name


class SentRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that the driver has read: an Arrow stream with the columns of the read."""

    stream: bytes


Part = FilePart | HotPart | SentRows


class ReadCounts:
    """Counts the zones and rows of a read. Owned by one thread."""

    def __init__(self) -> None:
        self.zones = 0
        self.zones_skipped = 0
        self.rows = 0


class OpenStores:
    """A few stores that are open for reading. Owned by one thread."""

    def __init__(self) -> None:
        self._open_stores: dict[tuple[str, str], Store] = {}

    def close(self) -> None:
        while self._open_stores:
            self._open_stores.popitem()[1].close()

    def of(self, part: HotPart) -> Store:
        """The store of a part, opened once, at the position of the part or later."""
        key = (part.store, part.lake)
        store = self._open_stores.get(key)
        if store is not None:
            if not _has_reached(store, part):  # a refresh reads the whole log again
                store.refresh()
            return store
        try:
            store = open_readonly(part.store, part.lake)
        except (NotAStore, Unavailable) as error:
            raise Unavailable(
                f"{socket.gethostname()} cannot read the store at {part.store} ({error}): records "
                "that are not in the lake yet need that folder on every executor, with the right "
                "to read it"
            ) from None
        while len(self._open_stores) >= _STORES_MAX:
            self._open_stores.pop(next(iter(self._open_stores))).close()
        self._open_stores[key] = store
        return store


class ThreadStores:
    """Opened stores for tasks that are threads of this process: each has its own."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._all: list[OpenStores] = []

    def __enter__(self) -> ThreadStores:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the stores. All tasks have ended."""
        for stores in self._all:
            stores.close()

    def of_this_thread(self) -> OpenStores:
        stores: OpenStores | None = getattr(self._local, "stores", None)
        if stores is None:
            stores = self._local.stores = OpenStores()
            self._all.append(stores)
        return stores


WORKER_STORES = OpenStores()  # a Python worker of Spark has one thread


def read(
    parts: Sequence[Part],
    names: Sequence[str],
    conditions: Sequence[Condition],
    tally: ReadCounts | None = None,
    stores: OpenStores = WORKER_STORES,
) -> Iterator[pa.RecordBatch]:
    """The rows of some parts for which every condition holds, with these columns."""
    for part in parts:
        if isinstance(part, FilePart):
            tables = _read_file(part, names, conditions, tally or ReadCounts())
        elif isinstance(part, HotPart):
            tables = _read_hot(part, names, conditions, stores)
        else:
            tables = iter([pa.ipc.open_stream(part.stream).read_all()])
        for table in tables:
            # Each chunk would become a batch of its own: combined they are sent at once.
            yield from table.combine_chunks().to_batches()


def lake_file(part: FilePart) -> LakeFileReader:
    """A reader of the file of a part; its errors have a remedy."""
    key = object_keys.data_key(part.topic_id, part.file.name())
    objects = _objects(part.lake)
    path = f"{objects.name}/{key}"

    @contextlib.contextmanager
    def with_remedy() -> Iterator[None]:
        try:
            yield
        except NotFound:
            raise _missing(objects, part, path) from None
        except ObjectStoreDenied as error:
            raise ObjectStoreDenied(f"on {socket.gethostname()} {error}") from None

    def fetch(start: int, length: int) -> bytes:
        with with_remedy():
            return objects.get_range(key, start, length)

    def fetch_into(start: int, target: memoryview) -> None:
        assert isinstance(objects, FolderObjects)
        with with_remedy():
            objects.get_range_into(key, start, target)

    is_local = isinstance(objects, FolderObjects)
    return LakeFileReader(fetch, part.file, part.topic_id, path, fetch_into if is_local else None)


def selected_zones(
    file: LakeFileReader, part: FilePart, conditions: Sequence[Condition]
) -> tuple[list[int], int]:
    """Indexes of the zones that a part reads, and the number of its zones that it skips."""
    indexes, skipped = [], 0
    for index, zone in enumerate(file.zones):
        if not zone.rows or not part.own_first <= zone.first_seq < part.own_next:
            continue
        if _may_hold(file, index, zone, part, conditions):
            indexes.append(index)
        else:
            skipped += 1
    return indexes, skipped


def encode_rows(table: pa.Table) -> SentRows:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return SentRows(stream=sink.getvalue().to_pybytes())


def visible_rows(table: pa.Table, first_seq: int, last_seq: int, deleted: BitMap64) -> pa.Table:
    """The rows between two seqs, both included, that are not hidden."""
    seqs = table["seq"].to_numpy()
    start, stop = (int(np.searchsorted(seqs, np.uint64(seq))) for seq in (first_seq, last_seq + 1))
    if stop - start < len(table):
        table, seqs = table.slice(start, stop - start), seqs[start:stop]
    if len(table) and deleted and deleted.range_cardinality(int(seqs[0]), int(seqs[-1]) + 1):
        deleted_here = deleted & BitMap64(range(int(seqs[0]), int(seqs[-1]) + 1))
        is_deleted = np.isin(seqs, np.array(list(deleted_here), dtype="<u8"), assume_unique=True)
        table = table.filter(pa.array(~is_deleted))
    return table


def _read_file(
    part: FilePart, names: Sequence[str], conditions: Sequence[Condition], tally: ReadCounts
) -> Iterator[pa.Table]:
    file = lake_file(part)
    indexes, skipped = selected_zones(file, part, conditions)
    tally.zones += len(indexes)
    tally.zones_skipped += skipped
    deleted = BitMap64.deserialize(part.deleted) if part.deleted else BitMap64()
    fetched = [name for name in names if name in record_schema.RECORD]
    fetched += [each.column for each in conditions if each.column not in fetched]
    for index in indexes:
        zone = file.zones[index]
        whole = part.first_seq <= zone.first_seq and zone.last_seq <= part.last_seq
        hidden = bool(deleted and deleted.range_cardinality(zone.first_seq, zone.last_seq + 1))
        needed = fetched if (whole and not hidden and fetched) else [*{*fetched, "seq"}]
        table = file.rows(index, needed)
        if not whole or hidden:
            table = visible_rows(table, part.first_seq, part.last_seq, deleted)
        table = matching_rows(table, conditions)
        tally.rows += len(table)
        if len(table):
            yield record_schema.with_columns(table, names, part.topic)


def _may_hold(
    file: LakeFileReader,
    index: int,
    zone: ZoneInfo,
    part: FilePart,
    conditions: Sequence[Condition],
) -> bool:
    if zone.last_seq < part.first_seq or zone.first_seq > part.last_seq:
        return False
    for condition in conditions:
        if condition.column == "seq":
            bounds = zone.first_seq, zone.last_seq
        elif condition.column == "ts":
            bounds = zone.ts_min, zone.ts_max
        else:
            stored = file.bounds(index, condition.column)
            if stored is None:
                continue
            bounds = stored
        if not condition.may_hold(*bounds):
            return False
    return True


def _read_hot(
    part: HotPart, names: Sequence[str], conditions: Sequence[Condition], stores: OpenStores
) -> Iterator[pa.Table]:
    store = stores.of(part)
    seq, tries = part.first_seq, _TRIES
    while seq <= part.last_seq:
        try:
            for table in _topic(store, part).scan(part.snapshot, seq, part.last_seq):
                seq = table["seq"][-1].as_py() + 1
                matching = matching_rows(table, conditions)
                if len(matching):
                    yield record_schema.with_columns(matching, names, part.topic)
            return
        except (Corrupt, Unavailable):
            # A checkpoint of the writer may have removed a file: find the new one.
            tries -= 1
            if not tries:
                raise
            store.refresh()


def _has_reached(store: Store, part: HotPart) -> bool:
    try:
        _topic(store, part)
    except RecordsLost:
        return False
    return True


def _topic(store: Store, part: HotPart) -> Topic:
    """The topic of the part; RecordsLost if it was deleted, re-created or is too old."""
    try:
        topic = store.existing_topic(part.topic)
    except UnknownTopic:
        raise RecordsLost(part.topic, part.first_seq, part.last_seq, "deleted") from None
    if topic.snapshot().created_us != part.snapshot.created_us or topic.head_seq < part.last_seq:
        raise RecordsLost(part.topic, part.first_seq, part.last_seq, "recreated")
    return topic


def _missing(objects: Objects, part: FilePart, path: str) -> NotFound | Unavailable:
    try:
        objects.head(object_keys.STORE)
    except NotFound:
        return Unavailable(
            f"{socket.gethostname()} cannot read the lake at {objects.name}: every executor needs "
            "that folder; mount it there, or keep the lake in an object store"
        )
    return NotFound(
        f"{path} of manifest {part.manifest} of topic {part.topic!r} no longer exists: the read "
        "took longer than lake.grace_s; read again, or raise that setting"
    )


@lru_cache(maxsize=8)
def _objects(lake: str) -> Objects:
    return open_objects(lake)
