"""Applies the log to the topics: the same for recovery, for a read-only follower, and for repair.

Replay is idempotent: a record below a topic's next seq is already applied, floors only rise,
deletes hit what they hit before. So a checkpoint may already contain changes that are after the
lsn from which replay begins.

Where damage is tolerated, every record that was lost ends up in a gap of reason "damaged". When the
topic continues after the damage, its next seq shows exactly what is missing. When it does not, the
gap covers what the damaged range is known to have held of the topic (``log/wal/salvage.py``), or,
if that is unknown, as many seqs as there can have been records: too wide, but never too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64

from strandline.config.settings import TopicConfig
from strandline.errors import Corrupt, UnsupportedFormat
from strandline.lake.cold_index import ColdIndex
from strandline.log.catalog import Catalog
from strandline.log.files.checkpoint_codec import StoreCheckpoint, TopicEntry
from strandline.log.recovery.resolve_copies import PendingCopies
from strandline.log.state.delete_rules import apply_delete, delete_effect
from strandline.log.state.deleted_payload import resolve_averages
from strandline.log.state.idempotency_index import IdempotencyIndex
from strandline.log.state.locator import TopicReader
from strandline.log.state.reference_copies import COPIES_MAX, MESSAGE_SIZE_MIN
from strandline.log.state.topic_state import Gap, TailIndex, TopicState
from strandline.log.wal import block, codec, control_messages
from strandline.log.wal.reader import Reader
from strandline.log.wal.recovery import Frame, LogDamage, SingleFrame
from strandline.log.wal.salvage import RECORD_SIZE_MIN, LogLoss

RESTORED = "restored"
"""The reason of a tail that was removed when a backup was restored."""


class Replay:
    """Folds frames into a catalog. Owned by one thread."""

    def __init__(self, catalog: Catalog, reader: Reader, *, tolerate: bool) -> None:
        self._catalog = catalog
        self._reader = reader
        self._tolerate = tolerate
        self._orphans: dict[int, int] = {}
        self._suspects: dict[int, tuple[int, int]] = {}
        self._pending = PendingCopies(reader.seed)
        self._copied: set[int] = set()
        """Topics that messages have given copies to: a small message may represent many records."""
        self.closed = False
        self.records = 0
        self.complaints: list[str] = []
        self.guessed: dict[int, int] = {}
        """Topics whose last gap may be too wide, and the seq where it begins."""
        self.deleted: dict[int, BitMap64] = {}
        """All deleted seqs, also those in gaps: they must not come back if a repair fills a gap."""

    def apply(self, frame: Frame) -> None:
        """Apply one commit."""
        self.closed = False
        if isinstance(frame, SingleFrame):
            self._single(frame)
            return
        for location, view in frame.blocks:
            content = block.Block(view)
            if content.kind == block.CONTROL:
                self._control(location, content)
            else:
                self._records(location, content)

    def note_damage(self, places: Sequence[LogDamage]) -> None:
        """Note damage at this position of the log: which topics may have lost how many records."""
        for place in places:
            unknown_size = place.unknown_size
            for loss in place.losses:
                owners = self._owners(loss)
                for state in owners:
                    count = loss.last_seq - self._expected(state) + 1
                    self._suspect(state, count, exact=len(owners) == 1)
                unknown_size += 0 if owners or not loss.first_seq else loss.size
            if unknown_size:
                for state in self._catalog.states():
                    self._suspect(state, self._records_in(state, unknown_size), exact=False)
                # Topics may have been created there as well, and an id is never used twice.
                self._catalog.next_topic_id += max(1, unknown_size // codec.HEADER_SIZE)

    def finish(self) -> None:
        """Resolve copies and suspected losses; report records of topics that were never created."""
        self._resolve()
        for changed in self._catalog.states():
            resolve_averages(changed)
        for topic_id, (next_seq, count) in self._suspects.items():
            state = self._catalog.by_id(topic_id)
            if state is not None and state.next_seq == next_seq:
                state.add_gap(next_seq, next_seq + count - 1, "damaged")
        for topic_id, location in self._orphans.items():
            reason = f"records of a topic {topic_id} that was never created"
            if not self._tolerate:
                raise Corrupt(reason, path="wal", offset=location)
            self.complaints.append(f"{reason}: they are stored under another name")

    def _single(self, frame: SingleFrame) -> None:
        seq = frame.seq
        state = self._catalog.by_id(frame.topic_id)
        if state is None:
            state = self._orphan(frame.topic_id, frame.location, frame.ts)
        if state is None:
            return
        if seq < state.next_seq:
            return
        if seq > state.next_seq:
            self._jump(state, seq, frame.location)
        # add_entry inlined, to save the calls: there may be millions of these.
        tail = state.tail
        tail.firsts.append(seq)
        tail.locations.append(frame.location)
        state.payload += codec.data_size(frame.body)
        state.last_ts = frame.ts
        state.head_seq = seq
        state.next_seq = seq + 1
        self.records += 1

    def _records(self, location: int, content: block.Block) -> None:
        state = self._catalog.by_id(content.topic_id)
        if state is None:
            state = self._orphan(content.topic_id, location, content.ts)
        if state is None:
            return
        if content.last_seq < state.next_seq:
            state.last_ts = max(state.last_ts, content.ts)
            if self._pending.remove_logged(state.id, content):
                state.tail.append(content.first_seq, location)
                state.payload += content.payload_size
            return
        if content.first_seq > state.next_seq:
            self._jump(state, content.first_seq, location)
        payload = content.payload_size
        if content.first_seq < state.next_seq:  # the first records were evicted from memory
            payload = int(content.sizes()[state.next_seq - content.first_seq :].sum())
        state.add_entry(content.first_seq, content.count, location, payload, content.ts)
        state.next_seq = content.last_seq + 1
        self.records += content.count
        key = content.idempotency_key()
        if key is not None:
            state.remember(key, content.first_seq, content.last_seq, content.ts, content.ts)

    def _copies(self, state: TopicState, message: control_messages.Copied, location: int) -> None:
        last_seq = message.first_seq + message.count - 1
        if last_seq < state.next_seq:
            return
        if message.first_seq > state.next_seq:
            self._jump(state, message.first_seq, location)
        self._pending.add(state.id, message)
        self._copied.add(state.id)
        state.last_ts = message.ts
        state.head_seq = last_seq
        state.next_seq = last_seq + 1
        self.records += message.count
        if message.mark:
            state.remember(message.mark, message.first_seq, last_seq, message.ts, message.ts)

    def _resolve(self) -> None:
        """Create the copies that the log only refers to."""
        for state in self._pending.resolve(self._catalog.by_id, self._pieces):
            first_seq = self._pending.first_missing(state.id) or state.next_seq
            if not self._tolerate:
                raise Corrupt(
                    "records that others are copies of are missing",
                    path="wal",
                    topic_id=state.id,
                    first_seq=first_seq,
                    last_seq=state.head_seq,
                )
            for first, last in self._pending.missing(state.id):
                state.gaps = (*state.gaps, Gap(first, last, "damaged"))

    def _jump(self, state: TopicState, seq: int, location: int) -> None:
        """Handle missing seqs: damage, unless it is tolerated."""
        if not self._tolerate:
            raise Corrupt(
                "the log lacks records",
                path="wal",
                offset=location,
                topic_id=state.id,
                first_seq=state.next_seq,
                last_seq=seq - 1,
            )
        state.add_gap(state.next_seq, seq - 1, "damaged")

    def _orphan(self, topic_id: int, location: int, ts: int) -> TopicState | None:
        """A topic for records whose own is unknown, perhaps only until its deletion is replayed."""
        self._orphans.setdefault(topic_id, location)
        if not self._tolerate:
            return None
        state = TopicState(topic_id, f"recovered-{topic_id}", TopicConfig(), ts)
        while self._catalog.find(state.name) is not None:
            state.name += "-again"
        self._catalog.add(state)
        return state

    def _owners(self, loss: LogLoss) -> list[TopicState]:
        """The topics that lost records may belong to; none when the salvaged header is wrong."""
        if not loss.first_seq:
            return []
        state = self._catalog.by_id(loss.topic_id)
        if loss.certain:
            state = state or self._orphan(loss.topic_id, 0, 0)
            return [] if state is None else [state]
        if state is None:
            return []
        gap = state.gap_at(loss.first_seq)
        if gap is not None and gap.last_seq >= loss.last_seq:
            return [state]
        if self._expected(state) != loss.first_seq:
            return []
        # The id itself may be what is damaged: any topic that expects this seq may be the owner.
        states = self._catalog.states()
        return [state for state in states if self._expected(state) == loss.first_seq]

    def _expected(self, state: TopicState) -> int:
        """The seq of a topic's next record, assuming everything noted so far is true."""
        next_seq, count = self._suspects.get(state.id, (0, 0))
        return state.next_seq + (count if next_seq == state.next_seq else 0)

    def _records_in(self, state: TopicState, size: int) -> int:
        """How many records of a topic an unknown range of this size may have contained."""
        if state.id in self._copied:
            return (1 + size // MESSAGE_SIZE_MIN) * COPIES_MAX
        return max(1, size // RECORD_SIZE_MIN)

    def _suspect(self, state: TopicState, count: int, *, exact: bool) -> None:
        if count > 0:
            known = self._expected(state) - state.next_seq
            self._suspects[state.id] = (state.next_seq, known + count)
            if not exact:
                self.guessed[state.id] = state.next_seq

    def _control(self, location: int, content: block.Block) -> None:
        try:
            message = control_messages.decode(content.control_payload())
        except msgspec.DecodeError as error:
            raise UnsupportedFormat(
                f"the log has a control message of a newer version: {error}"
            ) from error
        if isinstance(message, control_messages.TopicCreated):
            self._create(content.topic_id, message)
        elif isinstance(message, control_messages.ClosedCleanly):
            self.closed = True
        elif isinstance(message, control_messages.TopicDeleted):
            self._orphans.pop(content.topic_id, None)
            self._pending.forget(content.topic_id)
            self._catalog.forget(content.topic_id)
        elif not isinstance(message, control_messages.Checkpointed):
            state = self._catalog.by_id(content.topic_id)
            if state is not None and isinstance(message, control_messages.Copied):
                self._copies(state, message, location)
            elif state is not None:
                self._change(state, message)

    def _create(self, topic_id: int, message: control_messages.TopicCreated) -> None:
        older = self._catalog.find(message.name)
        if self._catalog.by_id(topic_id) is None and (older is None or older.id < topic_id):
            # The name was free, so the older topic had been deleted, in a shard that is read later.
            if older is not None:
                self._catalog.forget(older.id)
            self._catalog.add(TopicState(topic_id, message.name, message.config, message.epoch))
        self._catalog.next_topic_id = max(self._catalog.next_topic_id, topic_id + 1)

    def _change(self, state: TopicState, message: control_messages.Message) -> None:
        if self._tolerate:
            self._catch_up(state, message)
        if isinstance(message, control_messages.TopicAltered):
            state.config = message.config
            evict(state, message.evict_floor, message.reason, self._pieces(state))
        elif isinstance(message, control_messages.Evicted):
            evict(state, message.evict_floor, message.reason, self._pieces(state))
        elif isinstance(message, control_messages.RecordsDeleted):
            apply_delete(state, delete_effect(state, self._pieces(state), message))
        elif isinstance(message, control_messages.Ceiling):
            state.ceiling = state.ceiling_requested = max(state.ceiling, message.ceiling)
        elif isinstance(message, control_messages.TailLost):
            lose_tail(state, message)

    def _catch_up(self, state: TopicState, message: control_messages.Message) -> None:
        """Note as lost the records that a change refers to and that are not there."""
        last_seq = 0
        if isinstance(message, (control_messages.Evicted, control_messages.TopicAltered)):
            last_seq = message.evict_floor - 1
        elif isinstance(message, control_messages.RecordsDeleted):
            seqs = BitMap64.deserialize(message.seqs) if message.seqs else BitMap64()
            last_seq = max(message.before - 1, seqs.max() if seqs else 0)
            self.deleted.setdefault(state.id, BitMap64()).update(seqs)
        if last_seq >= state.next_seq:
            state.add_gap(state.next_seq, last_seq, "damaged")

    def _pieces(self, state: TopicState) -> TopicReader:
        return TopicReader(state, lambda: self._reader)


def evict(state: TopicState, floor: int, reason: str, pieces: TopicReader) -> None:
    """Raise the evict floor as logged; past the head when the records were never logged."""
    if floor > state.floor:
        state.gone_payload += pieces.payload_between(state.floor, floor)
    if floor > state.next_seq:
        state.skip_to(floor)
    if floor > state.evict_floor:
        state.evict_floor = floor
        state.evict_reason = reason
    state.evict_logged = max(state.evict_logged, floor)


def lose_tail(state: TopicState, message: control_messages.TailLost) -> None:
    """Apply a lost tail: seqs up to the ceiling were assigned and are gone."""
    first_seq = state.head_seq + 1
    if message.ceiling >= first_seq:
        if message.lost_from > message.ceiling or state.gap_at(message.ceiling) is not None:
            state.skip_to(message.ceiling + 1)
        elif not (message.mark and state.extend_gap(message.ceiling, message.reason)):
            state.add_gap(first_seq, message.ceiling, message.reason)
        if message.mark:
            ts = state.last_ts
            state.remember(message.mark, first_seq, message.ceiling, ts, ts)
    if message.mark:  # a router's report, not the end of the log: reserved seqs stay reserved
        return
    state.ceiling = state.ceiling_requested = max(message.ceiling, state.next_seq - 1)
    state.epoch = max(state.epoch, message.epoch)
    if message.reason == RESTORED:
        # Seqs above will be assigned again: for readers of them the topic was created again.
        state.created_us = max(state.created_us, message.epoch)


def state_of(entry: TopicEntry) -> TopicState:
    """A topic as a checkpoint has it, without its runs."""
    state = TopicState(entry.id, entry.name, entry.config, entry.epoch)
    state.created_us = entry.created_us
    state.next_seq = entry.covered + 1
    state.head_seq = entry.covered
    state.tail = TailIndex(entry.covered + 1)
    state.payload = state.covered_payload = entry.covered_payload
    state.last_ts = entry.last_ts
    state.evict_floor = state.evict_logged = entry.evict_floor
    state.evict_reason = entry.evict_reason
    state.delete_floor = entry.delete_floor
    state.gone_payload = entry.gone_payload
    state.ceiling = state.ceiling_requested = entry.ceiling
    if entry.deleted:
        state.deleted = BitMap64.deserialize(entry.deleted)
    state.cold = ColdIndex.decode(entry.cold)
    state.gaps = tuple(Gap(gap.first_seq, gap.last_seq, gap.reason) for gap in entry.gaps)
    if entry.idempotency:
        state.idempotency = IdempotencyIndex(entry.idempotency)
    for name, number, first_seq, last_seq, ts in entry.producers:
        state.producers = state.producers or {}
        state.producers[name] = (number, first_seq, last_seq, ts)
    return state


def load_topics(catalog: Catalog, root: StoreCheckpoint) -> None:
    """Fill a catalog from a checkpoint."""
    for entry in root.topics:
        catalog.add(state_of(entry))
    catalog.lake_trash.update(root.lake_trash)
    catalog.next_topic_id = max(catalog.next_topic_id, root.next_topic_id)
