"""Promise: a view takes the memory that it is given and no more; under pressure it drops what it
can read again, and answers the same."""

from __future__ import annotations

import pytest

from strandline.config.settings import MIB, LimitSettings, ViewSettings
from strandline.errors import MemoryPressure, TooLarge
from strandline.views.view import ViewAppend
from tests.unit.views.kv.world import World, digest, host_of, kv_of, rebuilt_digest

SMALL = ViewSettings(memory_bytes=8 * MIB)


def test_ten_times_the_budget_can_be_written_and_read():
    world = World(views=SMALL)
    kv = kv_of(world.store)
    host = host_of(world.store)
    share = host.world.share
    value = b"v" * 2000
    most = 0

    for first in range(0, 20_000, 200):
        keys = [b"%06d" % number for number in range(first, first + 200)]
        host.append(ViewAppend(0, [value] * 200, keys))
        most = max(most, share.used)

    assert share.limit == 3 * MIB
    assert most <= share.limit
    assert all(kv.get(b"%06d" % number) == value for number in range(0, 20_000, 997))
    assert sum(1 for _ in kv.scan()) == 20_000


def test_an_evictor_frees_memory_and_the_view_answers_the_same():
    world = World()
    kv = kv_of(world.store)
    for number in range(2000):
        kv.put(b"%06d" % number, b"v" * 100)
    host = host_of(world.store)
    host.fold._count()
    live, used = digest(world.store), host.world.share.used

    host.world.share._evict_until(0, headroom=0)

    assert host.world.share.used < 0.6 * used  # the rest is pages of the maps
    assert (kv.get(b"000007"), digest(world.store)) == (b"v" * 100, live)
    assert rebuilt_digest(world.store) == live


def test_a_value_that_can_never_fit_is_refused_before_it_is_on_the_log():
    world = World(views=SMALL, limits=LimitSettings(record_bytes_max=64 * MIB))
    kv = kv_of(world.store)
    huge = bytes(9 * MIB)

    with pytest.raises(TooLarge):
        kv.put("huge", huge)
    with pytest.raises(TooLarge):
        kv.put("huge", huge, nx=True)
    with pytest.raises(TooLarge), kv.transaction() as work:
        work.put("huge", huge)

    assert kv.head == 0


def test_who_cannot_have_memory_now_is_told_to_come_later():
    world = World(views=SMALL)
    kv = kv_of(world.store)
    share = host_of(world.store).world.share
    share.charge(share.limit + share._reserve.limit)

    with pytest.raises(MemoryPressure):
        kv.put("ada", b"1")

    share.release(share.limit + share._reserve.limit)
    assert kv.put("ada", b"1") == 1
