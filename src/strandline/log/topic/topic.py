"""The public interface of one topic: append, read, follow, delete, alter, statistics.

Arguments are checked here; ``log/append/append.py`` and ``log/read/read.py`` do the work. Methods
block, and are safe to call from many threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Unpack

import pyarrow as pa
from pyroaring import BitMap64

from strandline.config.settings import LimitSettings, TopicConfig
from strandline.errors import Invalid, RecordsLost, TooLarge, UnknownTopic
from strandline.log.append.append import PendingAppend, check_batch_size, place_plain
from strandline.log.append.batch import (
    AppendOptions,
    Batch,
    IdempotencyKey,
    check_options,
    checked_fields,
    of_arrow,
    of_many,
    of_one,
    of_plain,
)
from strandline.log.read.page import Page
from strandline.log.read.read import RecordsExpired, read_page
from strandline.log.read.read_by_seq import read_seqs
from strandline.log.read.seek import cursor_at
from strandline.log.read.snapshot import TopicSnapshot, scan, take_snapshot
from strandline.log.read.wait import wait_for
from strandline.log.retention.retention_floors import RetentionFloors
from strandline.log.state.job_rules import JobRules, WaitingJobs
from strandline.log.state.statistics import TopicStatistics, statistics_of
from strandline.log.state.topic_state import TopicState, WaitHandle
from strandline.log.topic.admission import Admission
from strandline.log.topic.alter import alter
from strandline.log.topic.delete import DeleteResult, RecordDeleter
from strandline.log.topic.validation import check_expected_head, check_timeout, check_whole
from strandline.log.wal.codec import NO_FIELDS
from strandline.log.wal.reader import Reader
from strandline.log.wal.shard import Shard
from strandline.log.wal.writer import LockHandover
from strandline.platform.clock import Clock
from strandline.records import AppendResult, Record

PAGE_SIZE = 256
_READ_SIZE_MAX = 64 << 20
_TS_MAX = 2**63 - 1


class Topic:
    """An ordered log of records under a name. Get one from ``Store.topic``."""

    def __init__(
        self,
        state: TopicState,
        shard: Shard | None,
        reader: Callable[[], Reader],
        clock: Clock,
        limits: LimitSettings,
        open_queue: Callable[[str], object],
    ) -> None:
        self._state = state
        self._shard_or_none = shard
        self._writer = shard.writer if shard else None
        self._reader = reader
        self._clock = clock
        self._limits = limits
        self._floors = RetentionFloors(state, shard, reader, clock)
        self._admission = Admission(state, self._floors, open_queue)
        self._fast_size_max = -1
        if shard is not None:
            self._fast_size_max = limits.record_bytes_max
            self._fast_writer = shard.writer
            self._now_us = clock.now_us
            self._claim = shard.writer.lock.claims.setdefault
            self._release = shard.writer.release

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def config(self) -> TopicConfig:
        return self._state.config

    @property
    def head_seq(self) -> int:
        """The newest published seq, 0 when there never was a record."""
        return self._state.head_seq

    @property
    def earliest_seq(self) -> int:
        """The first live seq when retention was last applied; head + 1 if there is none."""
        return self._state.earliest_seq

    @property
    def epoch(self) -> int:
        """Changes when a cursor may be invalid: the topic was created again, or lost its tail."""
        return self._state.epoch

    @property
    def identity(self) -> tuple[int, int]:
        """Identifies the topic and its epoch: a name may be used again, an identity never is."""
        return self._state.id, self._state.created_us

    @property
    def is_gone(self) -> bool:
        """Whether the topic was deleted: its name may belong to another topic now."""
        return self._state.dropped

    def notify_next(self, gate: WaitHandle) -> None:
        """Release a gate once, when the head moves next or the topic is deleted. Never blocks."""
        self._state.waiters.append(gate)

    def is_in_tail(self, after: int) -> bool:
        """Whether the records after a cursor are in memory or the log: reading them is fast."""
        return after + 1 >= self._state.near_seq

    def is_local(self, after: int = 0) -> bool:
        """Whether the records after a cursor are on this machine, not in the lake alone."""
        return max(after + 1, self._state.floor) >= self._state.hot_seq

    def gaps_below(self, seq: int) -> list[tuple[int, int]]:
        """First and last seqs of the gaps that begin before a seq."""
        gaps = [(gap.first_seq, gap.last_seq) for gap in self._state.gaps]
        return [gap for gap in gaps if gap[0] < seq]

    def append(
        self, data: bytes | Sequence[bytes], **options: Unpack[AppendOptions]
    ) -> AppendResult:
        """Append one record, or a list of them that share the options' key, tag, node and meta."""
        if options or type(data) is not bytes or len(data) > self._fast_size_max:
            return self.append_nowait(data, **options).wait()
        state = self._state
        writer = self._fast_writer
        # The fast path: one plain record of a disk topic, with the steps of ``place`` inlined.
        claim: list[object] = [None]
        try:
            if self._claim(0, claim) is not claim:
                writer.lock.wait(claim)
            seq = state.next_seq
            if seq <= state.fast_until:
                ts = self._now_us()
                if ts > writer.last_ts:
                    writer.last_ts = ts
                else:
                    ts = writer.stamp_slow()
                location = writer.place_single(state.id, seq, NO_FIELDS, data, ts)
                state.next_seq = seq + 1
                tail = state.tail
                tail.firsts.append(seq)
                tail.locations.append(location)
                state.payload += len(data)
                state.last_ts = ts
                state.head_seq = seq
                if state.waiters:
                    state.wake()
                self._release()
                return AppendResult(seq, seq, seq)
            self._release()
        except BaseException as error:
            if state.next_seq > state.head_seq + 1 and writer.lock.claims.get(0) is claim:
                # Interrupted between placing and publishing: memory and log disagree.
                writer.poison(f"an append was interrupted ({error!r})")
            writer.lock.drop(claim)
            if not isinstance(error, LockHandover):
                raise
        return self.append_nowait(data).wait()

    def append_many(
        self,
        data: Sequence[bytes],
        *,
        keys: Sequence[bytes | str | None] | None = None,
        tags: Sequence[str | None] | None = None,
        nodes: Sequence[str | None] | None = None,
        metas: Sequence[bytes | None] | None = None,
        expected_head: int | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> AppendResult:
        """Append records as one batch: all of them become durable, or none."""
        check_expected_head(expected_head)
        columns = {"key": keys, "tag": tags, "node": nodes, "meta": metas}
        batch = of_many(data, columns, idempotency_key, self._limits)
        return self.place_batch(batch, expected_head).wait()

    def append_arrow(
        self,
        batch: pa.RecordBatch | pa.Table,
        *,
        expected_head: int | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> AppendResult:
        """Append the rows of an Arrow batch: column data, and if present key, tag, node, meta."""
        check_expected_head(expected_head)
        return self.place_arrow(
            batch, expected_head=expected_head, idempotency_key=idempotency_key
        ).wait()

    def check_arrow(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Raise the error that ``append_arrow`` would raise for these rows; append nothing."""
        check_batch_size(self._state, of_arrow(batch, None, self._limits))

    def last_number(self, producer: str) -> int | None:
        """The highest number accepted here from a producer, None when there was none."""
        newest = (self._state.producers or {}).get(producer.encode())
        return None if newest is None else newest[0]

    def producers(self, prefix: str = "") -> list[str]:
        """The names of producers whose numbers were accepted here and are still stored."""
        known = [producer.decode() for producer in self._state.producers or {}]
        return sorted(name for name in known if name.startswith(prefix))

    def append_nowait(
        self, data: bytes | Sequence[bytes], **options: Unpack[AppendOptions]
    ) -> PendingAppend:
        """Place an append now and wait for it later: ``wait()``, or ``await durable()``."""
        if not options and type(data) is bytes:
            return self._place_plain(data)
        check_options(options)
        key, tag = options.get("key"), options.get("tag")
        node, meta = options.get("node"), options.get("meta")
        idempotency_key = options.get("idempotency_key")
        expected_head = options.get("expected_head")
        check_expected_head(expected_head)
        fields = checked_fields(key, tag, node, meta)
        if isinstance(data, bytes) and idempotency_key is None:
            batch = of_one(data, fields, tag, self._limits)
        else:
            many = [data] if isinstance(data, bytes) else data
            columns = {"key": fields[0], "tag": tag, "node": node, "meta": meta}
            batch = of_many(many, columns, idempotency_key, self._limits)
        return self.place_batch(batch, expected_head)

    def _place_plain(self, data: bytes) -> PendingAppend:
        state = self._state
        config = state.config
        is_small = len(data) <= self._fast_size_max
        is_job = config.views.queue is not None
        if config.durability != "fsync" or config.discard != "old" or is_job or not is_small:
            return self.place_batch(of_plain(data, self._limits), None)
        placed = place_plain(state, self._shard(), data)
        return placed or self.place_batch(of_plain(data, self._limits), None)

    def place_many(
        self,
        data: Sequence[bytes],
        *,
        keys: Sequence[bytes | None] | None = None,
        tags: Sequence[str | None] | None = None,
        nodes: Sequence[str | None] | None = None,
        metas: Sequence[bytes | None] | None = None,
        expected_head: int | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> PendingAppend:
        """As ``append_many``, to wait for later; a single record takes the short path."""
        if len(data) == 1 and idempotency_key is None:
            tag = tags[0] if tags else None
            node = nodes[0] if nodes else None
            meta = metas[0] if metas else None
            fields = checked_fields(keys[0] if keys else None, tag, node, meta)
            batch = of_one(data[0], fields, tag, self._limits)
        else:
            columns = {"key": keys, "tag": tags, "node": nodes, "meta": metas}
            batch = of_many(data, columns, idempotency_key, self._limits)
        return self.place_batch(batch, expected_head)

    def place_arrow(
        self,
        batch: pa.RecordBatch | pa.Table,
        *,
        expected_head: int | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> PendingAppend:
        """As ``append_arrow``, to wait for later."""
        return self.place_batch(of_arrow(batch, idempotency_key, self._limits), expected_head)

    def wait_published(self) -> None:
        """Wait until everything placed so far is published; raise when it never will be."""
        state = self._state
        while state.next_seq - 1 > state.head_seq:
            shard = self._shard()
            shard.committer.wait_synced(shard.writer.end_lsn)

    def sync(self) -> None:
        """Make everything placed so far survive a power loss, and wait for that."""
        shard = self._shard()
        shard.flush()
        shard.committer.sync_now()

    @property
    def is_quick(self) -> bool:
        """Whether an append is fast: no queue has to be opened first, or to make space."""
        return self._admission.is_quick

    def place_batch(self, batch: Batch, expected_head: int | None = None) -> PendingAppend:
        """Place a checked batch."""
        return self._admission.place(self._shard(), batch, expected_head)

    def attach_queue(self, jobs: JobRules, ended: BitMap64, waiting: WaitingJobs | None) -> None:
        """Attach the topic's open queue: the rules that admit jobs, the jobs that have ended (the
        bitmap is shared, so later ones count) and are hidden from readers, and how many wait."""
        self._state.jobs, self._state.ended, self._state.waiting = jobs, ended, waiting

    def read(
        self,
        after: int = 0,
        limit: int = PAGE_SIZE,
        *,
        node: str | None = None,
        size_max: int = _READ_SIZE_MAX,
        epoch: int | None = None,
    ) -> Page:
        """At most ``limit`` records after a cursor. Records that ``node`` appended are left out."""
        check_whole(after=after, limit=limit, size_max=size_max)
        if after < 0 or limit < 1 or size_max < 1:
            raise Invalid("after is 0 or a seq, limit and size_max are at least 1")
        if limit > self._limits.page_records_max:
            raise TooLarge(f"limit is over page_records_max ({self._limits.page_records_max})")
        if node is not None and not isinstance(node, str):
            raise Invalid(f"node is text, not {type(node).__name__}")
        if epoch is not None:
            check_whole(epoch=epoch)
        return self._read(after, limit, node, size_max, epoch)

    def _read(
        self,
        after: int,
        limit: int,
        node: str | None,
        size_max: int,
        epoch: int | None,
        *,
        with_ended: bool = False,
    ) -> Page:
        while True:
            self._refresh_floors()
            try:
                return read_page(
                    self._state,
                    self._reader,
                    after=after,
                    limit=limit,
                    size_max=size_max,
                    skip_node=node if self._state.config.dedupe_node else None,
                    epoch=epoch,
                    cutoff=self._floors.cutoff(),
                    with_ended=with_ended,
                )
            except RecordsExpired as expired:
                self._floors.expire(expired.floor)

    def read_stored(self, after: int, limit: int, *, size_max: int) -> Page:
        """As ``read``, with jobs that have ended and are still in the log: for routers."""
        return self._read(after, limit, None, size_max, None, with_ended=True)

    def read_unlocked(self, after: int, limit: int, *, node: str | None, size_max: int) -> Page:
        """As ``read`` for a reader that was just notified: no lock, so no new evictions either."""
        self._check_alive()
        return read_page(
            self._state,
            self._reader,
            after=after,
            limit=limit,
            size_max=size_max,
            skip_node=node if self._state.config.dedupe_node else None,
            epoch=None,
        )

    def get_many(self, seqs: Sequence[int]) -> Page:
        """The live ones of these records, in order of seq."""
        self._refresh_floors()
        return read_seqs(self._state, self._reader, seqs)

    def cursor_at(self, ts: int) -> int:
        """The cursor from which a read returns the records of a time (microseconds) and later."""
        check_whole(ts=ts)
        self._refresh_floors()
        return cursor_at(self._state, self._reader, max(-_TS_MAX, min(ts, _TS_MAX)))

    def snapshot(self) -> TopicSnapshot:
        """Which records exist now, for readers in several processes that must agree."""
        self._refresh_floors()
        state = self._state
        if state.config.ttl_ms and state.floor < state.hot_seq:
            self.read(0, 1)  # only a read finds out exactly which records of the lake have expired
        return take_snapshot(state)

    def scan(self, snapshot: TopicSnapshot, first_seq: int, last_seq: int) -> Iterator[pa.Table]:
        """The records of a snapshot between two seqs, both included."""
        self._check_alive()
        return scan(self._state, self._reader, snapshot, first_seq, last_seq)

    def wait_for(self, after: int, timeout_s: float | None = None) -> bool:
        """Wait until the head is past a cursor; False after the timeout, or for a deleted topic."""
        check_whole(after=after)
        check_timeout(timeout_s)
        return wait_for(self._state, self._clock, self._writer, after, timeout_s)

    def follow(
        self,
        after: int = 0,
        *,
        node: str | None = None,
        timeout_s: float | None = None,
        lossy: bool = False,
        epoch: int | None = None,
    ) -> Iterator[Record]:
        """Records after a cursor, then live ones, until none came for ``timeout_s``.

        Lost records raise ``RecordsLost`` unless ``lossy``. With the ``epoch`` of an earlier page,
        a cursor of an earlier topic of this name raises it as well.
        """
        check_whole(after=after)
        check_timeout(timeout_s)
        return self._follow(after, node, timeout_s, epoch, lossy=lossy)

    def _follow(
        self,
        after: int,
        node: str | None,
        timeout_s: float | None,
        epoch: int | None,
        *,
        lossy: bool,
    ) -> Iterator[Record]:
        while True:
            page = self.read(after, 1024, node=node, epoch=epoch)
            if page.tombstone is not None and not lossy:
                gap = page.tombstone
                raise RecordsLost(self.name, gap.gap_from, gap.gap_to, gap.reason)
            yield from page.records
            after, epoch = page.next, page.epoch
            if page.caught_up and not self.wait_for(after, timeout_s):
                return

    def delete(self, *, before: int | None = None, match: str | None = None) -> DeleteResult:
        """Delete records for good: below a seq, with a tag (``"eu*"`` for a prefix), or both."""
        if before is None and match is None:
            raise Invalid("name what to delete: before=SEQ, match=TAG, or both")
        if before is not None:
            check_whole(before=before)
            if before < 1:
                raise Invalid("before is a seq: at least 1")
        if match is not None and not isinstance(match, str):
            raise Invalid(f"match is a tag, not {type(match).__name__}")
        if self._state.config.views:
            raise Invalid(
                f"topic {self.name!r} has views, which need its records: delete through the view "
                "(of a queue: purge)"
            )
        return self._deleter().delete(before, match)

    def trim(self, seqs: BitMap64, *, before: int = 0) -> DeleteResult:
        """Delete records that the topic's views no longer need."""
        return self._deleter().trim(seqs, before)

    def _deleter(self) -> RecordDeleter:
        return RecordDeleter(self._state, self._shard(), self._reader, self._floors)

    def alter(self, **options: object) -> TopicConfig:
        """Change the configuration from now on; what the old one evicted stays evicted."""
        return alter(self._state, self._shard(), self._floors, options)

    def statistics(self) -> TopicStatistics:
        """The statistics of the topic now."""
        self._refresh_floors()
        return statistics_of(self._state)

    def estimate(self) -> TopicStatistics:
        """As ``statistics``, without reads: ``payload_bytes`` has recent deletes by averages."""
        self._refresh_floors()
        return statistics_of(self._state, exact=False)

    def enforce_retention(self) -> None:
        """Apply caps and ttl now and put the floor on the log, as the retention job does."""
        self._floors.enforce_now(self._shard())

    def _refresh_floors(self) -> None:
        """Bring the floors up to date before they are visible to a caller."""
        self._check_alive()
        self._floors.refresh()

    def _shard(self) -> Shard:
        if self._shard_or_none is None:
            raise Invalid("the store is open read-only: open it for writing to change it")
        return self._shard_or_none

    def _check_alive(self) -> None:
        if self._state.dropped:
            raise UnknownTopic(f"topic {self.name!r} was deleted: create it again")
