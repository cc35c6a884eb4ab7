"""Folds without a store: records are made by hand, and pages lie in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strandline.config.memory_budget import MemoryShare
from strandline.config.view_config import QueueConfig
from strandline.testing.sim_clock import SimClock
from strandline.views.queue import codec
from strandline.views.queue.codec import LeaseRecord, StoredJobOptions
from strandline.views.queue.fold import JOBS, LEASES, QueueFold
from strandline.views.view import FoldColumns, FoldContext
from tests.unit.reservoir.map_pages import MemoryPages

SPACE = 16


class Entry(NamedTuple):
    """A record of one of the topics."""

    source: int
    seq: int
    data: bytes = b""
    key: bytes | None = None
    meta: bytes | None = None


def make_fold(share: MemoryShare | None = None) -> QueueFold:
    world = FoldContext(SimClock(), share or MemoryShare(1 << 30), lambda _, __: [], None, 0)
    fold = QueueFold(QueueConfig(), world)
    fold.load(MemoryPages(), SPACE, b"")
    return fold


def apply(fold: QueueFold, entries: list[Entry]) -> QueueFold:
    """Fold records in, those of a source that stand together at once."""
    at = 0
    while at < len(entries):
        following = at + 1
        while following < len(entries) and entries[following].source == entries[at].source:
            following += 1
        run = entries[at:following]
        rows = FoldColumns(
            [entry.seq for entry in run],
            [0] * len(run),
            [entry.key for entry in run],
            [None] * len(run),
            [entry.meta for entry in run],
            [entry.data for entry in run],
        )
        fold.apply(run[0].source, rows)
        at = following
    return fold


def reloaded(fold: QueueFold, pages: MemoryPages | None = None) -> QueueFold:
    """Another fold with what this one saves."""
    pages = MemoryPages() if pages is None else pages
    state = fold.save(pages)
    world = FoldContext(SimClock(), MemoryShare(1 << 30), lambda _, __: [], None, 0)
    again = QueueFold(QueueConfig(), world)
    again.load(pages, SPACE, state)
    return again


def job(seq: int, *, key: bytes | None = None, **said: object) -> Entry:
    return Entry(JOBS, seq, b"", key, codec.encode_job(StoredJobOptions(**said)))


def word(seq: int, kind: int, seqs: list[int], number: int = 0, text: bytes = b"") -> Entry:
    said = LeaseRecord(kind, np.array(seqs, dtype=np.int64), number, text)
    return Entry(LEASES, seq, codec.encode_lease_record(said))
