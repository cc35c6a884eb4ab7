"""Checks a recorded history of concurrent appends and reads: is it consistent with one log?

Every client records its call, the response, and the monotonic times just before and just after. The
checker then finds responses that no order of the calls could explain:

    unique       two records got the same seq
    dense        seqs are missing that no write of unknown outcome could fill
    order        a write that was acked before another was invoked has the larger seq
    payload      a read returned another payload than was written
    invented     a read returned a payload whose write was invoked after the read had returned
    prefix       a read returned other seqs than the consecutive ones after its cursor
    stuck        a read returned nothing although its head was past its cursor
    own writes   the head of a read is below a write that was acked before the read was invoked
    head         the head of a read is below that of a read that had returned before

A log determines its order itself, by seqs, so no search is needed as in a linearizability checker:
each rule is one pass over the calls in order of seq or of time, O(n log n) in all.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

MISSING_SHOWN_MAX = 5


class WriteCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An append of one batch. ``acked`` is None when its outcome is unknown."""

    topic: str
    invoked: int
    acked: int | None
    first_seq: int
    payloads: tuple[int, ...]

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.payloads) - 1


class ReadCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A read of one page after a cursor."""

    topic: str
    invoked: int
    returned: int
    after: int
    head: int
    seqs: Sequence[int]
    payloads: Sequence[int]


class HistoryViolation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that the history violates, with details."""

    rule: str
    topic: str
    detail: str


def check(writes: Iterable[WriteCall], reads: Iterable[ReadCall]) -> list[HistoryViolation]:
    """The violated rules; empty when the history is consistent with a log."""
    by_topic: dict[str, tuple[list[WriteCall], list[ReadCall]]] = {}
    for write in writes:
        by_topic.setdefault(write.topic, ([], []))[0].append(write)
    for read in reads:
        by_topic.setdefault(read.topic, ([], []))[1].append(read)
    return [
        HistoryViolation(rule=rule, topic=topic, detail=detail)
        for topic, calls in sorted(by_topic.items())
        for rule, detail in _Topic(*calls).problems()
    ]


Problems = Iterator[tuple[str, str]]
"""Rule and detail."""


class _Topic:
    """The calls of one topic, sorted once."""

    def __init__(self, writes: list[WriteCall], reads: list[ReadCall]) -> None:
        acked = [write for write in writes if write.acked is not None]
        self._acked = sorted(acked, key=lambda write: write.first_seq)
        self._unknown = [write for write in writes if write.acked is None]
        self._reads = sorted(reads, key=lambda read: read.invoked)

    def problems(self) -> Problems:
        yield from self._not_unique()
        yield from self._not_dense()
        yield from self._out_of_order()
        yield from self._wrong_contents()
        for read in self._reads:
            yield from _check_page(read)
        yield from self._heads_too_low()

    def _not_unique(self) -> Problems:
        for earlier, write in itertools.pairwise(self._acked):
            if write.first_seq <= earlier.last_seq:
                yield "unique", f"seq {write.first_seq} was given to two writes"

    def _not_dense(self) -> Problems:
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
            yield "dense", f"{count} seqs belong to no write, among them {missing}"

    def _out_of_order(self) -> Problems:
        """From the largest seq down: no write is invoked after one with a larger seq was acked."""
        earliest: WriteCall | None = None
        for write in reversed(self._acked):
            if earliest is not None and _acked(earliest) < write.invoked:
                yield (
                    "order",
                    f"seq {write.first_seq} was invoked after seq {earliest.first_seq} was acked",
                )
            if earliest is None or _acked(write) < _acked(earliest):
                earliest = write

    def _wrong_contents(self) -> Problems:
        written = {
            seq: (payload, write.invoked)
            for write in self._acked
            for seq, payload in enumerate(write.payloads, write.first_seq)
        }
        unknown = {payload: write.invoked for write in self._unknown for payload in write.payloads}
        for read in self._reads:
            for seq, payload in zip(read.seqs, read.payloads, strict=True):
                first_known = written.get(seq)
                if first_known is None:
                    # The first read of a write of unknown outcome determines its payload.
                    first_known = written[seq] = (payload, unknown.pop(payload, read.returned + 1))
                if payload != first_known[0]:
                    yield "payload", f"seq {seq} is {first_known[0]}, but was read as {payload}"
                elif first_known[1] > read.returned:
                    yield "invented", f"seq {seq} was read as {payload} before it was written"

    def _heads_too_low(self) -> Problems:
        acks = _Highest((_acked(write), write.last_seq) for write in self._acked)
        heads = _Highest((read.returned, read.head) for read in self._reads)
        for read in self._reads:
            if read.head < (promised := acks.before(read.invoked)):
                yield "own writes", f"head {read.head} is below seq {promised}, acked before"
            if read.head < (seen := heads.before(read.invoked)):
                yield "head", f"head {read.head} is below {seen}, read before"


class _Highest:
    """The largest number before a time."""

    def __init__(self, entries: Iterable[tuple[int, int]]) -> None:
        in_time = sorted(entries)
        self._times = [time for time, _ in in_time]
        self._largest = list(itertools.accumulate((number for _, number in in_time), max))

    def before(self, time: int) -> int:
        index = bisect.bisect_left(self._times, time)
        return self._largest[index - 1] if index else 0


def _check_page(read: ReadCall) -> Problems:
    count = len(read.seqs)
    if list(read.seqs) != list(range(read.after + 1, read.after + 1 + count)):
        yield "prefix", f"after {read.after} came {list(read.seqs[:MISSING_SHOWN_MAX])}..."
    elif count and read.seqs[-1] > read.head:
        yield "prefix", f"seq {read.seqs[-1]} came with head {read.head}"
    elif not count and read.head > read.after:
        yield "stuck", f"nothing came after {read.after} with head {read.head}"


def _acked(write: WriteCall) -> int:
    assert write.acked is not None
    return write.acked
