"""What must hold of a topic, whatever its clients, its disk and its process went through.

A model takes note of what is sent, acknowledged and read, and raises ``Violation`` when an answer
cannot be true:

    kept         what was acknowledged or read is there, unless its class may have lost it since
    told         what is not there is covered by a tombstone; what is there is not; it stays so
    sent         every record was sent to this topic
    once         a seq has one content for ever, and an append one place
    whole        of a batch all records are there, or none
    in order     seqs rise, stamps do not fall, and no seq is left out

How much may have been lost is counted by ``Losses``: a record that is known since a count may be
missing when its class has a higher one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec


class Violation(AssertionError):
    """The server did what it must not."""


class Losses:
    """How often something happened that a class does not survive."""

    def __init__(self) -> None:
        self._counts = {"fsync": 0, "disk": 0, "memory": 0, "ephemeral": 0}

    def count(self, durability: str) -> int:
        return self._counts[durability]

    def restarted(self) -> None:
        """A clean end and a new beginning."""
        self._add("ephemeral")

    def killed(self) -> None:
        self._add("memory", "ephemeral")

    def power_lost(self) -> None:
        """Or a sync failed, which loses as much."""
        self._add("disk", "memory", "ephemeral")

    def _add(self, *classes: str) -> None:
        for name in classes:
            self._counts[name] += 1


class Append(msgspec.Struct):
    """One append of a client, perhaps sent several times under one idempotency key."""

    number: int
    count: int
    is_keyed: bool
    first_seq: int = 0
    known: int = 0
    """The count of losses since which its place is known."""


class Mark(NamedTuple):
    """A moment: how many seqs were known, and how often records may have been lost before."""

    order: int
    losses: int


class _Known(msgspec.Struct, frozen=True):
    """A seq that an acknowledgement or a page has shown."""

    content: tuple[int, int]
    order: int
    losses: int


class TopicModel:
    """All that is known of one topic. Owned by the loop's thread."""

    def __init__(self, name: str, durability: str, losses: Losses) -> None:
        self.name = name
        self.durability = durability
        self.appends: dict[int, Append] = {}
        self.head = 0
        """The highest head that an answer has shown."""
        self._losses = losses
        self._known: dict[int, _Known] = {}
        self._lost: set[int] = set()

    @property
    def mark(self) -> Mark:
        """How much is known now: the answer to a request that is sent now has to know as much."""
        return Mark(len(self._known), self._losses.count(self.durability))

    def send(self, number: int, count: int, *, keyed: bool) -> Append:
        """An append is on its way."""
        append = self.appends[number] = Append(number, count, keyed)
        return append

    def acknowledge(self, append: Append, mark: Mark, answer: Any) -> None:
        """An append was acknowledged."""
        first, last = answer["first_seq"], answer["last_seq"]
        if last - first + 1 != append.count:
            self._fail(f"append {append.number} of {append.count} has seqs {first} to {last}")
        if answer["deduped"] and not append.is_keyed:
            self._fail(f"append {append.number} without a key is called a repetition")
        for index in range(append.count):
            self._learn(first + index, (append.number, index), mark)
        self.head = max(self.head, last)

    def check_page(self, after: int, mark: Mark, answer: Any) -> None:
        """Judge a page that was asked for when ``mark`` was."""
        records, gap, upto = answer["records"], answer["tombstone"], answer["next_from_seq"]
        self._check_order(after, upto, records)
        if answer["head_seq"] < self._head_at(mark):
            self._fail(f"the head is {answer['head_seq']}, and was {self._head_at(mark)} before")
        present = {record["$seq"] for record in records}
        told = range(gap["gap_from"], gap["gap_to"] + 1) if gap else range(0)
        for record in records:
            self._learn(record["$seq"], (record["data"]["op"], record["data"]["i"]), mark)
        for seq in sorted(present & set(told)):
            self._fail(f"seq {seq} is there, and a tombstone says it is lost: {gap}")
        for seq in told:
            self._lose(seq)
        for seq in range(after + 1, upto + 1):
            if seq not in present and seq not in told:
                known = self._known.get(seq)
                what = f"append {known.content}" if known else "nothing known"
                self._fail(f"seq {seq} ({what}) is passed over after {after}: {answer}")

    def check_all(self, records: Iterable[Any]) -> None:
        """Judge the whole topic, read to its end: batches are whole, and everything is kept."""
        present = {
            record["$seq"]: (record["data"]["op"], record["data"]["i"]) for record in records
        }
        places: dict[int, set[int]] = {}
        for seq, (number, index) in present.items():
            places.setdefault(number, set()).add(seq - index)
        for number, firsts in places.items():
            append = self.appends[number]
            if len(firsts) > 1:
                self._fail(f"append {number} is there twice, at {sorted(firsts)}")
            first = min(firsts)
            missing = [seq for seq in range(first, first + append.count) if seq not in present]
            if missing:
                self._fail(f"append {number} is torn: {missing} of {append.count} are missing")
        for seq, known in self._known.items():
            if seq not in present and known.losses == self._losses.count(self.durability):
                self._fail(f"seq {seq} of append {known.content} is lost without a cause")

    def _learn(self, seq: int, content: tuple[int, int], mark: Mark) -> None:
        number, index = content
        append = self.appends.get(number)
        if append is None or index >= append.count:
            self._fail(f"seq {seq} holds {content}, which nobody sent here")
        if seq in self._lost:
            self._fail(f"seq {seq} is back: a tombstone said that it was lost")
        known = self._known.get(seq)
        if known is not None and known.content != content:
            self._fail(f"seq {seq} holds {content}, and held {known.content}")
        first, count = seq - index, mark.losses
        if append.first_seq not in (0, first) and not (append.is_keyed and append.known < count):
            self._fail(f"append {number} is at {first}, and was at {append.first_seq}")
        if append.first_seq != first:
            append.first_seq, append.known = first, count
        if known is None:
            self._known[seq] = _Known(content, len(self._known), count)

    def _lose(self, seq: int) -> None:
        known = self._known.get(seq)
        if known is not None and known.losses == self._losses.count(self.durability):
            self._fail(f"a tombstone covers seq {seq} of append {known.content}, which is kept")
        self._lost.add(seq)

    def _head_at(self, mark: Mark) -> int:
        # What was told to be lost is not asked for; all else stays below the head for ever.
        return max(
            (seq for seq, known in self._known.items() if known.order < mark.order), default=0
        )

    def _check_order(self, after: int, upto: int, records: list[Any]) -> None:
        last_seq, last_ts = after, 0
        for record in records:
            if record["$seq"] <= last_seq:
                self._fail(f"seq {record['$seq']} comes after seq {last_seq}")
            if record["$ts"] < last_ts:
                self._fail(f"the stamp of seq {record['$seq']} is below the one before")
            last_seq, last_ts = record["$seq"], record["$ts"]
        if upto < last_seq:
            self._fail(f"a page up to seq {last_seq} goes on after {upto}")

    def _fail(self, what: str) -> None:
        raise Violation(f"topic {self.name} ({self.durability}): {what}")
