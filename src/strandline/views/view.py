"""Defines a view: a fold over the records of topics, and what a fold may use.

A fold depends on records only: no clock, no randomness. The same records in the same order give the
same state, so a state may be discarded at any time and folded again. Decisions that need more (does
the key still exist? which job is next?) are made before records are appended, and the record holds
the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from strandline.config.memory_budget import MemoryShare
from strandline.config.settings import LakeSettings
from strandline.errors import Corrupt
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.protocol import Objects
from strandline.records import Record
from strandline.reservoir.btree.spill import Spill
from strandline.reservoir.session import Session

SPACES = 16
"""Spaces of pages reserved for each view, starting with its own."""

MARKS = {
    "kv": b"\xc1kv",
    "queue": b"\0job",
    "series": b"\0sr\x01",
    "metrics": b"\0mx",
    "table": b"\0tb",
}
"""The first bytes of the meta of a record that was written through a view and has more content
than key and data. Only that view reads it. A record with none of these marks is for every view of
its topic."""


class FoldColumns(NamedTuple):
    """Records of one topic as columns, in order. Seqs ascend and may have holes."""

    seqs: Sequence[int]
    stamps: Sequence[int]
    keys: Sequence[bytes | None]
    tags: Sequence[str | None]
    metas: Sequence[bytes | None]
    data: Sequence[bytes]


class ViewAppend(NamedTuple):
    """Records to append to one topic of a view, all or none."""

    source: int
    data: Sequence[bytes]
    keys: Sequence[bytes | None] | None = None
    metas: Sequence[bytes | None] | None = None
    tags: Sequence[str | None] | None = None


class ViewStorage(NamedTuple):
    """The place where a view may store files: the lake of its store."""

    name: str
    """The name of the view's first topic."""
    identity: tuple[int, int]
    """The id and the epoch of that topic."""
    objects: Objects
    disk: Disk
    settings: LakeSettings
    store_id: bytes
    spool: str
    term: Callable[[], int] | None
    """Returns the store's term in the lake, which is acquired on first use. None in a store that is
    open read-only."""
    trash: Callable[[int], object]
    """Accepts the id of files that are not referenced any more: they are deleted after the grace
    period of the lake."""
    confirm: Callable[[], None]
    """Raises when the lake does not belong to the store."""
    cache: MemoryShare
    """The share that counts memory which can be released at any time."""


class FilesLost(Corrupt):
    """The lake does not have the files of a view that its saved state needs.

    The view is not folded again automatically: the log may lack records that only those files hold.
    Restore the files in the lake, or rebuild the view.
    """


class FoldContext(NamedTuple):
    """What a fold may use besides the records that it receives."""

    clock: Clock
    """For decisions, never for folding."""
    share: MemoryShare
    """The share of the budget that counts its memory."""
    fetch: Callable[[int, Sequence[int]], list[Record]]
    """Records of a topic by their seqs, in that order, without those that have left the log."""
    spill: Spill | None
    """Where a map writes pages when memory is short."""
    ram_bytes: int
    """The memory limit for the pages of a map."""
    storage: ViewStorage | None = None
    """For views that store files."""


class VisibleItem(NamedTuple):
    """An item that a user can see: a key, a job, a source, a column of points."""

    name: bytes
    """Its sort key: items are enumerated in the order of their names."""
    content: bytes


class Fold(Protocol):
    """The state of a view. Owned by one thread: the one that holds the lock of its runner."""

    def apply(self, source: int, rows: FoldColumns) -> None:
        """Fold records in. Each comes once and in order; ``source`` is the index of its topic."""
        ...

    def load(self, session: Session, space: int, state: bytes) -> None:
        """Start from a saved state, or from nothing when ``state`` is empty."""
        ...

    def save(self, session: Session) -> bytes:
        """Write the changed pages; return what else is needed to load them."""
        ...

    def digest(self) -> bytes:
        """A checksum of everything that a user can see, independent of how it came about."""
        ...


class EnumerableFold(Fold, Protocol):
    """A fold that can be compared with another one, item by item."""

    def visible_items(
        self, first: bytes | None = None, next: bytes | None = None
    ) -> Iterator[VisibleItem]:
        """Everything that a user can see, in order of names, in the range ``[first, next)``."""
        ...
