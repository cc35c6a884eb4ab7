"""Strandline: one durable log, every view of it.

The folders in the order in which data flows through them; each imports only those before it:

    errors.py record.py settings.py   what callers see: errors, values, what can be set
    env/                              clock, disk, process: the only door to the outside world
    jobs.py                           background work with one life cycle
    wal/                              1 durable: frames on disk, group commit, recovery
    segment/                          2 sealed: immutable files of blocks
    topic/                            4 one ordered log: append, read, delete, retain, checkpoint
    store.py                          opens, wires, starts and stops
    testing/                          the simulated world
    cli/ demo/                        the command line, and the tour
"""

from strandline.errors import (
    Closed,
    Conflict,
    Corrupt,
    DiskFull,
    Invalid,
    Locked,
    NewerFormat,
    NotAStore,
    Poisoned,
    RecordsLost,
    StrandlineError,
    TooLarge,
    TopicExists,
    TopicFull,
    Unavailable,
    UnknownTopic,
)
from strandline.record import Appended, Record, Tombstone
from strandline.settings import (
    LimitSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    TopicConfig,
    WalSettings,
)
from strandline.store import Health, Store
from strandline.store import Store as open  # noqa: A004, N813 - strandline.open reads well
from strandline.topic.page import Page
from strandline.topic.topic import Topic, TopicStatistics

__all__ = [
    "Appended",
    "Closed",
    "Conflict",
    "Corrupt",
    "DiskFull",
    "Health",
    "Invalid",
    "LimitSettings",
    "Locked",
    "NewerFormat",
    "NotAStore",
    "Page",
    "Poisoned",
    "Record",
    "RecordsLost",
    "SegmentSettings",
    "Settings",
    "SpaceSettings",
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
    "UnknownTopic",
    "WalSettings",
    "open",
]
