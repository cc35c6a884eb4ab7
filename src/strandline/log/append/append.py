"""Appending: seqs are assigned and the frame is placed in one step under the writer's lock.

What follows depends on the topic's durability:

    fsync      published and acknowledged after the sync that covers the frame
    disk       published at once: the frame is in the page cache and survives the process
    memory     published at once; single records wait in memory for the next tick, batches do not
    ephemeral  published at once, in memory only

All but ``fsync`` can lose acknowledged records with the machine. So that their seqs are never
assigned to other records, they are drawn from a reserved range: a ``Ceiling`` on the log that is
synced before the first seq above the old ceiling is assigned. Reservations are made ahead and grow
with the topic's pace; after a crash the rest of the range becomes a tombstone.
"""

from __future__ import annotations

import asyncio
import functools

from strandline.errors import Conflict, TooLarge, TopicFull, UnknownTopic
from strandline.log.append.batch import Batch
from strandline.log.state import producer_seq, reference_copies
from strandline.log.state.memory_tail import MemoryTail
from strandline.log.state.topic_state import FIRST_CEILING, TopicState
from strandline.log.wal import control_messages
from strandline.log.wal.codec import NO_FIELDS
from strandline.log.wal.committer import Committer
from strandline.log.wal.shard import Shard
from strandline.records import AppendResult

_CEILING_STEP_MAX = 1 << 26
_BUSY_US = 2_000_000
_QUIET_US = 60_000_000


class PendingAppend:
    """An append that is placed and perhaps not yet durable."""

    __slots__ = ("appended", "committer", "lsn", "ts")

    def __init__(self, appended: AppendResult, committer: Committer, lsn: int, ts: int = 0) -> None:
        self.appended = appended
        self.ts = ts
        """The commit time; 0 when it is an earlier append that had the same key."""
        self.committer = committer
        self.lsn = lsn
        """The lsn that the log must be synced up to before it is durable; 0 when it need not be."""

    def wait(self) -> AppendResult:
        """Return once the append is acknowledged with the topic's durability."""
        if self.lsn:
            self.committer.wait_synced(self.lsn)
        return self.appended

    def durable(self) -> asyncio.Future[AppendResult]:
        """As ``wait``, for a coroutine: ``await`` the result."""
        return self.committer.synced_future(self.lsn, self.appended)


def place(
    state: TopicState, shard: Shard, batch: Batch, expected_head: int | None
) -> PendingAppend:
    """Assign seqs and place the batch; it may still have to become durable."""
    writer = shard.writer
    while True:
        writer.acquire()
        try:
            duplicate = _find_duplicate(state, shard, batch.idempotency_key)
            if duplicate is not None:
                return duplicate
            _check(state, batch, expected_head)
            if batch.origin is not None:
                reference_copies.check(batch.origin, state)
            reserved_at = reserve(state, shard, batch.count)
            if not reserved_at:
                return _place(state, shard, batch)
        except BaseException as error:
            if state.torn:
                writer.poison(f"an append was interrupted ({error!r})")
            raise
        finally:
            writer.release()
        shard.committer.wait_synced(reserved_at)


def place_plain(state: TopicState, shard: Shard, data: bytes) -> PendingAppend | None:
    """As ``place``, in few steps, for one record of an ``fsync`` topic; None when the topic is
    deleted or has records in memory: then use ``place``."""
    writer, committer = shard.writer, shard.committer
    writer.acquire()
    try:
        if state.dropped or state.memory is not None:
            return None
        seq, ts = state.next_seq, writer.stamp()
        location = writer.place_single(state.id, seq, NO_FIELDS, data, ts)
        state.torn = True
        state.pending_payload += len(data)
        publish = functools.partial(_publish_plain, state, seq, location, ts, len(data))
        lsn = committer.publish_when_synced(publish)
        state.next_seq = seq + 1
        state.torn = False
        return PendingAppend(AppendResult(seq, seq, seq), committer, lsn, ts)
    except BaseException as error:
        if state.torn:
            writer.poison(f"an append was interrupted ({error!r})")
        raise
    finally:
        writer.release()


def _find_duplicate(state: TopicState, shard: Shard, key: bytes | None) -> PendingAppend | None:
    if state.dropped:
        raise UnknownTopic(f"topic {state.name!r} was deleted: create it again")
    if key is None:
        return None
    seqs = _find_numbered(state, key) if producer_seq.is_mark(key) else _find_key(state, shard, key)
    if seqs is None:
        return None
    first_seq, last_seq = seqs
    appended = AppendResult(first_seq, last_seq, state.next_seq - 1, True)
    # Of an older number only its order is known: its batch is before the newest one.
    newest_seq = last_seq or appended.head_seq
    lsn = shard.writer.end_lsn if newest_seq > state.head_seq else 0
    return PendingAppend(appended, shard.committer, lsn)


