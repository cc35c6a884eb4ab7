"""A simple model of one topic: lists and loops, without files or locks.

It computes the results of a topic when nothing is lost: of ``disk`` and ``fsync`` topics in a
process that may be killed on a machine that keeps running. The caller passes stamps and the current
time, because they come from the clock. Like the real topic it applies retention only at reads.

    model = TopicModel(TopicConfig(cap_records=3))
    model.append([Values(data=b"a")], ts=clock.now_us())
    model.look(clock.now_us())
    model.check_page(topic.read(after=0, limit=10), after=0, limit=10)
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from strandline.config.settings import TopicConfig, topic_config
from strandline.errors import Conflict, TooLarge, TopicFull
from strandline.log.read.page import Page
from strandline.records import AppendResult, BatchNumber, Record, Tombstone

RETENTION_REASONS = frozenset({"cap", "ttl", "mixed"})


class RecordValues(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of one record to append."""

    data: bytes
    key: bytes | None = None
    tag: str | None = None
    node: str | None = None
    meta: bytes | None = None

    @property
    def size(self) -> int:
        """Payload bytes, as counted by caps and statistics."""
        texts = [text.encode() for text in (self.tag, self.node) if text is not None]
        return sum(len(part) for part in (self.data, self.key or b"", self.meta or b"", *texts))


def as_columns(batch: Sequence[RecordValues]) -> dict[str, list[bytes | None] | list[str | None]]:
    """The optional columns of a batch, as arguments of ``append_many``."""
    return {
        "keys": [values.key for values in batch],
        "tags": [values.tag for values in batch],
        "nodes": [values.node for values in batch],
        "metas": [values.meta for values in batch],
    }


