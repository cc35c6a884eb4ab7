"""Applies the log to the topics: the same for recovery, for a read-only follower, and for repair.

Replay is idempotent: a record below a topic's next seq has been seen, floors only rise, deletes hit
what they hit before. So it does not matter that a checkpoint may already know of changes that lie
behind the lsn from which replay begins.
"""

from __future__ import annotations

import msgspec
from pyroaring import BitMap64

from strandline.errors import Corrupt, NewerFormat
from strandline.topic.catalog import Catalog
from strandline.topic.deletes import apply_delete
from strandline.topic.pieces import Pieces
from strandline.topic.root import Root, TopicEntry
from strandline.topic.state import Gap, TailIndex, TopicState
from strandline.wal import block, codec, control
from strandline.wal.reader import Reader
from strandline.wal.recovery import Frame, Single


class Replay:
    """Folds frames into a catalog. Owned by one thread."""

    def __init__(self, catalog: Catalog, reader: Reader, *, tolerate: bool) -> None:
        self._catalog = catalog
        self._reader = reader
        self._tolerate = tolerate
        self._orphans: dict[int, int] = {}
        self.closed = False
        self.records = 0

    def apply(self, frame: Frame) -> None:
        """Apply one commit."""
        self.closed = False
        if isinstance(frame, Single):
            self._single(frame)
            return
        for location, view in frame.blocks:
            found = block.Block(view)
            if found.kind == block.CONTROL:
                self._control(found)
            else:
                self._records(location, found)

    def finish(self) -> None:
        """Complain about records of topics that the log never created."""
        if self._orphans and not self._tolerate:
            topic_id, location = next(iter(self._orphans.items()))
            raise Corrupt(
                f"records of a topic {topic_id} that was never created", path="wal", offset=location
            )

    def _single(self, frame: Single) -> None:
        seq = frame.seq
        state = self._catalog.by_id(frame.topic_id)
        if state is None:
            self._orphans.setdefault(frame.topic_id, frame.location)
            return
        if seq < state.next_seq:
            return
        if seq > state.next_seq:
            self._jump(state, seq, frame.location)
        if frame.sizes != codec.NO_FIELDS:
            tag = codec.split_single(frame.sizes, frame.body)[0][1]
            if tag is not None:
                state.add_tag(tag.decode(), seq)
        # What add_entry does, without the calls: there may be millions of these.
        tail = state.tail
        tail.firsts.append(seq)
        tail.locations.append(frame.location)
        state.payload += codec.data_size(frame.body)
        state.last_ts = frame.ts
        state.head_seq = seq
        state.next_seq = seq + 1
        self.records += 1

    def _records(self, location: int, found: block.Block) -> None:
        state = self._catalog.by_id(found.topic_id)
        if state is None:
            self._orphans.setdefault(found.topic_id, location)
            return
        if found.last_seq < state.next_seq:
            return
        if found.first_seq > state.next_seq:
            self._jump(state, found.first_seq, location)
        state.add_entry(found.first_seq, found.count, location, found.payload_size, found.ts)
        state.next_seq = found.last_seq + 1
        self.records += found.count
        tags = found.column(block.TAG)
        if tags is not None:
            for place, tag in enumerate(tags.to_pylist()):
                if tag is not None:
                    state.add_tag(tag, found.first_seq + place)
        key = found.idempotency_key()
        if key is not None:
            state.remember(key, found.first_seq, found.last_seq, found.ts)

    def _jump(self, state: TopicState, seq: int, location: int) -> None:
        """Seqs are missing: damage, unless a repair has been told to live with it."""
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

    def _control(self, found: block.Block) -> None:
        try:
            message = control.decode(found.control_payload())
        except msgspec.DecodeError as error:
            raise NewerFormat(
                f"the log has a control message of a newer version: {error}"
            ) from error
        if isinstance(message, control.TopicCreated):
            self._create(found.topic_id, message)
        elif isinstance(message, control.ClosedCleanly):
            self.closed = True
        elif isinstance(message, control.TopicDeleted):
            self._orphans.pop(found.topic_id, None)
            self._catalog.forget(found.topic_id)
        elif not isinstance(message, control.Checkpointed):
            state = self._catalog.by_id(found.topic_id)
            if state is not None:
                self._change(state, message)

    def _create(self, topic_id: int, message: control.TopicCreated) -> None:
        if self._catalog.by_id(topic_id) is None and self._catalog.find(message.name) is None:
            self._catalog.add(TopicState(topic_id, message.name, message.config, message.epoch))
        self._catalog.next_topic_id = max(self._catalog.next_topic_id, topic_id + 1)

    def _change(self, state: TopicState, message: control.Message) -> None:
        if isinstance(message, control.TopicAltered):
            state.config = message.config
            evict(state, message.evict_floor, message.reason, self._pieces(state))
        elif isinstance(message, control.Evicted):
            evict(state, message.evict_floor, message.reason, self._pieces(state))
        elif isinstance(message, control.RecordsDeleted):
            apply_delete(state, self._pieces(state), message)
        elif isinstance(message, control.Ceiling):
            state.ceiling = state.ceiling_asked = max(state.ceiling, message.ceiling)
        elif isinstance(message, control.TailLost):
            lose_tail(state, message)

    def _pieces(self, state: TopicState) -> Pieces:
        return Pieces(state, lambda: self._reader)


def evict(state: TopicState, floor: int, reason: str, pieces: Pieces) -> None:
    """Raise the evict floor as the log says, past the head when records were never logged."""
    if floor > state.next_seq:
        state.skip_to(floor)
    if floor > state.floor:
        state.gone_payload += pieces.payload_between(state.floor, floor)
    if floor > state.evict_floor:
        state.evict_floor = floor
        state.evict_reason = reason
    state.evict_logged = max(state.evict_logged, floor)


def lose_tail(state: TopicState, message: control.TailLost) -> None:
    """Seqs up to the ceiling were given out and are gone."""
    if message.ceiling >= state.next_seq:
        known = any(gap.last_seq == message.ceiling for gap in state.gaps)
        if message.lost_from <= message.ceiling and not known:
            state.add_gap(state.next_seq, message.ceiling, message.reason)
        else:
            state.skip_to(message.ceiling + 1)
    state.ceiling = state.ceiling_asked = max(message.ceiling, state.next_seq - 1)
    state.epoch = max(state.epoch, message.epoch)


def state_of(entry: TopicEntry) -> TopicState:
    """A topic as a checkpoint knew it, without its runs."""
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
    state.ceiling = state.ceiling_asked = entry.ceiling
    if entry.deleted:
        state.deleted = BitMap64.deserialize(entry.deleted)
    state.gaps = tuple(Gap(gap.first_seq, gap.last_seq, gap.reason) for gap in entry.gaps)
    for key, first_seq, last_seq, until in entry.idempotency:
        state.idempotency = state.idempotency or {}
        state.idempotency[key] = (first_seq, last_seq, until)
    return state


def load_topics(catalog: Catalog, root: Root) -> None:
    """Fill a catalog from a checkpoint."""
    for entry in root.topics:
        catalog.add(state_of(entry))
    catalog.next_topic_id = max(catalog.next_topic_id, root.next_topic_id)
