"""Records what a writer did before it was killed, and checks what the next one finds.

A process of its own, without code of the store. Writers report to it through a pipe: their calls
before they make them; the responses; and when they open the store again, every record that they
find. A message is one write of at most 4096 bytes, which a pipe never splits, so a killed writer
leaves no partial message, and the order of the messages is an order of events. Every message is
written to a journal, synced before the verdict: ``replay`` checks it again.

    size u16, kind u8, then (little-endian)
    intent    op u64, topic u8, then hash u64 and tag u8 of each record
    ack       op u64, first seq u64
    delete    op u64, topic u8, before u64 (0: none), tag u8 (0: none)
    deleted   op u64
    look      a report begins: an earlier one without an end came from a killed writer
    found     topic u8, then seq u64, ts u64, hash u64 of each record
    gap       topic u8, from u64, to u64: a loss that the store reports
    head      topic u8, head u64, lossy u8: the end of the report of one topic
    judge     the end of the report

The verdict: acked records are found, and found ones were intended; seqs are dense; a batch is
present as a whole or not at all; no record has moved, changed or come back after its deletion;
stamps never decrease. Records that were found once must stay. A lossy topic may lack records that
it reports as lost. Deletes of one topic must be sequential: otherwise the oracle cannot determine
which records they may have deleted.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
import sys
from collections.abc import Iterator

import msgspec

MESSAGE_SIZE_MAX = 4096  # PIPE_BUF
_PREFIX = struct.Struct("<HB")
_INTENT = struct.Struct("<QB")
_INTENDED = struct.Struct("<QB")
_ACK = struct.Struct("<QQ")
_DELETE = struct.Struct("<QBQB")
_DELETED = struct.Struct("<Q")
_FOUND = struct.Struct("<B")
_ROW = struct.Struct("<QQQ")
_GAP = struct.Struct("<BQQ")
_HEAD = struct.Struct("<BQB")
INTENT, ACK, DELETE, DELETED, LOOK, FOUND, GAP, HEAD, JUDGE, QUIT = range(1, 11)
RECORDS_MAX = (MESSAGE_SIZE_MAX - _PREFIX.size - _INTENT.size) // _INTENDED.size
_ROWS_MAX = (MESSAGE_SIZE_MAX - _PREFIX.size - _FOUND.size) // _ROW.size
_FOREVER = 1 << 62
_SHOWN_MAX = 5

Row = tuple[int, int, int]
"""seq, ts, hash."""


def record_hash(data: bytes, *fields: bytes | str | None) -> int:
    """The hash of a record: of its data and its optional fields, each with its length."""
    digest = hashlib.blake2b(data, digest_size=8)
    for field in fields:
        content = field.encode() if isinstance(field, str) else field
        digest.update(b"-" if content is None else b"%d:%b" % (len(content), content))
    return int.from_bytes(digest.digest(), "little")


class Reporter:
    """The writer's end of the pipe. Safe from many threads."""

    def __init__(self, fd: int, first_op: int) -> None:
        self._fd = fd
        self._ops = itertools.count(first_op)

    def intend(self, topic: int, hashes: list[int], tags: list[int]) -> int:
        """Report an append before it is made; returns the op for ``acked``."""
        op = next(self._ops)
        rows = b"".join(map(_INTENDED.pack, hashes, tags))
        self._send(INTENT, _INTENT.pack(op, topic) + rows)
        return op

    def acked(self, op: int, first_seq: int) -> None:
        self._send(ACK, _ACK.pack(op, first_seq))

    def begin_delete(self, topic: int, *, before: int = 0, tag: int = 0) -> int:
        """Report a delete before it is made; returns the op for ``deleted``."""
        op = next(self._ops)
        self._send(DELETE, _DELETE.pack(op, topic, before, tag))
        return op

    def deleted(self, op: int) -> None:
        self._send(DELETED, _DELETED.pack(op))

    def begin_report(self) -> None:
        self._send(LOOK, b"")

    def found(self, topic: int, rows: list[Row]) -> None:
        for first in range(0, len(rows), _ROWS_MAX):
            part = b"".join(_ROW.pack(*row) for row in rows[first : first + _ROWS_MAX])
            self._send(FOUND, _FOUND.pack(topic) + part)

    def gap(self, topic: int, gap_from: int, gap_to: int) -> None:
        self._send(GAP, _GAP.pack(topic, gap_from, gap_to))

    def head(self, topic: int, head_seq: int, *, lossy: bool) -> None:
        self._send(HEAD, _HEAD.pack(topic, head_seq, lossy))

    def judge(self) -> None:
        self._send(JUDGE, b"")

    def quit(self) -> None:
        self._send(QUIT, b"")

    def _send(self, kind: int, body: bytes) -> None:
        message = _PREFIX.pack(_PREFIX.size + len(body), kind) + body
        if os.write(self._fd, message) != len(message):
            raise OSError("the pipe to the oracle accepted only a part of a message")


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking one reopening."""

    acked: int
    found: int
    violations: list[str]


class _Batch:
    """An append that was begun."""

    __slots__ = ("acked_at", "first_seq", "hashes", "intended_at", "tags", "topic")

    def __init__(self, topic: int, hashes: list[int], tags: list[int], intended_at: int) -> None:
        self.topic = topic
        self.hashes = hashes
        self.tags = tags
        self.intended_at = intended_at
        self.acked_at = _FOREVER
        self.first_seq = 0


class _Deletes:
    """The deletes of a topic: certain (acked) and possible (begun)."""

    def __init__(self) -> None:
        self.sure_floor = self.floor = 0
        self._sure_before: dict[int, int] = {}
        self._perhaps_before: dict[int, int] = {}

    def begin(self, before: int, tag: int) -> None:
        self.floor = max(self.floor, before)
        if tag:
            self._perhaps_before[tag] = _FOREVER

    def end(self, before: int, tag: int, *, begun_at: int, now: int) -> None:
        self.sure_floor = max(self.sure_floor, before)
        if tag:
            self._sure_before[tag] = max(self._sure_before.get(tag, 0), begun_at)
            self._perhaps_before[tag] = now

    def must_be_gone(self, seq: int, tag: int, acked_at: int) -> bool:
        return seq < self.sure_floor or acked_at < self._sure_before.get(tag, 0)

    def may_be_gone(self, seq: int, tag: int, intended_at: int) -> bool:
        return seq < self.floor or intended_at < self._perhaps_before.get(tag, 0)


class Oracle:
    """Processes messages in order. Owned by one thread."""

    def __init__(self) -> None:
        self.done = False
        self._unread = b""
        self._time = 0
        self._batches: dict[int, _Batch] = {}
        self._by_hash: dict[int, tuple[_Batch, int]] = {}
        self._deletes: dict[int, _Deletes] = {}
        self._begun_deletes: dict[int, tuple[int, int, int, int]] = {}
        self._acked = 0
        self._reset_report()

    def feed(self, data: bytes) -> Iterator[Verdict]:
        """Process data from the pipe; yields a verdict for every ``judge``."""
        data = self._unread + data
        offset = 0
        while len(data) - offset >= _PREFIX.size:
            size, kind = _PREFIX.unpack_from(data, offset)
            if len(data) - offset < size:
                break
            body = data[offset + _PREFIX.size : offset + size]
            offset += size
            self._time += 1
            if kind == JUDGE:
                yield self._judge()
            else:
                self._process(kind, body)
        self._unread = data[offset:]

    def _process(self, kind: int, body: bytes) -> None:
        if kind == INTENT:
            self._intend(body)
        elif kind == ACK:
            op, first_seq = _ACK.unpack(body)
            batch = self._batches[op]
            batch.first_seq, batch.acked_at = first_seq, self._time
            self._acked += len(batch.hashes)
        elif kind == DELETE:
            op, topic, before, tag = _DELETE.unpack(body)
            self._begun_deletes[op] = (topic, before, tag, self._time)
            self._deletes.setdefault(topic, _Deletes()).begin(before, tag)
        elif kind == DELETED:
            topic, before, tag, begun_at = self._begun_deletes.pop(*_DELETED.unpack(body))
            self._deletes[topic].end(before, tag, begun_at=begun_at, now=self._time)
        elif kind == LOOK:
            self._reset_report()
        elif kind == FOUND:
            rows = list(_ROW.iter_unpack(body[_FOUND.size :]))
            self._found_rows.setdefault(body[0], []).extend(rows)
        elif kind == GAP:
            topic, gap_from, gap_to = _GAP.unpack(body)
            self._gaps.setdefault(topic, []).append((gap_from, gap_to))
        elif kind == HEAD:
            topic, head_seq, lossy = _HEAD.unpack(body)
            self._heads[topic] = (head_seq, bool(lossy))
        elif kind == QUIT:
            self.done = True
        else:
            raise ValueError(f"unknown message {kind}")

    def _intend(self, body: bytes) -> None:
        op, topic = _INTENT.unpack_from(body)
        rows = list(_INTENDED.iter_unpack(body[_INTENT.size :]))
        batch = _Batch(topic, [row[0] for row in rows], [row[1] for row in rows], self._time)
        self._batches[op] = batch
        for index, record in enumerate(batch.hashes):
            self._by_hash[record] = (batch, index)

    def _judge(self) -> Verdict:
        violations: list[str] = []
        for topic, (head_seq, lossy) in sorted(self._heads.items()):
            for problem in self._judge_topic(topic, head_seq, lossy=lossy):
                violations.append(f"topic {topic}: {problem}")
        count = sum(len(rows) for rows in self._found_rows.values())
        self._reset_report()
        return Verdict(acked=self._acked, found=count, violations=violations)

    def _reset_report(self) -> None:
        self._found_rows: dict[int, list[Row]] = {}
        self._gaps: dict[int, list[tuple[int, int]]] = {}
        self._heads: dict[int, tuple[int, bool]] = {}

    def _judge_topic(self, topic: int, head_seq: int, *, lossy: bool) -> Iterator[str]:
        rows = self._found_rows.get(topic, [])
        yield from _out_of_order(rows)
        yield from self._misplaced(topic, rows)
        batches = [batch for batch in self._batches.values() if batch.topic == topic]
        located = sorted((b for b in batches if b.first_seq), key=lambda batch: batch.first_seq)
        deletes = self._deletes.get(topic, _Deletes())
        # Losses below a deletion do not count: those records were deleted anyway.
        gaps = [*self._gaps.get(topic, []), (0, deletes.floor - 1)] if lossy else []
        present = {row[0] for row in rows}
        yield from _overlapping(located)
        yield from _not_dense(located, batches, deletes, gaps, head_seq)
        for batch in located:
            for seq, tag in enumerate(batch.tags, batch.first_seq):
                if seq in present:
                    if deletes.must_be_gone(seq, tag, batch.acked_at):
                        yield f"seq {seq} came back after it was deleted"
                elif not (
                    deletes.may_be_gone(seq, tag, batch.intended_at) or _is_in_gap(seq, gaps)
                ):
                    state = "acked" if batch.acked_at < _FOREVER else "part of a recovered batch"
                    yield f"seq {seq} is lost: it was {state}, head is {head_seq}"
            batch.acked_at = min(batch.acked_at, self._time)  # a found record must stay

    def _misplaced(self, topic: int, rows: list[Row]) -> Iterator[str]:
        for seq, _, record in rows:
            batch, index = self._by_hash.get(record, (None, 0))
            if batch is None or batch.topic != topic:
                yield f"seq {seq} has a record that was not written to this topic"
            elif batch.first_seq and batch.first_seq != seq - index:
                yield f"seq {seq} has the record of seq {batch.first_seq + index}"
            else:
                batch.first_seq = seq - index


def _out_of_order(rows: list[Row]) -> Iterator[str]:
    for before, row in itertools.pairwise(rows):
        if row[0] <= before[0]:
            yield f"seq {row[0]} follows seq {before[0]}"
        if row[1] < before[1]:
            yield f"the stamp of seq {row[0]} is below that of seq {before[0]}"


def _overlapping(located: list[_Batch]) -> Iterator[str]:
    for before, batch in itertools.pairwise(located):
        if batch.first_seq < before.first_seq + len(before.hashes):
            yield f"seq {batch.first_seq} was given to two records"


def _not_dense(
    located: list[_Batch],
    batches: list[_Batch],
    deletes: _Deletes,
    gaps: list[tuple[int, int]],
    head_seq: int,
) -> Iterator[str]:
    """Seqs up to the head that belong to no batch; deleted batches may have no known seqs."""
    unlocated = [batch for batch in batches if not batch.first_seq]
    spare = sum(len(b.hashes) for b in unlocated if _may_be_gone_unseen(b, deletes))
    missing: list[range] = []
    expected = 1
    spans = [(batch.first_seq, batch.first_seq + len(batch.hashes)) for batch in located]
    spans += [(gap_from, gap_to + 1) for gap_from, gap_to in gaps]
    for first_seq, following in [*sorted(spans), (head_seq + 1, head_seq + 1)]:
        if expected < first_seq:
            missing.append(range(expected, first_seq))
        expected = max(expected, following)
    if sum(map(len, missing)) > spare:
        yield f"seqs belong to no batch: {missing[:_SHOWN_MAX]}"
    if expected > head_seq + 1:
        yield f"the head is {head_seq}, but seq {expected - 1} was given out"


def _may_be_gone_unseen(batch: _Batch, deletes: _Deletes) -> bool:
    seq = 0 if deletes.floor else _FOREVER
    return all(deletes.may_be_gone(seq, tag, batch.intended_at) for tag in batch.tags)


def _is_in_gap(seq: int, gaps: list[tuple[int, int]]) -> bool:
    return any(gap_from <= seq <= gap_to for gap_from, gap_to in gaps)


def replay(journal: bytes) -> list[Verdict]:
    """The verdicts of a journal."""
    return list(Oracle().feed(journal))


def serve(pipe: str, journal: str) -> None:
    """Run the oracle's process: read messages, write the journal, print verdicts as JSON lines."""
    oracle = Oracle()
    source = os.open(pipe, os.O_RDWR)  # also for writing: it has no end of file when a writer dies
    journal_file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while not oracle.done:
        data = os.read(source, 1 << 20)
        os.write(journal_file, data)
        os.fdatasync(journal_file)
        for verdict in oracle.feed(data):
            sys.stdout.buffer.write(msgspec.json.encode(verdict) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
