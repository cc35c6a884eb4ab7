"""Judges a recorded history of concurrent appends and reads: could one log have answered like this?

Every client notes what it asked, what it was told, and the monotonic times just before and just
after. The checker then looks for an answer that no order of the calls could explain:

    unique       a seq was given to two records
    dense        seqs are missing that no write of unknown outcome could fill
    order        a write that was acked before another was invoked has the larger seq
    payload      a read gave something else than was written there
    invented     a read gave what nobody had begun to write when it returned
    prefix       a read gave other seqs than those right behind its cursor, one after another
    stuck        a read gave nothing although its head was past its cursor
    own writes   the head of a read is below a write that was acked before the read was invoked
    head         the head of a read is below that of a read that had returned before

A log decides its order itself, by seqs, so there is nothing to search for as a linearizability
checker must: each rule is one pass over the calls in order of seq or of time, O(n log n) in all.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

MISSING_SHOWN_MAX = 5


class Write(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An append of one batch. ``acked`` is None when nobody knows how it ended."""

    topic: str
    invoked: int
    acked: int | None
    first_seq: int
    payloads: tuple[int, ...]

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.payloads) - 1


class Read(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A read of one page behind a cursor."""

    topic: str
    invoked: int
    returned: int
    after: int
    head: int
    seqs: Sequence[int]
    payloads: Sequence[int]


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that the history breaks, and where."""

    rule: str
    topic: str
    detail: str


def check(writes: Iterable[Write], reads: Iterable[Read]) -> list[Violation]:
    """Every rule that the history breaks; empty when a log could have answered like this."""
    by_topic: dict[str, tuple[list[Write], list[Read]]] = {}
    for write in writes:
        by_topic.setdefault(write.topic, ([], []))[0].append(write)
    for read in reads:
        by_topic.setdefault(read.topic, ([], []))[1].append(read)
    return [
        Violation(rule=rule, topic=topic, detail=detail)
        for topic, calls in sorted(by_topic.items())
        for rule, detail in _Topic(*calls).broken()
    ]


Broken = Iterator[tuple[str, str]]
"""Rule and detail."""


class _Topic:
    """The calls of one topic, sorted once."""

    def __init__(self, writes: list[Write], reads: list[Read]) -> None:
        acked = [write for write in writes if write.acked is not None]
        self._acked = sorted(acked, key=lambda write: write.first_seq)
        self._unknown = [write for write in writes if write.acked is None]
        self._reads = sorted(reads, key=lambda read: read.invoked)

    def broken(self) -> Broken:
        yield from self._not_unique()
        yield from self._not_dense()
        yield from self._out_of_order()
        yield from self._wrong_contents()
        for read in self._reads:
            yield from _not_a_prefix(read)
        yield from self._heads_too_low()

    def _not_unique(self) -> Broken:
        for before, write in itertools.pairwise(self._acked):
            if write.first_seq <= before.last_seq:
                yield "unique", f"seq {write.first_seq} was given to two writes"

    def _not_dense(self) -> Broken:
        spare = sum(len(write.payloads) for write in self._unknown)
        expected = 1
        missing: list[int] = []
        count = 0
        for write in self._acked:
            gap = range(expected, write.first_seq)
            count += len(gap)
            missing += gap[: MISSING_SHOWN_MAX - len(missing)]
            expected = max(expected, write.last_seq + 1)
        if count > spare:
            yield "dense", f"{count} seqs belong to nobody, among them {missing}"

    def _out_of_order(self) -> Broken:
        """From the largest seq down: nothing below may begin after something above was acked."""
        earliest: Write | None = None
        for write in reversed(self._acked):
            if earliest is not None and _acked(earliest) < write.invoked:
                yield (
                    "order",
                    f"seq {write.first_seq} was invoked after seq {earliest.first_seq} was acked",
                )
            if earliest is None or _acked(write) < _acked(earliest):
                earliest = write

    def _wrong_contents(self) -> Broken:
        written = {
            seq: (payload, write.invoked)
            for write in self._acked
            for seq, payload in enumerate(write.payloads, write.first_seq)
        }
        unknown = {payload: write.invoked for write in self._unknown for payload in write.payloads}
        for read in self._reads:
            for seq, payload in zip(read.seqs, read.payloads, strict=True):
                known = written.get(seq)
                if known is None:
                    # The first that reads what a write of unknown outcome left says what it was.
                    known = written[seq] = (payload, unknown.pop(payload, read.returned + 1))
                if payload != known[0]:
                    yield "payload", f"seq {seq} is {known[0]}, but was read as {payload}"
                elif known[1] > read.returned:
                    yield "invented", f"seq {seq} was read as {payload} before it was written"

    def _heads_too_low(self) -> Broken:
        acks = _Highest((_acked(write), write.last_seq) for write in self._acked)
        heads = _Highest((read.returned, read.head) for read in self._reads)
        for read in self._reads:
            if read.head < (promised := acks.before(read.invoked)):
                yield "own writes", f"head {read.head} is below seq {promised}, acked before"
            if read.head < (seen := heads.before(read.invoked)):
                yield "head", f"head {read.head} is below {seen}, read before"


class _Highest:
    """The largest number known before a moment."""

    def __init__(self, entries: Iterable[tuple[int, int]]) -> None:
        in_time = sorted(entries)
        self._moments = [moment for moment, _ in in_time]
        self._largest = list(itertools.accumulate((number for _, number in in_time), max))

    def before(self, moment: int) -> int:
        place = bisect.bisect_left(self._moments, moment)
        return self._largest[place - 1] if place else 0


def _not_a_prefix(read: Read) -> Broken:
    count = len(read.seqs)
    if list(read.seqs) != list(range(read.after + 1, read.after + 1 + count)):
        yield "prefix", f"behind {read.after} came {list(read.seqs[:MISSING_SHOWN_MAX])}..."
    elif count and read.seqs[-1] > read.head:
        yield "prefix", f"seq {read.seqs[-1]} came with head {read.head}"
    elif not count and read.head > read.after:
        yield "stuck", f"nothing came behind {read.after} with head {read.head}"


def _acked(write: Write) -> int:
    assert write.acked is not None
    return write.acked
