"""Stores the offsets of a group in the kv map. One opening of the group at a time can write.

The entry ``cg:<group>`` has the generation of the opening that wrote it last. An opening takes the
group over by writing a new generation; every later write requires the version of the write before.
So an opening that was replaced cannot overwrite anything, and gets ``Fenced``.

The outcome of a failed write is unknown. If the next write then finds another version than it
requires, and the entry is of its own generation, it continues from that entry.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.errors import Conflict, Fenced
from strandline.log.topic.topic import Topic
from strandline.views.groups import offsets as codec
from strandline.views.groups.offsets import Offsets, OffsetsEntry
from strandline.views.kv.kv import Kv

PREFIX = "cg:"


class OffsetStore:
    """The stored offsets of one group. Owned by one thread: the one that holds the lock of acks."""

    def __init__(self, kv: Kv, topic: Topic, name: str) -> None:
        self._kv = kv
        self._topic = topic
        self._name = name
        self._generation = 0
        self._version = 0

    @property
    def generation(self) -> int:
        """The number of this opening of the group; 0 before it has taken over."""
        return self._generation

    def load(self) -> Offsets | None:
        """The stored offsets, None if there are none for this topic."""
        entry = self._find()[0]
        return None if entry is None else self._of_this_topic(entry)

    def take_over(self, start: Callable[[], Offsets]) -> Offsets:
        """Make this opening the one that writes; return the offsets of the group, ``start()`` if it
        is new."""
        while True:
            entry, version = self._find()
            offsets = None if entry is None else self._of_this_topic(entry)
            offsets = start() if offsets is None else offsets
            generation = 1 if entry is None else entry.generation + 1
            try:
                self._put(generation, offsets, version)
            except Conflict:
                continue  # another opening has written at the same time
            self._generation = generation
            return offsets

    def save(self, offsets: Offsets, *, replace: bool) -> None:
        """Store offsets. The result of an earlier write of unknown outcome is merged into them,
        unless they replace everything.
        """
        while True:
            try:
                self._put(self._generation, offsets, self._version)
            except Conflict:
                entry, self._version = self._find()
                if entry is None or entry.generation != self._generation:
                    raise Fenced(self._fenced_reason(entry)) from None
                if not replace:
                    offsets.merge(entry.offsets)
                continue
            return

    def _put(self, generation: int, offsets: Offsets, version: int) -> None:
        stored = codec.encode(OffsetsEntry(generation, self._topic.identity[0], offsets))
        self._version = self._kv.put(PREFIX + self._name, stored, version=version)

    def _find(self) -> tuple[OffsetsEntry | None, int]:
        entry = self._kv.entry(PREFIX + self._name)
        if entry is None:
            return None, 0
        where = f"key {PREFIX + self._name!r} of the kv map {self._kv.name!r}"
        return codec.decode(entry.value, where), entry.version

    def _of_this_topic(self, entry: OffsetsEntry) -> Offsets | None:
        """The offsets if they are of this topic, not of an earlier one with its name."""
        if entry.topic != self._topic.identity[0]:
            return None
        # A restore may have moved the head of the topic to below the floor of the group.
        entry.offsets.truncate(self._topic.head_seq)
        return entry.offsets

    def _fenced_reason(self, entry: OffsetsEntry | None) -> str:
        if entry is None:
            return f"the group {self._name!r} was deleted: open it again to create a new one"
        return (
            f"another opening of the group {self._name!r} has taken over: stop, or open it again "
            "to take it back"
        )
