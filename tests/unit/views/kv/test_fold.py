"""Promise: the same records give the same keys, in one go or one by one, from the beginning or from
what was saved, with much memory or none; and what is counted is what is there."""

from __future__ import annotations

import gc
import itertools
import random
import sys

import pytest

from strandline.config.memory_budget import MemoryShare
from strandline.config.view_config import KvConfig
from strandline.records import Record
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import SimObjects
from strandline.views.kv import meta_codec
from strandline.views.kv.fold import KvFold
from strandline.views.view import FoldColumns, FoldContext

SPACE = 16
SAVED_EVERY = 50
"""Keys are forgotten only up to what was saved: records of the rest are still there."""
KEYS = [b"%02d" % number for number in range(40)]


def _history(seed: int, count: int) -> list[Record]:
    """Puts, puts that end, deletes, and now and then a word of forgetting."""
    draw = random.Random(seed)
    records = []
    for seq in range(1, count + 1):
        kind = draw.random()
        key: bytes | None = draw.choice(KEYS)
        said: bytes | None = None
        if kind < 0.3:
            said = meta_codec.DELETED
        elif kind < 0.5:
            said = meta_codec.encode(meta_codec.ExpiryMeta(draw.randrange(1, 1000)))
        elif kind < 0.55 and seq > SAVED_EVERY:
            saved = (seq - 1) // SAVED_EVERY * SAVED_EVERY
            key, said = (
                None,
                meta_codec.encode(meta_codec.ForgottenMeta(draw.randrange(1, saved + 1))),
            )
        data = draw.randbytes(draw.randrange(20))
        records.append(Record(seq=seq, ts=seq * 10, data=data, key=key, meta=said))
    return records


def _rows(records: list[Record]) -> FoldColumns:
    return FoldColumns(
        [record.seq for record in records],
        [record.ts for record in records],
        [record.key for record in records],
        [record.tag for record in records],
        [record.meta for record in records],
        [record.data for record in records],
    )


class Shop:
    """A reservoir and what a fold needs."""

    def __init__(self, *, ram_bytes: int = 1 << 20, history: int = 3) -> None:
        self.reservoir = Reservoir(SimObjects(), start_jobs=False)
        self.session = self.reservoir.session()
        self.share = MemoryShare(1 << 30)
        self.config = KvConfig(history=history)
        self.world = FoldContext(SimClock(), self.share, lambda source, seqs: [], None, ram_bytes)

    def fold(self, state: bytes = b"") -> KvFold:
        fold = KvFold(self.config, self.world)
        fold.load(self.session, SPACE, state)
        return fold

    def saved(self, fold: KvFold) -> bytes:
        state = fold.save(self.session)
        self.session.commit()
        return state


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ram_bytes", [0, 8000, 1 << 20])
def test_it_does_not_matter_how_records_are_cut_into_pieces(seed, ram_bytes):
    records = _history(seed, 400)
    whole = Shop().fold()
    whole.apply(0, _rows(records))

    cut = Shop(ram_bytes=ram_bytes).fold()
    for size, first in zip(itertools.cycle([1, 7, 100]), range(0, 400, 100), strict=False):
        for at in range(first, first + 100, size):
            cut.apply(0, _rows(records[at : min(at + size, first + 100)]))

    assert cut.digest() == whole.digest()
    assert cut.dead == whole.dead
    assert cut.forgotten == whole.forgotten
    assert [cut.find(key) for key in KEYS] == [whole.find(key) for key in KEYS]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ram_bytes", [0, 8000, 1 << 20])
def test_what_was_saved_goes_on_as_if_nothing_had_been(seed, ram_bytes):
    records = _history(seed, 400)
    whole = Shop().fold()
    whole.apply(0, _rows(records))

    shop = Shop(ram_bytes=ram_bytes)
    state = b""
    for first in range(0, 300, SAVED_EVERY):
        fold = shop.fold(state)
        fold.apply(0, _rows(records[first : first + SAVED_EVERY]))
        state = shop.saved(fold)
    fold = shop.fold(state)
    for first in range(300, 400, SAVED_EVERY):
        fold.apply(0, _rows(records[first : first + SAVED_EVERY]))
        shop.saved(fold)

    assert fold.digest() == whole.digest()
    assert (fold.dead, fold.forgotten) == (whole.dead, whole.forgotten)
    assert fold.expired(10**6, 1000) == whole.expired(10**6, 1000)
    assert fold.markers(1000, 1000) == whole.markers(1000, 1000)


def test_a_key_forgotten_and_put_in_one_piece_begins_anew():
    shop = Shop()
    fold = shop.fold()
    fold.apply(0, _rows([_put(1), _delete(2)]))
    fold = shop.fold(shop.saved(fold))

    fold.apply(0, _rows([_forgotten(3, through=2), _put(4)]))

    assert fold.older_seqs(fold.find(b"k")) == ()
    assert list(fold.dead) == [1, 2]


def test_a_word_of_forgetting_is_dead_when_the_next_one_is_there():
    fold = Shop().fold()

    fold.apply(0, _rows([_put(1), _delete(2), _forgotten(3, through=2)]))
    first = list(fold.dead)
    fold.apply(0, _rows([_put(4), _delete(5), _forgotten(6, through=5)]))

    assert first == [1, 2]
    assert list(fold.dead) == [1, 2, 3, 4, 5]
    assert fold.forgotten == 5


