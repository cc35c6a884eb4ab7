"""The fold of a queue: folds records of jobs and of leases into the jobs and their holders.

Source 0 is the topic of jobs, source 1 the topic of leases (`views/queue/codec.py`). They hold
different things: a job's own record holds its options, records of leases what became of it. So the
result is the same whether all jobs come first and then all leases, as in a replay, or interleaved,
as they were written. A record of leases has no effect on a job that does not exist (it has ended
and left the log, or was lost).

The state does not contain time. ``look`` expires leases and delays at a given time; what it changes
(READY or DELAYED, HELD or LAPSED) is neither saved nor part of the digest.

The number of a lease is (seq of the claim) * 65536 + (index in the claim). Seqs are never reused,
so neither are leases.

Pages: in the first space one page for each chunk (`views/queue/state/chunk_codec.py`), in the
second one page for the rest of the state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash
from pyroaring import BitMap64

from strandline.config.view_config import QueueConfig
from strandline.errors import Corrupt
from strandline.records import Record
from strandline.reservoir.session import Session
from strandline.views.queue import codec
from strandline.views.queue.codec import (
    BURY,
    CLAIM,
    DEAD,
    END,
    EXTEND,
    NACK,
    PAUSE,
    SURVEY,
    LeaseRecord,
    Seqs,
)
from strandline.views.queue.state import chunk_codec, lease_snapshot
from strandline.views.queue.state.job_chunk import BLOCKED, DYING, HELD, KINDS, LAPSED, JobChunk
from strandline.views.queue.state.lease_snapshot import SurveyRecord
from strandline.views.queue.state.leases import LeaseTerms
from strandline.views.queue.state.transitions import Jobs
from strandline.views.view import FoldColumns, FoldContext, VisibleItem

JOBS, LEASES = 0, 1
"""The sources."""
JOB_BYTES = 64
"""Bytes that a waiting job takes at most, unless it has a delay, a ttl, a key and its own group."""
_MEASURED_AT_ONCE = 1000
_FORM = b"\x01"
_WAITING, _FLYING, _DYING = 1, 2, 3
_SEEN = ("not_before", "expires", "group", "unique", "lease")


class Burial(NamedTuple):
    """Jobs that are being moved to the dead letters, under a number that is appended there once."""

    number: int
    seqs: Seqs


class _RedrivenLetters(NamedTuple):
    """The dead letters that the newest redrive has put back into the queue."""

    number: int
    seqs: tuple[int, ...]


class AgeLimit(NamedTuple):
    """Records up to ``seq`` were put before ``before_us``; the next one not before ``next_us``."""

    before_us: int
    seq: int
    next_us: int


class _ReleasableRecords(NamedTuple):
    """Records that the log does not need any more once this state is durable."""

    leases_head: int
    """The newest record of leases in this state."""
    before: int
    """All jobs below this seq have ended."""
    seqs: BitMap64
    """Other jobs that have ended."""


class _Rest(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The saved state besides the chunks."""

    chunks: bytes
    heads: list[int]
    paused: bool
    burial: tuple[int, bytes] | None
    returned: tuple[int, tuple[int, ...]]
    ended: bytes
    survey: tuple[int, int]
    survey_bytes: int
    spoken: int
    grants: list[tuple[int, bytes, int]]
    measured: bool = False


