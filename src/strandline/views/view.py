"""What a view is: a fold over the records of topics.

A fold looks at nothing but the records: no clock, no chance. The same records in the same order
give the same state, so it may be thrown away at any time and folded again. Decisions that need more
(is the key still there? which job is next?) are made before something is appended, and the record
tells the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from strandline.config.memory_budget import Share
from strandline.config.settings import LakeSettings
from strandline.errors import Corrupt
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.protocol import Objects
from strandline.records import Record
from strandline.reservoir.btree.spill import Spill
from strandline.reservoir.session import Session

SPACES = 16
"""Spaces of pages that every view has, from its own on."""

MARKS = {
    "kv": b"\xc1kv",
    "queue": b"\0job",
    "series": b"\0sr\x01",
    "metrics": b"\0mx",
    "table": b"\0tb",
}
"""With what the meta of a record begins that was written through a view and says more than key and
data. It is for that view alone; a record without any of these is for every view of its topic."""


class Rows(NamedTuple):
    """Records of one topic as columns, in order. Seqs rise and may have holes."""

    seqs: Sequence[int]
    stamps: Sequence[int]
    keys: Sequence[bytes | None]
    tags: Sequence[str | None]
    metas: Sequence[bytes | None]
    data: Sequence[bytes]


class Draft(NamedTuple):
    """Records to append to one topic of a view, all or none."""

    source: int
    data: Sequence[bytes]
    keys: Sequence[bytes | None] | None = None
    metas: Sequence[bytes | None] | None = None
    tags: Sequence[str | None] | None = None


class Depot(NamedTuple):
    """Where a view may keep files: the lake of its store."""

    name: str
    """Of the view's first topic."""
    identity: tuple[int, int]
    """Which topic that is, and which life of it."""
    objects: Objects
    disk: Disk
    settings: LakeSettings
    store_id: bytes
    spool: str
    term: Callable[[], int] | None
    """The store's term in the lake, which this asks for when it is first needed; None to a store
    that is open read-only."""
    trash: Callable[[int], object]
    """Takes the id of files that nobody needs any more: they leave the lake after its grace."""
    confirm: Callable[[], None]
    """Raises when the lake is not the store's."""
    cache: Share
    """Where memory is counted that may be given back at any time."""


class FilesLost(Corrupt):
    """The lake does not have the files of a view that its saved state needs.

    The view is not folded again on its own: the log may lack what only those files have. Bring back
    what was in the lake, or rebuild the view.
    """


class World(NamedTuple):
    """What a view may use besides the records it is given."""

    clock: Clock
    """For deciding, never for folding."""
    share: Share
    """Where its memory is counted."""
    fetch: Callable[[int, Sequence[int]], list[Record]]
    """Records of a topic by their seqs, in that order; those that are gone are left out."""
    spill: Spill | None
    """Where a map may put pages when memory is short."""
    ram_bytes: int
    """What the pages of a map may take of memory."""
    depot: Depot | None = None
    """For those that keep files."""


class Seen(NamedTuple):
    """A part of what a user can see: a key, a job, a source, a column of points."""

    name: bytes
    """Its place among the others: they come in the order of their names."""
    content: bytes


class Fold(Protocol):
    """The state of a view. Owned by one thread: whoever holds its host's lock."""

    def apply(self, source: int, rows: Rows) -> None:
        """Fold records in. They come once and in order; ``source`` says of which topic."""
        ...

    def load(self, session: Session, space: int, state: bytes) -> None:
        """Begin with what was saved; with nothing when the state is empty."""
        ...

    def save(self, session: Session) -> bytes:
        """Hand over the pages that have changed; what else must be known to load them."""
        ...

    def digest(self) -> bytes:
        """A checksum of all that a user can see, however it came about."""
        ...


class Told(Fold, Protocol):
    """A fold that can be compared with another one, part by part."""

    def seen(self, first: bytes | None = None, next: bytes | None = None) -> Iterator[Seen]:
        """All that a user can see, in order of names, from one on and before another."""
        ...