def test_the_agenda_has_exactly_what_is_to_come():
    fold = Shop().fold()
    records = [
        _put(1, key=b"ends", expires_us=50),
        _put(2, key=b"stays", expires_us=50),
        _put(3, key=b"stays"),
        _put(4, key=b"later", expires_us=50),
        _put(5, key=b"later", expires_us=90),
        _put(6, key=b"deleted", expires_us=50),
        _delete(7, key=b"deleted"),
        _delete(8, key=b"back"),
        _put(9, key=b"back"),
    ]

    fold.apply(0, _rows(records))

    assert fold.expired(49, 10) == []
    assert fold.expired(50, 10) == [b"ends"]
    assert fold.expired(90, 10) == [b"ends", b"later"]
    assert fold.expired(90, 1) == [b"ends"]
    assert [marker.key for marker in fold.markers(100, 10)] == [b"deleted"]
    assert fold.markers(6, 10) == []


@pytest.mark.parametrize("seed", range(5))
def test_hot_and_warm_keys_are_counted_to_the_byte(seed):
    shop = Shop(ram_bytes=40_000)
    fold = shop.fold()
    draw = random.Random(seed)
    for record in _history(seed, 600):
        fold.apply(0, _rows([record]))
        fold.find(draw.choice(KEYS))

    fold.find_many(KEYS)

    assert fold._hot_ram == _ram(fold.hot)
    assert fold._warm_ram == _ram(fold._warm)
    assert not fold.hot.keys() & fold._warm.keys()
    assert fold._changed <= fold.hot.keys()


def _ram(slots) -> int:
    """Objects of the slots, with numbers that every program has counted as well."""
    return sum(
        sys.getsizeof(slot)
        + sys.getsizeof(key)
        + sys.getsizeof(slot.older)
        + sys.getsizeof(slot.value or b"")
        + 3 * sys.getsizeof(2**40)
        for key, slot in slots.items()
    )


def test_memory_stays_within_what_is_allowed_and_is_charged():
    shop = Shop(ram_bytes=200_000)
    fold = shop.fold()
    value = b"v" * 100
    most = 0

    for first in range(0, 20_000, 500):
        seqs = range(first + 1, first + 501)
        fold.apply(0, _rows([_put(seq, key=b"%06d" % seq, data=value) for seq in seqs]))
        most = max(most, shop.share.used)

    assert most < 2 * 200_000
    assert shop.share.used > 50_000
    assert fold.find(b"%06d" % 7).value == value


def test_shrinking_gives_memory_back_and_loses_nothing():
    shop = Shop(ram_bytes=4 << 20)
    fold = shop.fold()
    keys = [b"%06d" % number for number in range(2000)]
    fold.apply(0, _rows([_put(seq + 1, key=key, data=b"v" * 50) for seq, key in enumerate(keys)]))
    fold._count()
    before = shop.share.used
    live = fold.digest()

    first = fold.shrink(1)
    second = fold.shrink(1 << 30)

    assert first >= 0
    assert second > 0
    assert shop.share.used == before - first - second
    assert fold.hot == {}
    assert fold.digest() == live
    assert [slot.version for slot in fold.find_many(keys)] == list(range(1, 2001))


def test_a_fold_that_is_dropped_gives_its_memory_back():
    shop = Shop()
    fold = shop.fold()
    fold.apply(0, _rows([_put(seq, key=b"%06d" % seq) for seq in range(1, 1000)]))
    fold._count()
    used = shop.share.used

    del fold
    gc.collect()

    assert used > 100_000
    assert shop.share.used == 0


def test_the_digest_is_of_keys_that_have_a_value_only():
    one, other = Shop().fold(), Shop().fold()

    one.apply(0, _rows([_put(1, key=b"a"), _put(2, key=b"gone"), _delete(3, key=b"gone")]))
    other.apply(0, _rows([_put(1, key=b"a")]))

    assert one.digest() == other.digest()


@pytest.mark.parametrize(
    "other",
    [
        {"data": b"w"},
        {"key": b"l"},
        {"ts": 11},
        {"seq": 2},
        {"expires_us": 7},
    ],
)
def test_the_digest_tells_any_difference(other):
    one, two = Shop().fold(), Shop().fold()
    one.apply(0, _rows([_put(1)]))
    two.apply(0, _rows([_put(**({"seq": 1} | other))]))

    assert one.digest() != two.digest()


def test_the_digest_tells_versions_apart():
    one, two = Shop().fold(), Shop().fold()
    one.apply(0, _rows([_put(1), _put(3)]))
    two.apply(0, _rows([_put(2), _put(3)]))

    assert one.digest() != two.digest()


def _put(seq, *, key=b"k", data=b"v", ts=10, expires_us=0) -> Record:
    return Record(seq=seq, ts=ts, data=data, key=key, meta=meta_codec.expiry_meta(expires_us))


def _delete(seq, *, key=b"k") -> Record:
    return Record(seq=seq, ts=seq * 10, data=b"", key=key, meta=meta_codec.DELETED)


def _forgotten(seq, *, through) -> Record:
    return Record(
        seq=seq, ts=10, data=b"", meta=meta_codec.encode(meta_codec.ForgottenMeta(through))
    )