def _find_key(state: TopicState, shard: Shard, key: bytes) -> tuple[int, int] | None:
    keys = state.idempotency
    return None if keys is None else keys.find(key, shard.writer.elapsed.now_us())


def _find_numbered(state: TopicState, mark: bytes) -> tuple[int, int] | None:
    """Seqs of an appended batch with this number; zeros when the producer's newest is higher."""
    decoded = producer_seq.decode(mark)
    assert decoded is not None
    producer, number = decoded
    newest = None if state.producers is None else state.producers.get(producer)
    if newest is None or number > newest[0]:
        return None
    return newest[1:3] if number == newest[0] else (0, 0)


def _check(state: TopicState, batch: Batch, expected_head: int | None) -> None:
    head = state.next_seq - 1
    if expected_head is not None and expected_head != head:
        raise Conflict(
            f"topic {state.name!r} is at seq {head}, not {expected_head}: read on, then retry"
        )
    config = state.config
    if config.discard != "reject" or not (config.cap_records or config.cap_bytes):
        return
    if state.waiting is None:
        count = state.live_count + head - state.head_seq
        size = state.live_payload + state.pending_payload
    else:
        count, size = state.waiting.with_placed(head)
    count, size = count + batch.count, size + batch.payload
    if config.cap_records and count > config.cap_records:
        _reject(state, batch.count > config.cap_records, f"{config.cap_records} records")
    if config.cap_bytes and size > config.cap_bytes:
        _reject(state, batch.payload > config.cap_bytes, f"{config.cap_bytes} bytes")


def check_batch_size(state: TopicState, batch: Batch) -> None:
    """Raise when a batch could not be appended even if the topic were empty."""
    config = state.config
    if config.discard == "reject":
        if 0 < config.cap_records < batch.count:
            _reject(state, True, f"{config.cap_records} records")
        if 0 < config.cap_bytes < batch.payload:
            _reject(state, True, f"{config.cap_bytes} bytes")


def _reject(state: TopicState, never: bool, cap: str) -> None:  # noqa: FBT001 - private, one caller
    if never:
        raise TooLarge(f"the batch alone is larger than topic {state.name!r} may be ({cap})")
    raise TopicFull(
        f"topic {state.name!r} is full ({cap}, head {state.head_seq}, earliest "
        f"{state.earliest_seq}): "
        + (
            "delete records or raise the cap"
            if state.config.views.queue is None
            else "let workers claim jobs, purge some, or raise the cap"
        )
    )


def reserve(state: TopicState, shard: Shard, count: int) -> int:
    """Reserve seqs for so many records: 0, or the lsn that must be synced before they are used."""
    if state.config.durability == "fsync":
        return 0
    needed = state.next_seq + count - 1
    if needed + state.ceiling_step // 2 > state.ceiling_requested:
        now = shard.writer.stamp()
        step = _next_step(state.ceiling_step, now - state.ceiling_at, count)
        shard.writer.place_control(state.id, control_messages.Ceiling(needed + step))
        state.ceiling_step, state.ceiling_requested, state.ceiling_at = step, needed + step, now
        raise_ceiling = functools.partial(_raise_ceiling, state, needed + step)
        shard.committer.publish_when_synced(raise_ceiling)
        update_fast_limit(state)
    return shard.writer.end_lsn if needed > state.ceiling else 0


def _next_step(step: int, lasted_us: int, count: int) -> int:
    """How many seqs to reserve: enough for seconds of a busy topic, few for a quiet one."""
    if lasted_us < _BUSY_US:
        step *= 2
    elif lasted_us > _QUIET_US:
        step //= 2
    return max(FIRST_CEILING, min(_CEILING_STEP_MAX, step), 8 * count)


def _raise_ceiling(state: TopicState, ceiling: int) -> None:
    state.ceiling = max(state.ceiling, ceiling)
    update_fast_limit(state)