def as_arrow(batch: Sequence[RecordValues]) -> pa.RecordBatch:
    """A batch as the argument of ``append_arrow``."""
    columns = {
        "data": pa.array([values.data for values in batch], pa.binary()),
        "key": pa.array([values.key for values in batch], pa.binary()),
        "tag": pa.array([values.tag for values in batch], pa.string()),
        "node": pa.array([values.node for values in batch], pa.string()),
        "meta": pa.array([values.meta for values in batch], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


class TopicModel:
    """The guarantees of a topic. Owned by one thread."""

    def __init__(self, config: TopicConfig) -> None:
        self.config = config
        self.live: dict[int, Record] = {}
        self.stamps: list[int] = []
        """The ts of every record, live or not: seq n has stamps[n - 1]."""
        self.evict_floor = 1
        self.evict_logged = 1
        self.delete_floor = 1
        self._evicted: dict[int, Record] = {}
        self._keys: dict[bytes, tuple[int, int, int]] = {}
        self._numbers: dict[str, tuple[int, int, int]] = {}

    @property
    def head_seq(self) -> int:
        return len(self.stamps)

    @property
    def last_ts(self) -> int:
        return self.stamps[-1] if self.stamps else 0

    @property
    def floor(self) -> int:
        return max(self.evict_floor, self.delete_floor)

    @property
    def earliest_seq(self) -> int:
        return min(self.live, default=self.head_seq + 1)

    @property
    def payload_bytes(self) -> int:
        return self.payload_from(1)

    def payload_from(self, seq: int) -> int:
        """Payload of the live records from a seq on."""
        return sum(_size(record) for live_seq, record in self.live.items() if live_seq >= seq)

    def append(
        self,
        batch: Sequence[RecordValues],
        *,
        ts: int,
        now_us: int | None = None,
        elapsed_us: int | None = None,
        expected_head: int | None = None,
        idempotency_key: bytes | BatchNumber | None = None,
    ) -> AppendResult:
        """Append records at a time, or raise what the topic must raise.

        ``now_us`` is the time for the ttl, ``elapsed_us`` that for idempotency keys; the default of
        both is the stamp.
        """
        now_of_keys = ts if elapsed_us is None else elapsed_us
        earlier = self.known_append(idempotency_key, now_of_keys)
        if earlier is not None:
            return AppendResult(earlier[0], earlier[1], self.head_seq, True)
        if expected_head is not None and expected_head != self.head_seq:
            raise Conflict("the head is elsewhere")
        if self.config.discard == "reject":
            self._make_room(batch, ts if now_us is None else now_us)
        first_seq = self.head_seq + 1
        for values in batch:
            self.stamps.append(ts)
            fields = msgspec.structs.asdict(values)
            self.live[self.head_seq] = Record(seq=self.head_seq, ts=ts, **fields)
        if isinstance(idempotency_key, BatchNumber):
            entry = (idempotency_key.number, first_seq, self.head_seq)
            self._numbers[idempotency_key.producer] = entry
        elif idempotency_key is not None:
            until = now_of_keys + self.config.idempotency_window_ms * 1000
            self._keys[idempotency_key] = (first_seq, self.head_seq, until)
        return AppendResult(first_seq, self.head_seq, self.head_seq)

    def known_append(self, key: bytes | BatchNumber | None, now_us: int) -> tuple[int, int] | None:
        """The seqs of the append with this key, within the idempotency window."""
        if isinstance(key, BatchNumber):
            return self._numbered(key)
        entry = None if key is None else self._keys.get(key)
        if entry is None or entry[2] < now_us:
            return None
        return entry[0], entry[1]

    def _numbered(self, key: BatchNumber) -> tuple[int, int] | None:
        number, first_seq, last_seq = self._numbers.get(key.producer, (-1, 0, 0))
        if key.number > number:
            return None
        return (first_seq, last_seq) if key.number == number else (0, 0)

    def apply_retention(self, now_us: int) -> None:
        """Apply caps and ttl, as every read and every call of ``statistics`` does."""
        expired = self._ttl_floor(max(now_us, self.last_ts))
        floor = max(expired, self._cap_floor(expired))
        if floor > self.floor:
            self.evict_floor = floor
            for seq in [seq for seq in self.live if seq < floor]:
                self._evicted[seq] = self.live.pop(seq)

    def log_floor(self) -> None:
        """Log the floor: a restart recovers it whatever the clock."""
        self.evict_logged = self.evict_floor
        self._evicted.clear()

    @property
    def keys(self) -> set[bytes]:
        """All idempotency keys, expired or not."""
        return set(self._keys)

    def reopen(self, elapsed_us: int | None = None) -> None:
        """Restart: records above the logged floor are live again until retention is applied.

        With a time, no idempotency key is valid for more than a whole window from it.
        """
        if elapsed_us is not None:
            latest = elapsed_us + self.config.idempotency_window_ms * 1000
            for key, (first_seq, last_seq, until) in self._keys.items():
                self._keys[key] = (first_seq, last_seq, min(until, latest))
        self.evict_floor = self.evict_logged
        self.live |= self._evicted
        self._evicted.clear()

    def delete(self, *, now_us: int, before: int | None = None, match: str | None = None) -> int:
        """Delete as ``Topic.delete`` does; returns the number of deleted records."""
        self.apply_retention(now_us)
        self.log_floor()
        bound = self.head_seq + 1 if before is None else min(before, self.head_seq + 1)
        deleted = [seq for seq in self.live if seq < bound and _matches(self.live[seq].tag, match)]
        for seq in deleted:
            del self.live[seq]
        if match is None:
            self.delete_floor = max(self.delete_floor, bound)
        return len(deleted)

    def alter(self, *, now_us: int, **options: object) -> None:
        """Change the configuration; what the old one evicted stays evicted."""
        self.apply_retention(now_us)
        self.log_floor()
        self.config = topic_config(self.config, options)

    def cursor_at(self, ts: int) -> int:
        """The cursor before the first record of a time or later, live or deleted."""
        for seq in range(self.floor, self.head_seq + 1):
            if self.stamps[seq - 1] >= ts:
                return seq - 1
        return self.head_seq

    def check_page(
        self,
        page: Page,
        *,
        after: int,
        limit: int,
        node: str | None = None,
        recreated: bool = False,
    ) -> None:
        """Assert that a read may return this page now."""
        recreated = recreated or after > self.head_seq
        start = self.floor if recreated else max(after + 1, self.floor)
        skipped = node if self.config.dedupe_node else None
        expected = [
            record
            for seq, record in sorted(self.live.items())
            if seq >= start and (skipped is None or record.node != skipped)
        ]
        assert page.records == expected[:limit]
        assert page.head_seq == self.head_seq
        last_read = page.records[-1].seq if page.records else start - 1
        next_unread = expected[limit].seq if len(expected) > limit else self.head_seq + 1
        assert last_read <= page.next < next_unread, "the cursor does not match the records"
        if len(expected) < limit:
            assert page.next == self.head_seq
        assert page.caught_up == (page.next == self.head_seq)
        self._check_tombstone(page.tombstone, after, recreated=recreated)

    def _check_tombstone(self, tombstone: Tombstone | None, after: int, *, recreated: bool) -> None:
        if recreated:
            expected = Tombstone(gap_from=1, gap_to=max(self.head_seq, 1), reason="recreated")
            assert tombstone == expected
        elif after + 1 < self.evict_floor:
            assert tombstone is not None, "involuntary loss is never silent"
            assert (tombstone.gap_from, tombstone.gap_to) == (after + 1, self.earliest_seq - 1)
            assert tombstone.reason in RETENTION_REASONS
        else:
            assert tombstone is None, "nothing was lost against the reader's will"

    def _make_room(self, batch: Sequence[RecordValues], now_us: int) -> None:
        """Check the caps; expired records do not count."""
        try:
            self._check_room(batch)
        except TopicFull:
            if not self.config.ttl_ms:
                raise
            self.apply_retention(now_us)
            self.log_floor()
            self._check_room(batch)

    def _check_room(self, batch: Sequence[RecordValues]) -> None:
        config, size = self.config, sum(values.size for values in batch)
        if config.cap_records and len(self.live) + len(batch) > config.cap_records:
            raise TooLarge("never") if len(batch) > config.cap_records else TopicFull("full")
        if config.cap_bytes and self.payload_bytes + size > config.cap_bytes:
            raise TooLarge("never") if size > config.cap_bytes else TopicFull("full")

    def _ttl_floor(self, now_us: int) -> int:
        if not self.config.ttl_ms:
            return 1
        for seq in range(self.floor, self.head_seq + 1):
            if now_us - self.stamps[seq - 1] <= self.config.ttl_ms * 1000:
                return seq
        return self.head_seq + 1

    def _cap_floor(self, expired: int) -> int:
        config = self.config
        if config.discard != "old":
            return 1
        live = [record for seq, record in sorted(self.live.items()) if seq >= expired]
        floor = 1
        while (config.cap_records and len(live) > config.cap_records) or (
            config.cap_bytes and sum(map(_size, live)) > config.cap_bytes
        ):
            floor = live.pop(0).seq + 1
        return floor


def _size(record: Record) -> int:
    fields = ("data", "key", "tag", "node", "meta")
    return RecordValues(**{name: getattr(record, name) for name in fields}).size


def _matches(tag: str | None, match: str | None) -> bool:
    if match is None:
        return True
    if tag is None:
        return False
    return tag.startswith(match[:-1]) if match.endswith("*") else tag == match
