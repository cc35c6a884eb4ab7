"""Strandline: one durable log, every view of it.

The folders in the order in which data flows through them; each imports only those before it:

    errors.py record.py               what callers see: errors, values
    memory.py                         who may take how much of it
    schema.py view_config.py settings.py   what can be set, fields and types included
    env/                              clock, disk, objects, process: the only door to the world
    jobs.py                           background work with one life cycle
    wal/                              1 durable: frames on disk, group commit, recovery
    segment/                          2 sealed: immutable files of blocks
    lake/                             3 cold: Parquet files in an object store, open to others
    reservoir/                        pages of bytes, checkpointed into an object store
    topic/                            4 one ordered log: append, read, delete, retain, checkpoint
    views/                            5 shapes of topics: maps, queues, groups, series, measurements
    query/                            6 asked: the command language, plans, remembered queries, SQL
    inbox/ routers/                   what other processes have delivered; what topics forward
    backup/                           copies of a store elsewhere, and stores made from them
    wiring.py doors.py store.py       opens, wires, starts and stops
    testing/                          the simulated world
    pipelines/ spark/                 at scale: work on lakes, topics in Spark
    wire/                             7 served: what crosses the network, as values
    client/                           a store that is served elsewhere, with the same verbs
    security/ server/ console/        who may do what; HTTP, SSE, WebSocket; pages for browsers
    cli/ demo/                        the command line, and the tour
"""

from strandline import lake
from strandline.backup.backups import BackupInfo, Backups
from strandline.client.connecting import connect, connect_async
from strandline.client.settings import ClientSettings
from strandline.errors import (
    AlreadyThere,
    BatchTooLarge,
    Closed,
    Conflict,
    Corrupt,
    Denied,
    DiskFull,
    Fenced,
    Forbidden,
    Invalid,
    Locked,
    MemoryPressure,
    NewerFormat,
    NoBucket,
    NotAStore,
    NotFound,
    NotInstalled,
    PointsRefused,
    Poisoned,
    RecordsLost,
    RouterCycle,
    RouterFanIn,
    StrandlineError,
    TooLarge,
    TopicExists,
    TopicFull,
    Unavailable,
    UnfitStore,
    UnknownRouter,
    UnknownTopic,
    Unreachable,
)
from strandline.record import Appended, Numbered, Record, Tombstone
from strandline.reservoir.map.map import PagedMap
from strandline.reservoir.map.spill import Spill
from strandline.reservoir.reservoir import Reservoir
from strandline.reservoir.session import Session
from strandline.reservoir.versions import open_reservoir as reservoir
from strandline.reservoir.versions import version_name
from strandline.settings import (
    LakeSettings,
    LimitSettings,
    ObjectSettings,
    PipelineSettings,
    ReservoirSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    TopicConfig,
    ViewSettings,
    WalSettings,
)
from strandline.store import Store
from strandline.store import Store as open  # noqa: A004, N813 - strandline.open reads well
from strandline.topic.health import Health
from strandline.topic.page import Page
from strandline.topic.statistics import TopicStatistics
from strandline.topic.topic import Topic
from strandline.views.kv.values import Delete, Put

__all__ = [
    "AlreadyThere",
    "Appended",
    "BackupInfo",
    "Backups",
    "BatchTooLarge",
    "ClientSettings",
    "Closed",
    "Conflict",
    "Corrupt",
    "Delete",
    "Denied",
    "DiskFull",
    "Fenced",
    "Forbidden",
    "Health",
    "Invalid",
    "LakeSettings",
    "LimitSettings",
    "Locked",
    "MemoryPressure",
    "NewerFormat",
    "NoBucket",
    "NotAStore",
    "NotFound",
    "NotInstalled",
    "Numbered",
    "ObjectSettings",
    "Page",
    "PagedMap",
    "PipelineSettings",
    "PointsRefused",
    "Poisoned",
    "Put",
    "Record",
    "RecordsLost",
    "Reservoir",
    "ReservoirSettings",
    "RouterCycle",
    "RouterFanIn",
    "SegmentSettings",
    "Session",
    "Settings",
    "SpaceSettings",
    "Spill",
    "Store",
    "StrandlineError",
    "Tombstone",
    "TooLarge",
    "Topic",
    "TopicConfig",
    "TopicExists",
    "TopicFull",
    "TopicStatistics",
    "Unavailable",
    "UnfitStore",
    "UnknownRouter",
    "UnknownTopic",
    "Unreachable",
    "ViewSettings",
    "WalSettings",
    "connect",
    "connect_async",
    "lake",
    "open",
    "reservoir",
    "version_name",
]
