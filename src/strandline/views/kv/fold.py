"""The state of a key-value view: folds records in, finds keys.

    hot       keys that were written or read lately; read by others without a lock
    warm      the hot ones of the round before; asked when hot has no answer
    live      map of all keys with a value, but for what ``changed`` names      space + 0
    graves    map of keys whose newest record is a delete marker, likewise      space + 1
    agenda    map of expiries and delete markers, in the order of their turn    space + 2
    dead      seqs of records that nobody can see any more, to be let go (compaction.py)

A key that is in ``changed`` is in hot, and newer there than in the maps. When hot is full, what
has changed goes into the maps, warm is dropped and hot becomes warm: what is asked for again comes
back. So memory is bounded, a key in use stays, and no list of uses is kept on the way of a read.

Deleted keys have a map of their own: a scan does not wade through what is gone.

What ``hot`` has of a key is replaced before the host says that the record is folded in. That is
what makes reading it without a lock safe: whoever has seen the position of the log and of the fold
to be the same finds the state at that position, or a newer one.

A version leaves the state when ``history`` newer ones of its key are there, and all of them leave
when a ``Forgotten`` record says so. Both follow from records alone. Their seqs are noted as dead,
and saved with the rest.
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
from strandline.views.kv.conditions import Now
from strandline.views.kv.expiry_index import Agenda, Marker
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
from strandline.views.view import Rows, Seen, World

_UNCOUNTED_MIN, _UNCOUNTED_MAX = 64 * 1024, 4 * 1024 * 1024
"""Memory is counted again when about so much has come in: a 64th of all, within these bounds."""
_LEAF_RAM = 32 * 1024
"""What a look into a map may bring into memory, about."""
_DYING_MAX = 64 * 1024
_DEAD_RAM = 2
"""Bytes that a dead seq takes at most, but for the first ones."""


class State(msgspec.Struct, frozen=True, array_like=True):
    """What is saved besides the maps."""

    applied: int
    forgotten: int
    forgotten_seq: int
    dead: bytes


class KvFold:
    """Keys and their versions. Owned by one thread: whoever holds the host's lock."""

    def __init__(self, config: KvConfig, world: World) -> None:
        self.config = config
        self.hot: dict[bytes, Slot] = {}
        self._dead = BitMap64()
        self.forgotten = 0
        """Delete markers up to this seq are forgotten: who was away since has missed some."""
        self._older_size = (config.history - 1) * SEQ_BYTES
        self._world = world
        self._hot_max = world.ram_bytes // 8
        self._warm: dict[bytes, Slot] = {}
        self._changed: set[bytes] = set()
        self._hot_ram = 0
        self._warm_ram = 0
        self._uncounted = 0
        self._uncounted_max = min(max(_UNCOUNTED_MIN, world.ram_bytes // 64), _UNCOUNTED_MAX)
        self._dying = bytearray()
        """Dead ones that are not in the set yet: it takes many at once much faster."""
        self._account = Account(world.share)
        self._forgotten_seq = 0
        self._applied = 0
        self._base: int | None = None
        """How far it goes what was saved last; None when all was folded in from the beginning."""
        self._live: PagedMap
        self._graves: PagedMap
        self._agenda: Agenda

    @property
    def dead(self) -> BitMap64:
        """Seqs of records that nobody can see any more."""
        if self._dying:
            self._dead.update(seqs_of(bytes(self._dying)))
            self._dying.clear()
        return self._dead

    def load(self, session: Session, space: int, state: bytes) -> None:
        ram, spill = self._world.ram_bytes, self._world.spill
        self._live = PagedMap(session, space=space, ram_bytes=ram // 2, spill=spill)
        self._graves = PagedMap(session, space=space + 1, ram_bytes=ram // 8, spill=spill)
        agenda = PagedMap(session, space=space + 2, ram_bytes=ram // 8, spill=spill)
        self._agenda = Agenda(agenda)
        if state:
            found = msgspec.msgpack.decode(state, type=State)
            self._base = self._applied = found.applied
            self.forgotten, self._forgotten_seq = found.forgotten, found.forgotten_seq
            self._dead = BitMap64.deserialize(found.dead) if found.dead else BitMap64()
        self._count()

    def save(self, session: Session) -> bytes:
        self.flush()
        self._agenda.flush()
        for each in (self._live, self._graves, self._agenda.map):
            each.save()
        self._count()
        self._base = self._applied
        dead = self.dead.serialize() if self.dead else b""
        state = State(self._applied, self.forgotten, self._forgotten_seq, dead)
        return msgspec.msgpack.encode(state)

    def apply(self, source: int, rows: Rows) -> None:
        known = self._gather(rows.keys) if len(rows.seqs) > 1 else {}
        hot = self.hot
        for seq, ts, key, meta, value in zip(
            rows.seqs, rows.stamps, rows.keys, rows.metas, rows.data, strict=True
        ):
            said = None if meta is None else metas.decode(meta)
            if not key:
                if type(said) is metas.Forgotten:
                    self._forget(seq, said.through)
                    known = {}  # it may have gone
                continue
            before = hot.get(key) or known.get(key) or self._find(key)
            self._put(key, before, self._slot(seq, ts, said, value, before))
            if self._hot_ram > self._hot_max:
                self._turn()
                hot, known = self.hot, {}  # what it has of a changed key is old
        self._applied = rows.seqs[-1]
        if self._uncounted > self._uncounted_max or len(self._dying) > _DYING_MAX:
            self._count()

    def digest(self) -> bytes:
        """Of all keys that have a value, with their visible versions."""
        whole = xxh3_128()
        for seen in self.seen():
            for part in seen:
                whole.update(len(part).to_bytes(4, "little"))
                whole.update(part)
        return whole.digest()

    def seen(self, first: bytes | None = None, next: bytes | None = None) -> Iterator[Seen]:
        """Keys that have a value, with their visible versions."""
        self.flush()
        for key, data in self._live.range(first, next):
            yield Seen(key, encode(self._trimmed(decode(data))))

    def find(self, key: bytes) -> Slot | None:
        """The state of a key, deleted or not, kept at hand for the next who asks."""
        slot = self.hot.get(key)
        if slot is None:
            slot = self._find(key)
            if slot is not None:
                self._keep(key, slot)
                self._turn_if_full()
        return slot

    def find_many(self, keys: Sequence[bytes]) -> list[Slot | None]:
        """The same for many keys."""
        known = self._gather(keys)
        found = [self.hot.get(key) or self._warm.get(key) or known.get(key) for key in keys]
        for key, slot in known.items():
            self._keep(key, slot)
        self._turn_if_full()
        return found

    def live(self, key: bytes, now_us: int) -> Slot | None:
        """A key that has a value at this time."""
        slot = self.find(key)
        if slot is None or slot.deleted or 0 < slot.expires_us <= now_us:
            return None
        return slot

    def now(self, key: bytes, now_us: int) -> Now | None:
        """The same with its value, wherever that is."""
        slot = self.live(key, now_us)
        if slot is None:
            return None
        value = slot.value
        if value is None:
            found = self._world.fetch(0, (slot.version,))
            if not found:
                raise NotFound(f"the value of key {key!r}, record {slot.version}, was lost")
            value = found[0].data
        return Now(value, slot.version, slot.expires_us)

    def older_seqs(self, slot: Slot) -> tuple[int, ...]:
        """Versions before the newest that can still be read, ascending."""
        return self._trimmed(slot).older_seqs

    def page(
        self, first: bytes | None, next: bytes | None, count_max: int, *, reverse: bool
    ) -> list[tuple[bytes, Slot]]:
        """Keys with a value in a range, in order, at most so many; their time may be over."""
        self.flush()
        self._looked()
        found = islice(self._live.range(first, next, reverse=reverse), count_max)
        return [(key, decode(data)) for key, data in found]

    def expired(self, now_us: int, count_max: int) -> list[bytes]:
        """Keys that have a value and whose time is over, at most so many."""
        return self._agenda.expired(now_us, count_max)

    def markers(self, through: int, count_max: int) -> list[Marker]:
        """Delete markers of deleted keys, up to a seq, oldest first."""
        return self._agenda.markers(through, count_max)

    def released(self, seqs: BitMap64) -> None:
        """These records are gone from the log."""
        self._dead = self.dead - seqs

    def flush(self) -> None:
        """Put what has changed into the maps."""
        if not self._changed:
            return
        hot = self.hot
        slots = {key: hot[key] for key in self._changed}
        here = {key: encode(slot) for key, slot in slots.items() if not slot.deleted}
        gone = {key: encode(slot) for key, slot in slots.items() if slot.deleted}
        _move(here, self._graves, self._live)
        _move(gone, self._live, self._graves)
        self._changed.clear()

    def shrink(self, wanted: int) -> int:
        """Free about so many bytes of memory; how many it were."""
        before = self._account.charged
        self._turn()
        if self._hot_ram + self._warm_ram > 0 and before - self._count() < wanted:
            self._turn()
        return max(0, before - self._count())

    def _slot(
        self, seq: int, ts: int, said: metas.Meta | None, value: bytes, before: Slot | None
    ) -> Slot:
        older = b"" if before is None else before.older + pack_seq(before.version)
        if len(older) > self._older_size:
            cut = len(older) - self._older_size
            self._dying += older[:cut]
            older = older[cut:]
        if said is None and len(value) <= INLINE_BYTES_MAX:
            return Slot(value, seq, ts, 0, older)
        if type(said) is metas.Deleted:
            return Slot(None, seq, ts, 0, older, deleted=True)
        inline = value if len(value) <= INLINE_BYTES_MAX else None
        expires_us = said.expires_us if type(said) is metas.Until else 0
        return Slot(inline, seq, ts, expires_us, older)

    def _put(self, key: bytes, before: Slot | None, slot: Slot) -> None:
        if before is not None and (before.deleted or before.expires_us):
            self._agenda.remove(before)
        if slot.deleted or slot.expires_us:
            self._agenda.add(key, slot)
        self._keep(key, slot)
        self._changed.add(key)

    def _keep(self, key: bytes, slot: Slot) -> None:
        """Have a key at hand."""
        old = self.hot.get(key)
        size = _ram_of(key, slot)
        if old is not None:
            size -= _ram_of(key, old)
        elif self._warm:
            self._cool(key)
        self.hot[key] = slot
        self._hot_ram += size
        self._uncounted += size

    def _cool(self, key: bytes) -> None:
        """Have a key no longer among the warm ones."""
        old = self._warm.pop(key, None)
        if old is not None:
            self._warm_ram -= _ram_of(key, old)

    def _find(self, key: bytes) -> Slot | None:
        """A key that is not in hot."""
        slot = self._warm.get(key)
        if slot is not None:
            return slot
        self._looked()
        data = self._live.get(key)
        if data is not None:
            return decode(data)
        data = self._graves.get(key) if len(self._graves) else None
        return None if data is None else decode_deleted(data)

    def _looked(self) -> None:
        """A look into a map may have brought pages into memory."""
        self._uncounted += _LEAF_RAM
        if self._uncounted > self._uncounted_max:
            self._count()

    def _gather(self, keys: Iterable[bytes | None]) -> dict[bytes, Slot]:
        """What the maps have of those keys that are not at hand. Every leaf is asked once."""
        hot, warm, live, graves = self.hot, self._warm, self._live, self._graves
        missing = [key for key in dict.fromkeys(keys) if key and key not in hot and key not in warm]
        if not missing:
            return {}
        self._looked()
        found = {
            key: decode(data)
            for key, data in zip(missing, live.get_many(missing), strict=True)
            if data is not None
        }
        if len(graves) and len(found) < len(missing):
            absent = [key for key in missing if key not in found]
            for key, data in zip(absent, graves.get_many(absent), strict=True):
                if data is not None:
                    found[key] = decode_deleted(data)
        return found

    def _forget(self, seq: int, through: int) -> None:
        """Drop all deleted keys up to a marker, with their versions."""
        if self._base is not None and self._base < through:
            raise Corrupt(
                f"delete markers up to {through} are gone from the log, and what was saved ends "
                f"at {self._base}: rebuild the view",
                path=f"record {seq}",
            )
        for marker in self._agenda.markers(through, sys.maxsize):
            slot = self.hot.get(marker.key) or self._find(marker.key)
            assert slot is not None, "a key on the agenda is known"
            self.dead.update(slot.older_seqs)
            self.dead.add(slot.version)
            self._agenda.remove(slot)
            self._drop(marker.key)
        if self._forgotten_seq:
            self.dead.add(self._forgotten_seq)
        self.forgotten, self._forgotten_seq = max(self.forgotten, through), seq

    def _drop(self, key: bytes) -> None:
        slot = self.hot.pop(key, None)
        if slot is not None:
            self._hot_ram -= _ram_of(key, slot)
        self._cool(key)
        self._changed.discard(key)
        self._live.delete(key)
        self._graves.delete(key)

    def _turn_if_full(self) -> None:
        if self._hot_ram > self._hot_max:
            self._turn()

    def _turn(self) -> None:
        """Drop the keys that were not asked for in a whole round."""
        self.flush()
        self._agenda.flush()
        self._warm, self._warm_ram = self.hot, self._hot_ram
        self.hot, self._hot_ram = {}, 0
        self._count()

    def _trimmed(self, slot: Slot) -> Slot:
        """Without versions that a history which was longer once has left."""
        excess = len(slot.older) - self._older_size
        return slot if excess <= 0 else msgspec.structs.replace(slot, older=slot.older[excess:])

    def _count(self) -> int:
        """Tell the share what is there; how much it is."""
        tables = sum(map(sys.getsizeof, (self.hot, self._warm, self._changed)))
        maps = (self._live, self._graves, self._agenda.map)
        pages = sum(each.statistics().ram_bytes for each in maps)
        ram = self._hot_ram + self._warm_ram + self._agenda.ram + _DEAD_RAM * len(self.dead)
        self._account.settle(tables + pages + ram)
        self._uncounted = 0
        return self._account.charged


def _ram_of(key: bytes, slot: Slot) -> int:
    return ram_of(key, slot.value, slot.older)


def _move(entries: dict[bytes, bytes], source: PagedMap, target: PagedMap) -> None:
    """Entries belong into one map and no longer into the other."""
    target.put_many(entries.items())
    if len(source):
        for key in entries:
            source.delete(key)
