"""Strandline: one durable log, every view of it.

Folders in the order of imports: each imports from those above it only.

    errors.py records.py schema.py   errors, records and field types that callers use
    api/                             requests, responses and errors as they cross the network
    config/                          settings of stores, views and pipelines; the memory budget
    platform/                        clock, disk, object stores, processes, sockets, threads
    lake/                            old records as Parquet files in an object store
    reservoir/                       pages of bytes, checkpointed into an object store
    log/                             the durable log: WAL, segments, topics, recovery, repair
    views/                           key-value maps, queues, groups, series, metrics, tables
    query/                           the query language, materialized queries, SQL
    ingest/ routers/ backup/         appends of other processes; forwarding; copies of a store
    assembly.py store.py             opens a store, connects its parts, starts and stops its jobs
    testing/                         a simulated disk, clock, network and object store
    pipelines/                       batch jobs over a store or a lake
    client/ security/                a client for a served store; tokens and scopes
    server/ console/ spark/          HTTP, SSE, WebSocket; web pages; Spark data source and jobs
    cli/                             the command line

Importing this package is quick: a name is imported from its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline import lake
    from strandline.backup.backups import BackupInfo, Backups
    from strandline.client.connect import connect, connect_async
    from strandline.client.settings import ClientSettings
    from strandline.config.settings import (
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
    from strandline.errors import (
        BatchTooLarge,
        BucketNotFound,
        Closed,
        Conflict,
        Corrupt,
        DiskFull,
        Fenced,
        Forbidden,
        Invalid,
        Locked,
        MemoryPressure,
        NotAStore,
        NotFound,
        NotInstalled,
        ObjectExists,
        ObjectStoreDenied,
        ObjectStoreUnreachable,
        PointsRefused,
        RecordsLost,
        RouterCycle,
        RouterFanIn,
        StoreFailed,
        StrandlineError,
        TooLarge,
        TopicExists,
        TopicFull,
        Unavailable,
        UnknownRouter,
        UnknownTopic,
        UnsupportedFormat,
        UnsupportedObjectStore,
    )
    from strandline.log.health import Health
    from strandline.log.read.page import Page
    from strandline.log.state.statistics import TopicStatistics
    from strandline.log.topic.topic import Topic
    from strandline.records import AppendResult, BatchNumber, Record, Tombstone
    from strandline.reservoir.btree.btree_map import PagedMap
    from strandline.reservoir.btree.spill import Spill
    from strandline.reservoir.reservoir import Reservoir
    from strandline.reservoir.session import Session
    from strandline.reservoir.stream_versions import open_reservoir as reservoir
    from strandline.reservoir.stream_versions import version_name
    from strandline.store import Store
    from strandline.store import Store as open  # noqa: A004, N813 - strandline.open reads well
    from strandline.views.kv.values import Delete, Put

__all__ = [
    "AppendResult",
    "BackupInfo",
    "Backups",
    "BatchNumber",
    "BatchTooLarge",
    "BucketNotFound",
    "ClientSettings",
    "Closed",
    "Conflict",
    "Corrupt",
    "Delete",
    "DiskFull",
    "Fenced",
    "Forbidden",
    "Health",
    "Invalid",
    "LakeSettings",
    "LimitSettings",
    "Locked",
    "MemoryPressure",
    "NotAStore",
    "NotFound",
    "NotInstalled",
    "ObjectExists",
    "ObjectSettings",
    "ObjectStoreDenied",
    "ObjectStoreUnreachable",
    "Page",
    "PagedMap",
    "PipelineSettings",
    "PointsRefused",
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
    "StoreFailed",
    "StrandlineError",
    "Tombstone",
    "TooLarge",
    "Topic",
    "TopicConfig",
    "TopicExists",
    "TopicFull",
    "TopicStatistics",
    "Unavailable",
    "UnknownRouter",
    "UnknownTopic",
    "UnsupportedFormat",
    "UnsupportedObjectStore",
    "ViewSettings",
    "WalSettings",
    "connect",
    "connect_async",
    "lake",
    "open",
    "reservoir",
    "version_name",
]

_NAMES_BY_MODULE = {
    "backup.backups": "BackupInfo Backups",
    "client.connect": "connect connect_async",
    "client.settings": "ClientSettings",
    "errors": (
        "BatchTooLarge BucketNotFound Closed Conflict Corrupt DiskFull Fenced Forbidden Invalid "
        "Locked MemoryPressure NotAStore NotFound NotInstalled ObjectExists ObjectStoreDenied "
        "ObjectStoreUnreachable PointsRefused RecordsLost RouterCycle RouterFanIn StoreFailed "
        "StrandlineError TooLarge TopicExists TopicFull Unavailable UnknownRouter UnknownTopic "
        "UnsupportedFormat UnsupportedObjectStore"
    ),
    "records": "AppendResult BatchNumber Record Tombstone",
    "reservoir.btree.btree_map": "PagedMap",
    "reservoir.btree.spill": "Spill",
    "reservoir.reservoir": "Reservoir",
    "reservoir.session": "Session",
    "reservoir.stream_versions": "reservoir version_name",
    "config.settings": (
        "LakeSettings LimitSettings ObjectSettings PipelineSettings ReservoirSettings "
        "SegmentSettings Settings SpaceSettings TopicConfig ViewSettings WalSettings"
    ),
    "store": "Store open",
    "log.health": "Health",
    "log.read.page": "Page",
    "log.state.statistics": "TopicStatistics",
    "log.topic.topic": "Topic",
    "views.kv.values": "Delete Put",
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}
_OTHER_NAMES = {"open": "Store", "reservoir": "open_reservoir"}
"""Names that are exported under another name than their own."""

_SUBMODULES = (
    *("api", "assembly", "backup", "client", "config", "errors", "ingest", "lake", "log"),
    *("platform", "query", "records", "routers", "schema", "store", "store_views", "views"),
)
"""Modules and packages that are attributes of this one without an import of their own."""

# The import of a package binds its name here. This one must happen before the first use of
# ``strandline.reservoir``, which is a function: a later import would hide it.
import_module("strandline.reservoir")
globals().pop("reservoir", None)

if not TYPE_CHECKING:  # a checker that sees __getattr__ accepts every name

    def __getattr__(name: str) -> object:
        """Import a name of this package on its first use."""
        if name in _MODULE_OF:
            module = import_module(f"{__name__}.{_MODULE_OF[name]}")
            value = getattr(module, _OTHER_NAMES.get(name, name))
        elif name in _SUBMODULES:
            value = import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """All names, imported or not."""
        return sorted({*globals(), *__all__, *_SUBMODULES})