def update_fast_limit(state: TopicState) -> None:
    """Set the seq up to which a plain single record skips every check of ``place``."""
    plain = (
        state.config.durability == "disk"
        and state.config.discard == "old"
        and not state.dropped
        and state.config.views.queue is None  # jobs have to be admitted
        and state.memory is None  # copies, which must be on the log before what follows them
    )
    # Below the point where the next reservation is due, so that ``place`` makes it.
    state.fast_until = min(state.ceiling, state.ceiling_requested - state.ceiling_step // 2)
    if not plain or state.config.cap_bytes:
        state.fast_until = 0


def _place(state: TopicState, shard: Shard, batch: Batch) -> PendingAppend:
    first_seq = state.next_seq
    last_seq = first_seq + batch.count - 1
    ts = shard.writer.stamp()
    durability = state.config.durability
    lsn = 0
    if durability == "ephemeral" or (durability == "memory" and batch.draft is None):
        shard.writer.begin_term()
        state.torn = True
        _place_in_memory(state, shard, batch, first_seq, ts)
    else:
        location = -1
        if batch.origin is not None:
            _place_reference(state, shard, batch, first_seq, ts)
        else:
            if state.memory is not None:
                flush_memory(state, shard)
            location = _place_in_log(state, shard, batch, first_seq, ts)
        state.torn = True
        state.pending_payload += batch.payload
        publish = functools.partial(_publish, state, batch, first_seq, location, ts)
        if durability == "fsync":
            lsn = shard.committer.publish_when_synced(publish)
        else:
            publish()
    state.next_seq = last_seq + 1
    if state.waiting is not None:
        state.waiting.place(last_seq, batch.payload)
    if batch.idempotency_key is not None:
        now_us = shard.writer.elapsed.now_us()
        state.forget_expired_keys(now_us)
        evicted = state.remember(batch.idempotency_key, first_seq, last_seq, ts, now_us)
        shard.keys_evicted += evicted
    state.torn = False
    return PendingAppend(AppendResult(first_seq, last_seq, last_seq), shard.committer, lsn, ts)


def _place_in_log(state: TopicState, shard: Shard, batch: Batch, first_seq: int, ts: int) -> int:
    if batch.draft is not None:
        return shard.writer.place_draft(batch.draft, state.id, first_seq, ts)
    payload = batch.data
    if batch.sizes != NO_FIELDS:
        payload = b"".join(field for field in batch.fields if field is not None) + payload
    return shard.writer.place_single(state.id, first_seq, batch.sizes, payload, ts)


def _place_reference(
    state: TopicState, shard: Shard, batch: Batch, first_seq: int, ts: int
) -> None:
    """Log which records these are copies of; the copies themselves stay in memory."""
    assert batch.origin is not None
    assert batch.draft is not None
    origin, mark = batch.origin, batch.idempotency_key or b""
    shard.writer.place_control(
        state.id,
        control_messages.Copied(
            origin.source.id, origin.seqs, first_seq, batch.count, origin.kept, ts, mark
        ),
    )
    state.torn = True
    state.fast_until = 0
    reference_copies.add_copies(
        state, batch.draft, first_seq, ts, shard.writer.seed, origin.first_seq
    )
    shard.copied_bytes += batch.payload


def _place_in_memory(
    state: TopicState, shard: Shard, batch: Batch, first_seq: int, ts: int
) -> None:
    if state.memory is None:
        state.memory = MemoryTail(state.id, first_seq, shard.writer.seed)
    if not state.memory.pieces:
        state.memory.first_seq = first_seq
    if batch.draft is not None:
        state.memory.add_draft(first_seq, batch.draft, ts)
    else:
        state.memory.add_row(first_seq, (ts, batch.fields, batch.data))
    state.payload += batch.payload
    if state.config.durability == "memory" and state.id not in shard.unflushed:
        shard.unflushed[state.id] = functools.partial(flush_memory, state, shard)
    _advance_head(state, batch, first_seq, ts)


def _publish(state: TopicState, batch: Batch, first_seq: int, location: int, ts: int) -> None:
    if location >= 0:  # a copy has none: it is in memory
        state.tail.append(first_seq, location)
    state.payload += batch.payload
    state.pending_payload -= batch.payload
    _advance_head(state, batch, first_seq, ts)


def _advance_head(state: TopicState, batch: Batch, first_seq: int, ts: int) -> None:
    index = state.tags
    if index is not None and not index.note(batch.tags, first_seq, batch.count):
        state.tags = None  # many appends and no delete by tag in between: it can be built again
    state.last_ts = ts
    state.head_seq = first_seq + batch.count - 1
    if state.waiters:
        state.wake()


def _publish_plain(state: TopicState, seq: int, location: int, ts: int, size: int) -> None:
    """As ``_publish``, for one record without fields. Writer's lock held."""
    state.tail.append(seq, location)
    state.payload += size
    state.pending_payload -= size
    state.last_ts = ts
    state.head_seq = seq
    if state.waiters:
        state.wake()


def flush_waiting(state: TopicState, shard: Shard, below: int) -> None:
    """Put records on the log before a message about those below a seq. Writer's lock held."""
    memory, durability = state.memory, state.config.durability
    if memory is None or durability == "ephemeral":
        return
    if durability == "memory" or below > memory.first_seq:
        flush_memory(state, shard)


def flush_memory(state: TopicState, shard: Shard) -> None:
    """Move a ``memory`` topic's records into the log. Writer's lock held."""
    memory = state.memory
    if memory is None or not memory.pieces:
        return
    entries = list(memory.drafts())
    locations = shard.writer.place_drafts(
        [(draft, state.id, first_seq, ts) for first_seq, _, draft, ts in entries]
    )
    try:
        for (first_seq, _, _, _), location in zip(entries, locations, strict=True):
            state.tail.append(first_seq, location)
        state.memory = None
        update_fast_limit(state)
    except BaseException as error:
        shard.writer.poison(f"a flush was interrupted ({error!r})")
        raise
