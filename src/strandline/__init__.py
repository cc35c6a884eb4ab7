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

Importing this package is quick: a name is imported from its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_NAMES_BY_MODULE = {
    "backup.backups": "BackupInfo Backups",
    "client.connecting": "connect connect_async",
    "client.settings": "ClientSettings",
    "errors": (
        "AlreadyThere BatchTooLarge Closed Conflict Corrupt Denied DiskFull Fenced "
        "Forbidden Invalid Locked MemoryPressure NewerFormat NoBucket NotAStore NotFound "
        "NotInstalled PointsRefused Poisoned RecordsLost RouterCycle RouterFanIn "
        "StrandlineError TooLarge TopicExists TopicFull Unavailable UnfitStore "
        "UnknownRouter UnknownTopic Unreachable"
    ),
    "record": "Appended Numbered Record Tombstone",
    "reservoir.map.map": "PagedMap",
    "reservoir.map.spill": "Spill",
    "reservoir.reservoir": "Reservoir",
    "reservoir.session": "Session",
    "reservoir.versions": "reservoir version_name",
    "settings": (
        "LakeSettings LimitSettings ObjectSettings PipelineSettings ReservoirSettings "
        "SegmentSettings Settings SpaceSettings TopicConfig ViewSettings WalSettings"
    ),
    "store": "Store open",
    "topic.health": "Health",
    "topic.page": "Page",
    "topic.statistics": "TopicStatistics",
    "topic.topic": "Topic",
    "views.kv.values": "Delete Put",
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}
_OTHER_NAMES = {"open": "Store", "reservoir": "open_reservoir"}
"""Names that are exported under another one than their own."""

_SUBMODULES = (
    *("backup", "client", "doors", "env", "errors", "inbox", "jobs", "lake", "memory"),
    *("pipeline_config", "record", "routers", "schema", "segment", "settings", "sizing", "store"),
    *("topic", "view_config", "views", "wal", "wire", "wiring"),
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
            found = getattr(module, _OTHER_NAMES.get(name, name))
        elif name in _SUBMODULES:
            found = import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """All names, imported or not."""
        return sorted({*globals(), *__all__, *_SUBMODULES})
