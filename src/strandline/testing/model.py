"""A plain model of one topic: lists and loops, no files, no locks, nothing clever.

It says what a topic must answer when nothing is lost: ``disk`` and ``fsync`` topics in a process
that may be killed but keeps its machine. Stamps and the present are told by the caller, because
they come from the clock. Like the real one it applies retention only when somebody looks.

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
from strandline.records import Appended, Numbered, Record, Tombstone

RETENTION_REASONS = frozenset({"cap", "ttl", "mixed"})


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller gives for one record."""

    data: bytes
    key: bytes | None = None
    tag: str | None = None
    node: str | None = None
    meta: bytes | None = None

    @property
    def size(self) -> int:
        """Payload bytes, as caps and statistics count them."""
        texts = [text.encode() for text in (self.tag, self.node) if text is not None]
        return sum(len(part) for part in (self.data, self.key or b"", self.meta or b"", *texts))


def as_columns(batch: Sequence[Values]) -> dict[str, list[bytes | None] | list[str | None]]:
    """The optional columns of a batch, as ``append_many`` takes them."""
    return {
        "keys": [values.key for values in batch],
        "tags": [values.tag for values in batch],
        "nodes": [values.node for values in batch],
        "metas": [values.meta for values in batch],
    }


def as_arrow(batch: Sequence[Values]) -> pa.RecordBatch:
    """A batch as ``append_arrow`` takes it."""
    columns = {
        "data": pa.array([values.data for values in batch], pa.binary()),
        "key": pa.array([values.key for values in batch], pa.binary()),
        "tag": pa.array([values.tag for values in batch], pa.string()),
        "node": pa.array([values.node for values in batch], pa.string()),
        "meta": pa.array([values.meta for values in batch], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


class TopicModel:
    """What a topic promises. Owned by one thread."""

    def __init__(self, config: TopicConfig) -> None:
        self.config = config
        self.live: dict[int, Record] = {}
        self.stamps: list[int] = []
        """The ts of every record that ever was: seq n has stamps[n - 1]."""
        self.evict_floor = 1
        self.evict_logged = 1
        self.delete_floor = 1
        self._evicted: dict[int, Record] = {}
        self._known: dict[bytes, tuple[int, int, int]] = {}
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
        return sum(_size(record) for place, record in self.live.items() if place >= seq)

    def append(
        self,
        batch: Sequence[Values],
        *,
        ts: int,
        now_us: int | None = None,
        elapsed_us: int | None = None,
        expected_head: int | None = None,
        idempotency_key: bytes | Numbered | None = None,
    ) -> Appended:
        """Append records at a time, or raise what the topic must raise.

        ``now_us`` is the time by which a ttl counts, ``elapsed_us`` that of idempotency keys, where
        they are not the stamp.
        """
        now_of_keys = ts if elapsed_us is None else elapsed_us
        known = self.remembered(idempotency_key, now_of_keys)
        if known is not None:
            return Appended(known[0], known[1], self.head_seq, True)
        if expected_head is not None and expected_head != self.head_seq:
            raise Conflict("the head is elsewhere")
        if self.config.discard == "reject":
            self._make_room(batch, ts if now_us is None else now_us)
        first_seq = self.head_seq + 1
        for values in batch:
            self.stamps.append(ts)
            fields = msgspec.structs.asdict(values)
            self.live[self.head_seq] = Record(seq=self.head_seq, ts=ts, **fields)
        if isinstance(idempotency_key, Numbered):
            taken = (idempotency_key.number, first_seq, self.head_seq)
            self._numbers[idempotency_key.producer] = taken
        elif idempotency_key is not None:
            until = now_of_keys + self.config.idempotency_window_ms * 1000
            self._known[idempotency_key] = (first_seq, self.head_seq, until)
        return Appended(first_seq, self.head_seq, self.head_seq)

    def remembered(self, key: bytes | Numbered | None, now_us: int) -> tuple[int, int] | None:
        """The seqs of the append that had this key, while the key is remembered."""
        if isinstance(key, Numbered):
            return self._taken(key)
        found = None if key is None else self._known.get(key)
        if found is None or found[2] < now_us:
            return None
        return found[0], found[1]

    def _taken(self, key: Numbered) -> tuple[int, int] | None:
        number, first_seq, last_seq = self._numbers.get(key.producer, (-1, 0, 0))
        if key.number > number:
            return None
        return (first_seq, last_seq) if key.number == number else (0, 0)

    def look(self, now_us: int) -> None:
        """Apply caps and ttl, as every read and every look at the statistics does."""
        expired = self._ttl_floor(max(now_us, self.last_ts))
        floor = max(expired, self._cap_floor(expired))
        if floor > self.floor:
            self.evict_floor = floor
            for seq in [seq for seq in self.live if seq < floor]:
                self._evicted[seq] = self.live.pop(seq)

    def log_floor(self) -> None:
        """From here on a restart finds the floor, whatever the clock says then."""
        self.evict_logged = self.evict_floor
        self._evicted.clear()

    @property
    def keys(self) -> set[bytes]:
        """Idempotency keys that were given, over or not."""
        return set(self._known)

    def reopen(self, elapsed_us: int | None = None) -> None:
        """A restart: what lies above the logged floor is there again until somebody looks.

        With a time no idempotency key is remembered for more than a whole window from it.
        """
        if elapsed_us is not None:
            latest = elapsed_us + self.config.idempotency_window_ms * 1000
            for key, (first_seq, last_seq, until) in self._known.items():
                self._known[key] = (first_seq, last_seq, min(until, latest))
        self.evict_floor = self.evict_logged
        self.live |= self._evicted
        self._evicted.clear()

    def delete(self, *, now_us: int, before: int | None = None, match: str | None = None) -> int:
        """Delete as ``Topic.delete`` does; how many records went."""
        self.look(now_us)
        self.log_floor()
        bound = self.head_seq + 1 if before is None else min(before, self.head_seq + 1)
        gone = [seq for seq in self.live if seq < bound and _matches(self.live[seq].tag, match)]
        for seq in gone:
            del self.live[seq]
        if match is None:
            self.delete_floor = max(self.delete_floor, bound)
        return len(gone)

    def alter(self, *, now_us: int, **options: object) -> None:
        """Change the configuration; what the old one evicted stays evicted."""
        self.look(now_us)
        self.log_floor()
        self.config = topic_config(self.config, options)

    def cursor_at(self, ts: int) -> int:
        """The cursor behind which the first record of a time or later stands, live or deleted."""
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
        """Assert that a page is one that a read right now may give."""
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
        reached = page.records[-1].seq if page.records else start - 1
        beyond = expected[limit].seq if len(expected) > limit else self.head_seq + 1
        assert reached <= page.next < beyond, "the cursor stops behind what it has passed"
        if len(expected) < limit:
            assert page.next == self.head_seq
        assert page.caught_up == (page.next == self.head_seq)
        self._check_tombstone(page.tombstone, after, recreated=recreated)

    def _check_tombstone(self, found: Tombstone | None, after: int, *, recreated: bool) -> None:
        if recreated:
            expected = Tombstone(gap_from=1, gap_to=max(self.head_seq, 1), reason="recreated")
            assert found == expected
        elif after + 1 < self.evict_floor:
            assert found is not None, "involuntary loss is never silent"
            assert (found.gap_from, found.gap_to) == (after + 1, self.earliest_seq - 1)
            assert found.reason in RETENTION_REASONS
        else:
            assert found is None, "nothing was lost against the reader's will"

    def _make_room(self, batch: Sequence[Values], now_us: int) -> None:
        """What is over keeps nothing out."""
        try:
            self._check_room(batch)
        except TopicFull:
            if not self.config.ttl_ms:
                raise
            self.look(now_us)
            self.log_floor()
            self._check_room(batch)

    def _check_room(self, batch: Sequence[Values]) -> None:
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
        kept = [record for seq, record in sorted(self.live.items()) if seq >= expired]
        floor = 1
        while (config.cap_records and len(kept) > config.cap_records) or (
            config.cap_bytes and sum(map(_size, kept)) > config.cap_bytes
        ):
            floor = kept.pop(0).seq + 1
        return floor


def _size(record: Record) -> int:
    fields = ("data", "key", "tag", "node", "meta")
    return Values(**{name: getattr(record, name) for name in fields}).size


def _matches(tag: str | None, match: str | None) -> bool:
    if match is None:
        return True
    if tag is None:
        return False
    return tag.startswith(match[:-1]) if match.endswith("*") else tag == match
