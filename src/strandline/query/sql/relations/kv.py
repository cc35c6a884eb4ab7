"""A key-value map as rows: the keys that have a value at a position.

The map changes while a query reads it, a page of keys at a time. Every page is as of the position:
a key that was written after it has its previous version, from its history, and one that was deleted
after it is present. So the present and the past are read in the same way, and no writer waits for
more than a page. Where the history of a key is too short, the query fails.

``key`` and ``text`` are key and value where they are UTF-8, else null; ``key_bytes`` and ``value``
are never null. At a position that is a time, or now, expired keys are left out. A position that is
a seq has no time, so they are included; ``expires`` has their time.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from strandline.errors import NotFound
from strandline.query.sql.filters import Where, bounds
from strandline.query.sql.relations.relation import TIME, Position, Relation, texts
from strandline.views.kv.fold import KvFold
from strandline.views.kv.key_state import Slot
from strandline.views.kv.values import version_of
from strandline.views.view_runner import ViewRunner

_PAGE = 1024


class MapSource:
    """A key-value map."""

    held: Sequence[ViewRunner[Any]] = ()

    def __init__(self, host: ViewRunner[KvFold]) -> None:
        self._host = host
        self.topics = host.topics

    def at(self, position: Position) -> Relation:
        moment_us = position.moment_us
        if moment_us is None and not position.past:
            moment_us = self._host.world.clock.now_us()
        return MapRows(self._host, position.heads[self.topics[0].name], moment_us)


class _Entry(NamedTuple):
    """A key; without its value when that is in the log, or not requested."""

    key: bytes
    version: int
    ts: int
    expires_us: int
    value: bytes | None


class MapRows:
    """Keys and values as of a seq. Safe from many threads."""

    schema = pa.schema(
        [
            pa.field("key", pa.string()),
            pa.field("key_bytes", pa.binary(), nullable=False),
            pa.field("value", pa.binary(), nullable=False),
            pa.field("text", pa.string()),
            pa.field("version", pa.uint64(), nullable=False),
            pa.field("ts", TIME, nullable=False),
            pa.field("expires", TIME),
        ]
    )

    def __init__(self, host: ViewRunner[KvFold], head: int, moment_us: int | None) -> None:
        self._host = host
        self.head_seq = head
        self.moment_us = moment_us

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        with_values = "value" in columns or "text" in columns
        first, next = _range(where)
        deleted = _Deleted(self.head_seq)
        while True:
            with self._host.reading() as fold:
                self._check_reach(fold)
                page = fold.page(first, next, _PAGE, reverse=False)
                whole = len(page) < _PAGE
                end = next if whole else page[-1][0] + b"\0"
                page += deleted.between(fold, self._host.applied[0], first, end)
                entries = self._as_of(fold, page, with_values=with_values)
            if entries:
                yield _batch(entries, columns)
            if whole:
                return
            first = end

    def _check_reach(self, fold: KvFold) -> None:
        if fold.forgotten > self.head_seq:
            raise NotFound(
                f"map {self._host.name!r} no longer knows which keys it had at seq "
                f"{self.head_seq}: keys that were deleted up to seq {fold.forgotten} are "
                "forgotten; use a later position, or a longer grace_ms of the map"
            )

    def _as_of(
        self, fold: KvFold, page: list[tuple[bytes, Slot]], *, with_values: bool
    ) -> list[_Entry]:
        entries: list[_Entry] = []
        older: dict[int, bytes] = {}
        for key, slot in page:
            if slot.version > self.head_seq:
                version = self._version(fold, key, slot)
                if version:
                    older[version] = key
            elif not slot.deleted:
                entries.append(_Entry(key, slot.version, slot.ts, slot.expires_us, slot.value))
        entries += self._from_log(older)
        moment = self.moment_us
        if moment is not None:
            entries = [each for each in entries if not 0 < each.expires_us <= moment]
        return self._with_values(entries) if with_values else entries

    def _version(self, fold: KvFold, key: bytes, slot: Slot) -> int:
        """The newest version of a key up to the position, 0 when it had none."""
        seqs = fold.older_seqs(slot)
        before = bisect_left(seqs, self.head_seq + 1)
        if before:
            return seqs[before - 1]
        if len(seqs) + 1 >= fold.config.history:
            raise NotFound(
                f"the history of key {key!r} in map {self._host.name!r} starts after seq "
                f"{self.head_seq}: the value at that seq is not stored; use a later position, or a "
                "longer history of the map"
            )
        return 0

    def _from_log(self, older: dict[int, bytes]) -> Iterator[_Entry]:
        """Versions that are only in the log, without deletes."""
        if not older:
            return
        for record in self._records(older):
            version = version_of(record)
            if version.value is not None:
                key = older[record.seq]
                yield _Entry(key, record.seq, version.ts, version.expires_us or 0, version.value)

    def _with_values(self, entries: list[_Entry]) -> list[_Entry]:
        missing = {each.version: each.key for each in entries if each.value is None}
        if not missing:
            return entries
        values = {record.seq: record.data for record in self._records(missing)}
        return [
            each._replace(value=values[each.version]) if each.value is None else each
            for each in entries
        ]

    def _records(self, keys: dict[int, bytes]) -> list[Any]:
        records = self._host.records(0, sorted(keys))
        missing = keys.keys() - {record.seq for record in records}
        if missing:
            version = min(missing)
            raise NotFound(
                f"version {version} of key {keys[version]!r} in map {self._host.name!r} is "
                "no longer in the log: use a later position"
            )
        return records


class _Deleted:
    """Keys that were deleted after a position. Owned by one scan."""

    def __init__(self, head: int) -> None:
        self._head = head
        self._applied = -1
        self._keys: list[bytes] = []

    def between(
        self, fold: KvFold, applied: int, first: bytes | None, next: bytes | None
    ) -> list[tuple[bytes, Slot]]:
        """The deleted keys of a range, with their present state."""
        if applied <= self._head:
            return []
        if applied != self._applied:
            markers = fold.markers(applied, sys.maxsize)
            self._keys = sorted(each.key for each in markers if each.version > self._head)
            self._applied = applied
        low = 0 if first is None else bisect_left(self._keys, first)
        high = len(self._keys) if next is None else bisect_left(self._keys, next)
        slots = [(key, fold.find(key)) for key in self._keys[low:high]]
        return [(key, slot) for key, slot in slots if slot is not None]


def _range(where: Where | None) -> tuple[bytes | None, bytes | None]:
    """The range of keys that a condition allows: first key, and end (exclusive)."""
    text, plain = bounds(where, "key"), bounds(where, "key_bytes")
    lows = [text.low.encode()] if text.low is not None else []
    highs = [text.high.encode() + b"\0"] if text.high is not None else []
    lows += [plain.low] if plain.low is not None else []
    highs += [plain.high + b"\0"] if plain.high is not None else []
    return max(lows, default=None), min(highs, default=None)


def _batch(entries: list[_Entry], columns: Sequence[str]) -> pa.RecordBatch:
    keys = pa.array([each.key for each in entries], pa.binary())
    values = [each.value or b"" for each in entries] if {"value", "text"} & {*columns} else []
    arrays: list[pa.Array] = []
    for name in columns:
        if name == "key":
            arrays.append(texts(keys))
        elif name == "key_bytes":
            arrays.append(keys)
        elif name == "value":
            arrays.append(pa.array(values, pa.binary()))
        elif name == "text":
            arrays.append(texts(pa.array(values, pa.binary())))
        elif name == "version":
            arrays.append(pa.array([each.version for each in entries], pa.uint64()))
        elif name == "ts":
            arrays.append(pa.array([each.ts for each in entries], TIME))
        else:
            arrays.append(pa.array([each.expires_us or None for each in entries], TIME))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
