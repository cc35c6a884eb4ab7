"""What a topic may be after a crash: the states that it went through, oldest first.

A topic has one state per change. Some of them are promised against a kill, some against a power
loss; what a recovery finds must be the newest promised one, or one that came after it.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Entry(NamedTuple):
    """A record as it was asked for."""

    data: bytes
    key: bytes | None = None
    tag: str | None = None

    @property
    def size(self) -> int:
        return len(self.data) + len(self.key or b"") + len((self.tag or "").encode())


class Version(NamedTuple):
    """A topic at one moment: its newest seq, and the records that a reader gets."""

    head: int
    live: dict[int, Entry]

    def appended(self, entries: Sequence[Entry]) -> Version:
        numbered = enumerate(entries, self.head + 1)
        return Version(self.head + len(entries), self.live | dict(numbered))

    def without(self, gone: Callable[[int, Entry], bool]) -> Version:
        kept = {seq: entry for seq, entry in self.live.items() if not gone(seq, entry)}
        return Version(self.head, kept)

    def evicted(self, cap_records: int, cap_bytes: int) -> Version:
        """After retention took the oldest records that are over a cap."""
        floor = 0
        if cap_records and len(self.live) > cap_records:
            floor = sorted(self.live)[-cap_records]
        version = self.without(lambda seq, _: seq < floor)
        excess = sum(entry.size for entry in version.live.values()) - cap_bytes
        if not cap_bytes or excess <= 0:
            return version
        seqs = sorted(version.live)
        taken = itertools.accumulate(version.live[seq].size for seq in seqs)
        last = next(seq for seq, size in zip(seqs, taken, strict=True) if size >= excess)
        return version.without(lambda seq, _: seq <= last)


class Lineage:
    """The states that a topic went through, oldest first; None is no topic."""

    def __init__(self) -> None:
        self.versions: list[Version | None] = [None]
        self.told = 0
        """The newest state that the caller knows of: what follows is on its way."""
        self.kept = 0
        """The oldest state that a killed process may leave."""
        self.durable = 0
        """The oldest state that a power loss may leave."""
        self.epochs: set[int] = set()
        self.volatile: set[int] = set()
        """Seqs of records that no crash leaves: they were appended to an ephemeral topic."""

    def copy(self) -> Lineage:
        other = copy.copy(self)
        other.versions = self.versions[:]
        other.epochs, other.volatile = set(self.epochs), set(self.volatile)
        return other

    @property
    def newest(self) -> Version | None:
        return self.versions[-1]

    def add(self, version: Version | None) -> None:
        self.versions.append(version)

    def settle(self, *, kept: bool, durable: bool) -> None:
        """The caller is told; from here on a kill or a power loss leaves this state or a later."""
        self.told = len(self.versions) - 1
        self.kept = self.told if kept else self.kept
        self.durable = self.told if durable else self.durable
        first = min(self.kept, self.durable)
        del self.versions[:first]
        self.told -= first
        self.kept -= first
        self.durable -= first

    def become(self, version: Version | None) -> None:
        """A recovery found this: the others never were."""
        self.versions = [version]
        self.volatile = set()
        self.told = self.kept = self.durable = 0
