"""Offsets of a group in the kv map, written by one group at a time.

The entry ``cg:<group>`` names the opening of the group that wrote it last, its generation. An
opening takes the group over by writing a generation of its own, and every write after that demands
the version of the write before: so an opening that was overtaken cannot overwrite anything, and is
told with ``Fenced``.

When a write fails nobody knows whether it happened. The next one then finds another version than it
demands, sees that it is of its own generation, and goes on from what is there.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.errors import Conflict, Fenced
from strandline.log.topic.topic import Topic
from strandline.views.groups import offsets as codec
from strandline.views.groups.offsets import Entry, Offsets
from strandline.views.kv.kv import Kv

PREFIX = "cg:"


class Keeper:
    """The stored offsets of one group. Owned by one thread: who holds the group's saving lock."""

    def __init__(self, kv: Kv, topic: Topic, name: str) -> None:
        self._kv = kv
        self._topic = topic
        self._name = name
        self._generation = 0
        self._version = 0

    @property
    def generation(self) -> int:
        """Which opening of the group this is; 0 before it has taken over."""
        return self._generation

    def load(self) -> Offsets | None:
        """What is stored, None when there is nothing of this topic."""
        found = self._find()[0]
        return None if found is None else self._own(found)

    def take_over(self, start: Callable[[], Offsets]) -> Offsets:
        """Make this opening the one that writes; where the group stands, at the start if new."""
        while True:
            found, version = self._find()
            offsets = None if found is None else self._own(found)
            offsets = start() if offsets is None else offsets
            generation = 1 if found is None else found.generation + 1
            try:
                self._put(generation, offsets, version)
            except Conflict:
                continue  # somebody else took it at the same time
            self._generation = generation
            return offsets

    def save(self, offsets: Offsets, *, anew: bool) -> None:
        """Store these. What an earlier write of unknown outcome has stored is added to them,
        unless they are to replace everything.
        """
        while True:
            try:
                self._put(self._generation, offsets, self._version)
            except Conflict:
                found, self._version = self._find()
                if found is None or found.generation != self._generation:
                    raise Fenced(self._overtaken(found)) from None
                if not anew:
                    offsets.merge(found.offsets)
                continue
            return

    def _put(self, generation: int, offsets: Offsets, version: int) -> None:
        stored = codec.encode(Entry(generation, self._topic.identity[0], offsets))
        self._version = self._kv.put(PREFIX + self._name, stored, version=version)

    def _find(self) -> tuple[Entry | None, int]:
        entry = self._kv.entry(PREFIX + self._name)
        if entry is None:
            return None, 0
        where = f"key {PREFIX + self._name!r} of the kv map {self._kv.name!r}"
        return codec.decode(entry.value, where), entry.version

    def _own(self, found: Entry) -> Offsets | None:
        """The offsets if they are of this topic, not of an earlier one with its name."""
        if found.topic != self._topic.identity[0]:
            return None
        # A restore may have taken the topic further back than the group.
        found.offsets.cut(self._topic.head_seq)
        return found.offsets

    def _overtaken(self, found: Entry | None) -> str:
        if found is None:
            return f"the group {self._name!r} was deleted: open it again to begin anew"
        return (
            f"another opening of the group {self._name!r} has taken over: stop, or open it again "
            "to take it back"
        )