class QueueFold:
    """The state of a queue. Owned by one thread: the one that holds the lock of its host."""

    def __init__(self, config: QueueConfig, world: FoldContext) -> None:
        self.config = config
        self.jobs = Jobs()
        self.heads = [0, 0]
        """The newest seq of each source that was folded in."""
        self.paused = False
        self.burial: Burial | None = None
        self.returned = _RedrivenLetters(0, ())
        self.releasable = _ReleasableRecords(0, 0, BitMap64())
        self.survey_begin = 0
        """The seq at which the newest complete survey begins."""
        self.survey_end = 0
        """The seq of its last record."""
        self.survey_bytes = 0
        """Its size."""
        self.lease_bytes = 0
        """Bytes in the topic of leases since its beginning."""
        self.measured = False
        """Whether the size of each job is known: only a cap in bytes needs that."""
        self.age_limit: AgeLimit | None = None
        """The seq up to which jobs were too old at the last check."""
        self.when_applied: Callable[[QueueFold], None] | None = None
        self._survey_start = (0, 0)
        self._wall_us = 0
        self._space = 0
        self._share = world.share
        self._charged = 0

    def __del__(self) -> None:
        self._share.release(self._charged)

    def apply(self, source: int, rows: FoldColumns) -> None:
        """Fold records in. Each comes once and in order."""
        if source == JOBS:
            self._put(rows)
        else:
            for seq, data in zip(rows.seqs, rows.data, strict=True):
                self.lease_bytes += len(data)
                word = codec.decode_lease_record(data)
                if word is not None:
                    self._apply_lease_record(seq, word)
                    self.jobs.table.shrink_chunks()
        self.heads[source] = rows.seqs[-1]
        self._count_memory()
        if self.when_applied is not None:
            self.when_applied(self)

    def advance_time(self, now: float, wall_us: int) -> None:
        """Expire leases by the monotonic time and delays by the wall clock."""
        self.jobs.expire_leases(now)
        board = self.jobs.table
        if wall_us < self._wall_us:
            board.demote(wall_us)
        board.promote(wall_us)
        self._wall_us = wall_us

    def measure(self, fetch: Callable[[int, Sequence[int]], list[Record]]) -> None:
        """Determine the size of each job, from now on: reads the existing jobs once."""
        if self.measured:
            return
        for chunk in list(self.jobs.table.chunks.values()):
            seqs = chunk.seqs((chunk.state >= BLOCKED).nonzero()[0])
            for first in range(0, len(seqs), _MEASURED_AT_ONCE):
                records = fetch(JOBS, seqs[first : first + _MEASURED_AT_ONCE].tolist())
                present = np.array([record.seq for record in records], dtype=np.int64)
                sizes = [_size(r.key, r.tag, r.meta, r.data) for r in records]
                self.jobs.measure(present, np.array(sizes, dtype=np.int64))
        self.measured = True
        self._count_memory()

    def wait_s(self, now: float, wall_us: int) -> float | None:
        """Seconds until time alone makes a job ready; None if it never does."""
        lapses, due = self.jobs.leases.next(), self.jobs.table.delay_timers.next()
        waits = [] if lapses is None else [lapses - now]
        if due is not None:
            waits.append((due - wall_us) / 1e6)
        return min(waits, default=None)

    def load(self, session: Session, space: int, state: bytes) -> None:
        """Start from a saved state, or from nothing when ``state`` is empty."""
        self._space = space
        if not state:
            return
        page = session.read(self._rest_page)
        if state != _FORM or page is None:
            raise Corrupt("the state of a queue is not the one that was saved", path="a page")
        try:
            rest = msgspec.msgpack.decode(page, type=_Rest)
        except msgspec.DecodeError as error:
            raise Corrupt(f"a queue's page cannot be read ({error})", path="a page") from error
        for number in BitMap64.deserialize(rest.chunks):
            chunk_page = session.read(self._chunk_page(number))
            if chunk_page is None:
                raise Corrupt(f"chunk {number} of a queue is missing", path="a page")
            self.jobs.table.adopt(chunk_codec.decode(number, chunk_page))
        self._load_rest(rest)
        self._count_memory()

    def save(self, session: Session) -> bytes:
        """Write the changed pages; return what else is needed to load them."""
        board = self.jobs.table
        for number in sorted(board.changed):
            board.trim(number)
            session.write(self._chunk_page(number), chunk_codec.encode(board.chunks[number]))
        for number in sorted(board.dropped):
            session.delete(self._chunk_page(number))
        board.changed.clear()
        board.dropped.clear()
        session.write(self._rest_page, msgspec.msgpack.encode(self._rest()))
        before = board.first_live() or self.heads[JOBS] + 1
        self.releasable = _ReleasableRecords(self.heads[LEASES], before, self.jobs.ended.copy())
        self._count_memory()
        return _FORM

    def forget(self, released: _ReleasableRecords) -> None:
        """Forget ended jobs whose records were deleted from the log."""
        self.jobs.ended.difference_update(released.seqs)

    def digest(self) -> bytes:
        """A checksum of everything that a user can see, independent of how it came about."""
        checksum = xxhash.xxh3_128()
        for _, chunk in sorted(self.jobs.table.chunks.items()):
            for column in _visible(chunk):
                checksum.update(column)
        checksum.update(b"paused" if self.paused else b"")
        return checksum.digest()

    def visible_items(
        self, first: bytes | None = None, next: bytes | None = None
    ) -> Iterator[VisibleItem]:
        """Jobs by seq as eight bytes, big-endian; before them whether the queue is paused."""
        if not first and (next is None or next > b""):
            yield VisibleItem(b"", b"paused" if self.paused else b"")
        low = int.from_bytes((first or b"").ljust(8, b"\0")[:8], "big")
        for _, chunk in sorted(self.jobs.table.chunks.items()):
            seqs, *columns = _visible(chunk)
            cells = [np.frombuffer(column, "u1") for column in columns]
            numbers = np.frombuffer(seqs, "<i8")
            count = max(1, len(numbers))
            wide = np.hstack([part.reshape(count, -1) for part in cells if len(part)] or [numbers])
            for row in range(int(numbers.searchsorted(low)), len(numbers)):
                name = int(numbers[row]).to_bytes(8, "big")
                if next is not None and name >= next:
                    return
                yield VisibleItem(name, wide[row].tobytes())

    def _put(self, rows: FoldColumns) -> None:
        seqs = np.asarray(rows.seqs, dtype=np.int64)
        if rows.metas.count(None) == len(rows.metas):
            self.jobs.add(seqs, rows.keys, codec.PLAIN)
        else:
            at = 0
            for meta, run in itertools.groupby(rows.metas):
                job, following = codec.decode_job(meta), at + sum(1 for _ in run)
                self.jobs.add(seqs[at:following], rows.keys[at:following], job)
                number, seq = job.returned
                if seq:
                    known = self.returned.seqs if number == self.returned.number else ()
                    self.returned = _RedrivenLetters(number, (*known, seq))
                at = following
        if self.measured:
            sizes = list(map(_size, rows.keys, rows.tags, rows.metas, rows.data))
            self.jobs.measure(seqs, np.array(sizes, dtype=np.int64))
        self.jobs.table.shrink_chunks()

    def _apply_lease_record(self, seq: int, word: LeaseRecord) -> None:
        """Apply a record of leases."""
        jobs = self.jobs
        if word.kind == CLAIM:
            jobs.claim(seq, word.seqs, LeaseTerms(word.text, word.number))
        elif word.kind == EXTEND:
            jobs.extend(seq, word.seqs, LeaseTerms(word.text, word.number))
        elif word.kind == NACK:
            jobs.give_back(word.seqs, word.number)
        elif word.kind == END:
            jobs.end(word.seqs)
            if word.number == DEAD:
                self.burial = None
        elif word.kind == BURY:
            buried = jobs.bury(word.seqs)  # empty if a power loss removed them from their topic
            self.burial = Burial(word.number, buried) if len(buried) else None
        elif word.kind == PAUSE:
            self.paused = word.number != 0
        elif word.kind == SURVEY:
            statement = lease_snapshot.decode(word.text)
            if statement is not None:
                self._apply_survey(seq, statement)

    def _apply_survey(self, seq: int, statement: SurveyRecord) -> None:
        """Apply a record of a survey: it holds at its position, whatever the state was before."""
        if not statement.begin:
            self.paused = statement.paused
            buried = np.frombuffer(statement.buried, dtype="<i8")
            self.burial = Burial(statement.burial, buried) if len(buried) else None
            self._survey_start = (seq, self.lease_bytes)
        live = lease_snapshot.live_of(statement)
        self.jobs.keep_only(live, statement.first, statement.following)
        self.jobs.restore(
            lease_snapshot.claim_columns(statement), lease_snapshot.terms_of(statement)
        )
        if statement.last and self._survey_start[0] == (statement.begin or seq):
            self.survey_begin, self.survey_end = self._survey_start[0], seq
            self.survey_bytes = self.lease_bytes = self.lease_bytes - self._survey_start[1]

    def _load_rest(self, rest: _Rest) -> None:
        self.heads = list(rest.heads)
        self.paused = rest.paused
        if rest.burial is not None:
            number, seqs = rest.burial
            self.burial = Burial(number, np.frombuffer(seqs, dtype="<i8"))
        self.returned = _RedrivenLetters(*rest.returned)
        self.survey_begin, self.survey_end = rest.survey
        self.survey_bytes, self.lease_bytes = rest.survey_bytes, rest.spoken
        self.jobs.ended = BitMap64.deserialize(rest.ended)
        self.measured = rest.measured
        terms = {number: LeaseTerms(worker, lease_ms) for number, worker, lease_ms in rest.grants}
        self.jobs.load(terms)

    def _rest(self) -> _Rest:
        buried = self.burial
        return _Rest(
            chunks=BitMap64(self.jobs.table.chunks).serialize(),
            heads=self.heads,
            paused=self.paused,
            burial=None if buried is None else (buried.number, buried.seqs.tobytes()),
            returned=(self.returned.number, self.returned.seqs),
            ended=self.jobs.ended.serialize(),
            survey=(self.survey_begin, self.survey_end),
            survey_bytes=self.survey_bytes,
            spoken=self.lease_bytes,
            grants=[(number, *terms) for number, terms in self.jobs.leases.all_terms()],
            measured=self.measured,
        )

    def _count_memory(self) -> None:
        more = self.jobs.nbytes - self._charged
        if more > 0:
            self._share.charge(more)
        elif more < 0:
            self._share.release(-more)
        self._charged += more

    def _chunk_page(self, number: int) -> int:
        assert number < 1 << 32, "2^46 seqs are enough for one queue"
        return self._space << 32 | number

    @property
    def _rest_page(self) -> int:
        return (self._space + 1) << 32


def _size(key: bytes | None, tag: str | None, meta: bytes | None, data: bytes) -> int:
    """The size of a job as a cap in bytes counts it."""
    key_and_meta = len(key or b"") + len(meta or b"")
    return key_and_meta + len(data) + (0 if tag is None else len(tag.encode()))


def _visible(chunk: JobChunk) -> list[bytes]:
    rows = (chunk.state >= BLOCKED).nonzero()[0]
    states = chunk.state[rows]
    seen = np.full(len(rows), _WAITING, dtype=np.uint8)
    seen[(states == HELD) | (states == LAPSED)] = _FLYING
    seen[states == DYING] = _DYING
    columns = [
        chunk.seqs(rows).astype("<i8"),
        chunk.priority[rows],
        chunk.deliveries[rows].astype("<u2"),
        seen,
        *(chunk.values(name, rows).astype(KINDS[name]) for name in _SEEN),
    ]
    return [column.tobytes() for column in columns]
