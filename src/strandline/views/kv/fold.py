"""The state of a key-value view: folds records in, finds keys.

    hot            recently written or read keys; other threads read it without a lock
    warm           the previous hot dict; used for keys that are not in hot
    live           map of all keys with a value, except those in ``changed``          space + 0
    deleted        map of keys whose newest record is a delete marker, likewise       space + 1
    expiry_index   map of expiries and delete markers in their order                  space + 2
    dead           seqs of records to be deleted (`views/kv/compaction.py`)

A key that is in ``changed`` is in hot, and newer there than in the maps. When hot is full, the
changed keys are written to the maps, warm is dropped and hot becomes warm; a key that is read from
warm moves back to hot. So memory is bounded, a key in use stays, and a read updates no LRU list.

Deleted keys have a map of their own, so that a scan does not read them.

The entry of a key in ``hot`` is replaced before the host publishes that the record is folded in.
This makes a read without a lock safe: a reader for which the positions of the log and of the fold
are equal finds the state at that position, or a newer one.

A version leaves the state when its key has ``history`` newer ones; a ``ForgottenMeta`` record
removes all versions of a deleted key. Both follow from records alone. Their seqs are recorded as
dead and saved with the state.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec
from pyroaring import BitMap64
from xxhash import xxh3_128

from strandline.config.view_config import KvConfig
from strandline.errors import Corrupt, NotFound
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.session import Session
from strandline.views.kv import meta_codec as metas
from strandline.views.kv.conditions import CurrentValue
from strandline.views.kv.expiry_index import DeleteMarker, ExpiryIndex
from strandline.views.kv.key_state import (
    INLINE_BYTES_MAX,
    SEQ_BYTES,
    Slot,
    decode,
    decode_deleted,
    encode,
    pack_seq,
    ram_of,
    seqs_of,
)
from strandline.views.memory_account import Account
from strandline.views.view import FoldColumns, FoldContext, VisibleItem

_UNCOUNTED_MIN, _UNCOUNTED_MAX = 64 * 1024, 4 * 1024 * 1024
"""Memory is measured again after so many new bytes: a 64th of the budget, within these bounds."""
_LEAF_RAM = 32 * 1024
"""Approximate bytes that a read of a map loads into memory."""
_DEAD_BUFFER_MAX = 64 * 1024
_DEAD_RAM = 2
"""Bytes that a dead seq takes at most, except the first ones."""


class KvState(msgspec.Struct, frozen=True, array_like=True):
    """The saved state besides the maps."""

    applied: int
    forgotten: int
    forgotten_seq: int
    dead: bytes


class KvFold:
    """Keys and their versions. Owned by one thread: the one that holds the host's lock."""

    def __init__(self, config: KvConfig, world: FoldContext) -> None:
        self.config = config
        self.hot: dict[bytes, Slot] = {}
        self._dead = BitMap64()
        self.forgotten = 0
        """Delete markers up to this seq are forgotten: a watcher from before it misses some."""
        self._older_size = (config.history - 1) * SEQ_BYTES
        self._world = world
        self._hot_max = world.ram_bytes // 8
        self._warm: dict[bytes, Slot] = {}
        self._changed: set[bytes] = set()
        self._hot_ram = 0
        self._warm_ram = 0
        self._uncounted = 0
        self._uncounted_max = min(max(_UNCOUNTED_MIN, world.ram_bytes // 64), _UNCOUNTED_MAX)
        self._dead_buffer = bytearray()
        """Dead seqs that are not in the bitmap yet: adding many at once is much faster."""
        self._account = Account(world.share)
        self._forgotten_seq = 0
        self._applied = 0
        self._base: int | None = None
        """The seq that the last saved state goes up to; None if all records were folded in."""
        self._live: PagedMap
        self._deleted: PagedMap
        self._expiry_index: ExpiryIndex

    @property
    def dead(self) -> BitMap64:
        """Seqs of records that cannot be read any more."""
        if self._dead_buffer:
            self._dead.update(seqs_of(bytes(self._dead_buffer)))
            self._dead_buffer.clear()
        return self._dead

    def load(self, session: Session, space: int, state: bytes) -> None:
        ram, spill = self._world.ram_bytes, self._world.spill
        self._live = PagedMap(session, space=space, ram_bytes=ram // 2, spill=spill)
        self._deleted = PagedMap(session, space=space + 1, ram_bytes=ram // 8, spill=spill)
        index = PagedMap(session, space=space + 2, ram_bytes=ram // 8, spill=spill)
        self._expiry_index = ExpiryIndex(index)
        if state:
            saved = msgspec.msgpack.decode(state, type=KvState)
            self._base = self._applied = saved.applied
            self.forgotten, self._forgotten_seq = saved.forgotten, saved.forgotten_seq
            self._dead = BitMap64.deserialize(saved.dead) if saved.dead else BitMap64()
        self._count()

    def save(self, session: Session) -> bytes:
        self.flush()
        self._expiry_index.flush()
        for each in (self._live, self._deleted, self._expiry_index.map):
            each.save()
        self._count()
        self._base = self._applied
        dead = self.dead.serialize() if self.dead else b""
        state = KvState(self._applied, self.forgotten, self._forgotten_seq, dead)
        return msgspec.msgpack.encode(state)

    def apply(self, source: int, rows: FoldColumns) -> None:
        known = self._find_in_maps(rows.keys) if len(rows.seqs) > 1 else {}
        hot = self.hot
        for seq, ts, key, meta, value in zip(
            rows.seqs, rows.stamps, rows.keys, rows.metas, rows.data, strict=True
        ):
            fields = None if meta is None else metas.decode(meta)
            if not key:
                if type(fields) is metas.ForgottenMeta:
                    self._forget(seq, fields.through)
                    known = {}  # it may hold keys that were just removed
                continue
            before = hot.get(key) or known.get(key) or self._find(key)
            self._put(key, before, self._slot(seq, ts, fields, value, before))
            if self._hot_ram > self._hot_max:
                self._drop_warm()
                hot, known = self.hot, {}  # its entries of changed keys are outdated
        self._applied = rows.seqs[-1]
        if self._uncounted > self._uncounted_max or len(self._dead_buffer) > _DEAD_BUFFER_MAX:
            self._count()

    def digest(self) -> bytes:
        """A checksum of all keys that have a value, with their visible versions."""
        whole = xxh3_128()
        for seen in self.visible_items():
            for part in seen:
                whole.update(len(part).to_bytes(4, "little"))
                whole.update(part)
        return whole.digest()

    def visible_items(
        self, first: bytes | None = None, next: bytes | None = None
    ) -> Iterator[VisibleItem]:
        """Keys that have a value, with their visible versions, in order."""
        self.flush()
        for key, data in self._live.range(first, next):
            yield VisibleItem(key, encode(self._trimmed(decode(data))))

    def find(self, key: bytes) -> Slot | None:
        """The state of a key, deleted or not. It is cached in hot."""
        slot = self.hot.get(key)
        if slot is None:
            slot = self._find(key)
            if slot is not None:
                self._cache(key, slot)
                self._drop_warm_if_full()
        return slot

    def find_many(self, keys: Sequence[bytes]) -> list[Slot | None]:
        """The states of many keys."""
        known = self._find_in_maps(keys)
        slots = [self.hot.get(key) or self._warm.get(key) or known.get(key) for key in keys]
        for key, slot in known.items():
            self._cache(key, slot)
        self._drop_warm_if_full()
        return slots

    def live(self, key: bytes, now_us: int) -> Slot | None:
        """A key that has a value at this time."""
        slot = self.find(key)
        if slot is None or slot.deleted or 0 < slot.expires_us <= now_us:
            return None
        return slot

    def now(self, key: bytes, now_us: int) -> CurrentValue | None:
        """The same with its value, from memory or from the log."""
        slot = self.live(key, now_us)
        if slot is None:
            return None
        value = slot.value
        if value is None:
            records = self._world.fetch(0, (slot.version,))
            if not records:
                raise NotFound(f"the value of key {key!r}, record {slot.version}, was lost")
            value = records[0].data
        return CurrentValue(value, slot.version, slot.expires_us)

    def older_seqs(self, slot: Slot) -> tuple[int, ...]:
        """Versions before the newest that can still be read, ascending."""
        return self._trimmed(slot).older_seqs

    def page(
        self, first: bytes | None, next: bytes | None, count_max: int, *, reverse: bool
    ) -> list[tuple[bytes, Slot]]:
        """Keys with a value in a range, in order, at most ``count_max``; some may have expired."""
        self.flush()
        self._count_map_read()
        entries = islice(self._live.range(first, next, reverse=reverse), count_max)
        return [(key, decode(data)) for key, data in entries]

    def expired(self, now_us: int, count_max: int) -> list[bytes]:
        """Keys that have a value and have expired, at most ``count_max``."""
        return self._expiry_index.expired(now_us, count_max)

    def markers(self, through: int, count_max: int) -> list[DeleteMarker]:
        """Delete markers of deleted keys, up to a seq, oldest first."""
        return self._expiry_index.markers(through, count_max)

    def remove_dead(self, seqs: BitMap64) -> None:
        """Remove these seqs from the dead ones: their records were deleted from the log."""
        self._dead = self.dead - seqs

    def flush(self) -> None:
        """Write the changed keys to the maps."""
        if not self._changed:
            return
        hot = self.hot
        slots = {key: hot[key] for key in self._changed}
        live = {key: encode(slot) for key, slot in slots.items() if not slot.deleted}
        deleted = {key: encode(slot) for key, slot in slots.items() if slot.deleted}
        _move(live, self._deleted, self._live)
        _move(deleted, self._live, self._deleted)
        self._changed.clear()

    def shrink(self, size: int) -> int:
        """Free about ``size`` bytes of memory; return how many were freed."""
        before = self._account.charged
        self._drop_warm()
        if self._hot_ram + self._warm_ram > 0 and before - self._count() < size:
            self._drop_warm()
        return max(0, before - self._count())

    def _slot(
        self, seq: int, ts: int, fields: metas.Meta | None, value: bytes, before: Slot | None
    ) -> Slot:
        older = b"" if before is None else before.older + pack_seq(before.version)
        if len(older) > self._older_size:
            cut = len(older) - self._older_size
            self._dead_buffer += older[:cut]
            older = older[cut:]
        if fields is None and len(value) <= INLINE_BYTES_MAX:
            return Slot(value, seq, ts, 0, older)
        if type(fields) is metas.DeletedMeta:
            return Slot(None, seq, ts, 0, older, deleted=True)
        inline = value if len(value) <= INLINE_BYTES_MAX else None
        expires_us = fields.expires_us if type(fields) is metas.ExpiryMeta else 0
        return Slot(inline, seq, ts, expires_us, older)

    def _put(self, key: bytes, before: Slot | None, slot: Slot) -> None:
        if before is not None and (before.deleted or before.expires_us):
            self._expiry_index.remove(before)
        if slot.deleted or slot.expires_us:
            self._expiry_index.add(key, slot)
        self._cache(key, slot)
        self._changed.add(key)

    def _cache(self, key: bytes, slot: Slot) -> None:
        """Put a key into hot."""
        old = self.hot.get(key)
        size = _ram_of(key, slot)
        if old is not None:
            size -= _ram_of(key, old)
        elif self._warm:
            self._remove_warm(key)
        self.hot[key] = slot
        self._hot_ram += size
        self._uncounted += size

    def _remove_warm(self, key: bytes) -> None:
        """Remove a key from warm."""
        old = self._warm.pop(key, None)
        if old is not None:
            self._warm_ram -= _ram_of(key, old)

    def _find(self, key: bytes) -> Slot | None:
        """The state of a key that is not in hot."""
        slot = self._warm.get(key)
        if slot is not None:
            return slot
        self._count_map_read()
        data = self._live.get(key)
        if data is not None:
            return decode(data)
        data = self._deleted.get(key) if len(self._deleted) else None
        return None if data is None else decode_deleted(data)

    def _count_map_read(self) -> None:
        """A read of a map may have loaded pages into memory."""
        self._uncounted += _LEAF_RAM
        if self._uncounted > self._uncounted_max:
            self._count()

    def _find_in_maps(self, keys: Iterable[bytes | None]) -> dict[bytes, Slot]:
        """The states in the maps of those keys that are not cached. Each leaf is read once."""
        hot, warm, live, deleted = self.hot, self._warm, self._live, self._deleted
        missing = [key for key in dict.fromkeys(keys) if key and key not in hot and key not in warm]
        if not missing:
            return {}
        self._count_map_read()
        found = {
            key: decode(data)
            for key, data in zip(missing, live.get_many(missing), strict=True)
            if data is not None
        }
        if len(deleted) and len(found) < len(missing):
            absent = [key for key in missing if key not in found]
            for key, data in zip(absent, deleted.get_many(absent), strict=True):
                if data is not None:
                    found[key] = decode_deleted(data)
        return found

    def _forget(self, seq: int, through: int) -> None:
        """Remove all deleted keys up to a marker, with their versions."""
        if self._base is not None and self._base < through:
            raise Corrupt(
                f"delete markers up to {through} are gone from the log, and the saved state ends "
                f"at {self._base}: rebuild the view",
                path=f"record {seq}",
            )
        for marker in self._expiry_index.markers(through, sys.maxsize):
            slot = self.hot.get(marker.key) or self._find(marker.key)
            assert slot is not None, "a key in the expiry index has a state"
            self.dead.update(slot.older_seqs)
            self.dead.add(slot.version)
            self._expiry_index.remove(slot)
            self._remove(marker.key)
        if self._forgotten_seq:
            self.dead.add(self._forgotten_seq)
        self.forgotten, self._forgotten_seq = max(self.forgotten, through), seq

    def _remove(self, key: bytes) -> None:
        slot = self.hot.pop(key, None)
        if slot is not None:
            self._hot_ram -= _ram_of(key, slot)
        self._remove_warm(key)
        self._changed.discard(key)
        self._live.delete(key)
        self._deleted.delete(key)

    def _drop_warm_if_full(self) -> None:
        if self._hot_ram > self._hot_max:
            self._drop_warm()

    def _drop_warm(self) -> None:
        """Drop the keys that were not used since hot was replaced; hot becomes warm."""
        self.flush()
        self._expiry_index.flush()
        self._warm, self._warm_ram = self.hot, self._hot_ram
        self.hot, self._hot_ram = {}, 0
        self._count()

    def _trimmed(self, slot: Slot) -> Slot:
        """The slot without versions from a time when ``history`` was larger."""
        excess = len(slot.older) - self._older_size
        return slot if excess <= 0 else msgspec.structs.replace(slot, older=slot.older[excess:])

    def _count(self) -> int:
        """Measure the memory in use and charge it to the share; return the charge."""
        tables = sum(map(sys.getsizeof, (self.hot, self._warm, self._changed)))
        maps = (self._live, self._deleted, self._expiry_index.map)
        pages = sum(each.statistics().ram_bytes for each in maps)
        ram = self._hot_ram + self._warm_ram + self._expiry_index.ram + _DEAD_RAM * len(self.dead)
        self._account.set_charge(tables + pages + ram)
        self._uncounted = 0
        return self._account.charged


def _ram_of(key: bytes, slot: Slot) -> int:
    return ram_of(key, slot.value, slot.older)


def _move(entries: dict[bytes, bytes], source: PagedMap, target: PagedMap) -> None:
    """Move entries from one map to the other."""
    target.put_many(entries.items())
    if len(source):
        for key in entries:
            source.delete(key)
