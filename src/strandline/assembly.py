"""Builds the parts of a store that depend on many others, such as the lake and the views."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from strandline.api.struct_warmup import warm_up_once
from strandline.config.settings import Settings
from strandline.ingest.delivery_job import IngestJob
from strandline.ingest.view_handoff_job import ViewHandoffJob
from strandline.lake.lake import Lake
from strandline.lake.lake_writer import LakeWriter
from strandline.log.catalog import Catalog
from strandline.log.checkpoint.checkpoint_store import CheckpointStore
from strandline.log.checkpoint.relocator import Relocator
from strandline.log.checkpoint.sealer import Sealer
from strandline.log.files.layout import Layout
from strandline.log.files.pins import Pins
from strandline.log.recovery.recover import StoreState
from strandline.log.repair.scrub_job import Scrubber
from strandline.log.topic.topic import Topic
from strandline.log.wal.log_files import ShardFiles
from strandline.log.wal.reader import Reader
from strandline.log.wal.writer import Writer
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.system_errors import as_unavailable
from strandline.routers.router_store import RouterTopics as RoutedTopics
from strandline.routers.routers import Routers
from strandline.views.open_view import Views, _ViewTopics
from strandline.views.table.files.verify import check_tables
from strandline.views.view import ViewStorage
from strandline.views.view_registry import ViewRegistry

RUNS_TOPIC = "strandline.runs"
RUNS_KEPT = 10_000
_OWN_TOPICS: dict[str, dict[str, object]] = {
    RUNS_TOPIC: {"durability": "fsync", "cap_records": RUNS_KEPT}
}
"""Options of the store's own topics, which deliveries create."""


@contextmanager
def translating_errors(what: str) -> Iterator[None]:
    """Raise a failure of the disk as Unavailable, naming the operation that it stopped."""
    try:
        yield
    except (OSError, MemoryError) as error:
        raise as_unavailable(error, what) from error


class StoreParts(NamedTuple):
    """The objects that most parts of a store are constructed from."""

    layout: Layout
    disk: Disk
    clock: Clock
    settings: Settings
    lake: Lake
    objects: Objects


def make_lake_jobs(
    base: StoreParts,
    state: StoreState,
    sealer: Sealer,
    *,
    pins: Pins,
    reader: Callable[[], Reader],
    changing: threading.Lock,
) -> tuple[LakeWriter, Relocator, Scrubber]:
    """The writer of the lake, the job that moves records there, and the scrub job."""
    lake_writer = LakeWriter(
        base.objects,
        base.disk,
        base.clock,
        base.settings.lake,
        store_id=state.store_id,
        spool=base.layout.spool,
        confirm=base.lake.identity.confirm,
        needs_probe=bool(base.settings.lake.url),
        must_exist=any(topic.cold is not None for topic in state.catalog.states()),
    )
    lake_writer.empty_spool()
    relocator = Relocator(
        base.clock,
        state.catalog,
        sealer,
        base.lake,
        lake_writer,
        reader=reader,
        changing=changing,
        pins=pins,
    )
    scrubber = Scrubber(
        base.clock,
        state.catalog,
        state.library,
        sealer,
        relocator,
        lake_writer,
        base.lake,
        base.settings.scrub,
        store_id=state.store_id,
        changing=changing,
        tables=check_tables,
    )
    return lake_writer, relocator, scrubber


class _Receiver(Protocol):
    """The store as a destination of deliveries."""

    def topic(self, name: str, **options: object) -> Topic: ...

    def topics(self, prefix: str = "") -> list[str]: ...

    def existing_topic(self, name: str) -> Topic: ...

    def sync(self) -> None: ...


def make_inbox(base: StoreParts, store: _Receiver, store_id: str) -> IngestJob:
    """The job that appends the deliveries of other processes."""

    def topic(name: str, create: bool) -> Topic:  # noqa: FBT001 - passed to a callback positionally
        if not create:
            return store.existing_topic(name)
        is_new = name in _OWN_TOPICS and name not in store.topics(name)
        return store.topic(name, **_OWN_TOPICS[name] if is_new else {})

    return IngestJob(
        open_objects(base.layout.incoming, disk=base.disk),
        base.objects,
        base.clock,
        store_id=store_id,
        topic=topic,
        sync=store.sync,
    )


def make_handoff_job(
    base: StoreParts, views: Views, store_id: str, relocate: Callable[[], None]
) -> ViewHandoffJob:
    """The job that installs view state computed by other processes."""
    return ViewHandoffJob(
        open_objects(base.layout.incoming, disk=base.disk),
        base.objects,
        base.clock,
        store_id=store_id,
        views=views,
        relocate=relocate,
    )


def make_views(
    base: StoreParts,
    topics: _ViewTopics,
    lake_writer: LakeWriter | None,
    *,
    store_id: bytes,
    trash: set[int],
) -> Views:
    """The views of a store; without a lake writer they are read-only."""
    warm_up_once()  # before the threads of the store and of its users start
    depot = partial(
        ViewStorage,
        objects=base.objects,
        disk=base.disk,
        settings=base.settings.lake,
        store_id=store_id,
        spool=base.layout.spool,
        term=None if lake_writer is None else lake_writer.term,
        trash=trash.add,
        confirm=base.lake.identity.confirm,
    )
    registry = ViewRegistry(
        base.layout.views,
        base.disk,
        base.clock,
        base.settings.views,
        damaged=base.layout.damaged,
        store_id=store_id.hex(),
        readonly=lake_writer is None,
        is_alive=topics.has_topic,
        depot=depot,
    )
    return Views(registry, topics)


def make_routers(
    base: StoreParts, store: RoutedTopics, catalog: Callable[[], Catalog], *, readonly: bool
) -> Routers:
    """The routers of a store, which forward records from topic to topic."""
    return Routers(
        store,
        catalog,
        base.clock,
        base.settings.limits,
        random_id=base.disk.random_id,
        readonly=readonly,
    )


def make_checkpoint_store(base: StoreParts, state: StoreState, pins: Pins) -> CheckpointStore:
    """The store of checkpoints; it also removes files that the kept checkpoints do not need."""
    shards = base.settings.wal.shards
    logs = state.logs
    return CheckpointStore(
        base.disk,
        base.layout.meta,
        state.catalog,
        state.library,
        state.root,
        shard_directory=base.layout.shard,
        quarantine=base.layout.quarantine,
        retired_ends={number: log.end_lsn for number, log in logs.items() if number >= shards},
        pins=pins,
        log_kept=base.settings.wal.retained_bytes,
    )


def make_writer(base: StoreParts, state: StoreState, number: int) -> Writer:
    """The writer of a shard's log, in a new term."""
    log = state.logs.get(number)
    files = log.files if log else ShardFiles(base.disk, base.layout.shard(number), number)
    state.files[number] = files
    return Writer(
        files,
        base.clock,
        base.settings.wal,
        store_id=state.store_id,
        term=state.term + 1,
        end_lsn=log.end_lsn if log else 0,
        previous=log.previous if log else 0,
        last_ts=state.last_ts,
    )
