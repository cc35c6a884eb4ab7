"""Promise: a key ends when its time is over by the clock, not before, and reads never show it."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from tests.unit.views.kv.world import World, digest, kv_of, rebuilt_digest


def test_a_key_is_there_until_its_time_is_over():
    world = World()
    kv = kv_of(world.store)
    kv.put("ada", b"1", ttl=10)

    world.clock.advance(9.999999)
    before = kv.get("ada")
    world.clock.advance(0.000001)

    assert before == b"1"
    assert kv.get("ada") is None


def test_no_way_of_reading_shows_a_key_whose_time_is_over():
    world = World()
    kv = kv_of(world.store)
    kv.put("ada", b"1", ttl=1)
    kv.put("bob", b"2")
    world.clock.advance(1)

    assert kv.entry("ada") is None
    assert not kv.exists("ada")
    assert kv.mget(["ada", "bob"]) == [None, b"2"]
    assert [entry.key for entry in kv.scan()] == [b"bob"]
    assert kv.json_get("ada", "$", default="none") == "none"
    assert kv.wait_for("ada", timeout_s=0) is None
    with kv.transaction() as work:
        assert work.get("ada") is None


def test_overwriting_takes_the_end_away_unless_a_new_one_is_given():
    world = World()
    kv = kv_of(world.store)
    kv.put("ada", b"1", ttl=1)
    kv.put("bob", b"1", ttl=1)

    kv.put("ada", b"2")
    kv.put("bob", b"2", ttl=100)
    world.clock.advance(50)

    assert (kv.get("ada"), kv.get("bob")) == (b"2", b"2")
    assert kv.entry("ada").expires_us is None


def test_touch_moves_the_end_and_persist_takes_it_away():
    world = World()
    kv = kv_of(world.store)
    for key in ("ada", "bob", "eve"):
        kv.put(key, b"1", ttl=10)

    touched, persisted = kv.touch("ada", 100), kv.persist("bob")
    world.clock.advance(50)

    assert kv.mget(["ada", "bob", "eve"]) == [b"1", b"1", None]
    assert (kv.entry("ada").version, kv.entry("bob").version) == (touched, persisted) == (4, 5)


def test_touch_and_persist_of_what_is_not_there_write_nothing():
    world = World()
    kv = kv_of(world.store)
    kv.put("ada", b"1", ttl=1)
    world.clock.advance(1)

    told = [kv.touch("ada", 5), kv.persist("ada"), kv.touch("eve", 5), kv.persist("eve")]

    assert told == [0, 0, 0, 0]
    assert kv.head == 1


def test_persisting_what_stays_anyway_writes_nothing():
    kv = kv_of(World().store)
    version = kv.put("ada", b"1")

    assert kv.persist("ada") == version
    assert kv.head == version


def test_touch_wants_a_time():
    kv = kv_of(World().store)

    with pytest.raises(Invalid):
        kv.touch("ada", None)
    with pytest.raises(Invalid):
        kv.touch("ada", 0)


def test_a_count_and_a_document_keep_their_end():
    world = World()
    kv = kv_of(world.store)
    kv.put("n", b"1", ttl=10)
    kv.put("doc", b"{}", ttl=10)

    kv.incr("n")
    kv.json_set("doc", "$.a", 1)

    end = world.clock.now_us() + 10_000_000
    assert (kv.entry("n").expires_us, kv.entry("doc").expires_us) == (end, end)


def test_a_clock_that_is_set_back_brings_a_key_back_until_it_is_compacted():
    world = World()
    kv = kv_of(world.store)
    kv.put("ada", b"1", ttl=10)
    kv.put("bob", b"1", ttl=10)
    world.clock.advance(11)
    gone = kv.mget(["ada", "bob"])

    world.clock.jump_wall(-5)
    back = kv.mget(["ada", "bob"])
    world.clock.jump_wall(5)
    kv.compact()
    world.clock.jump_wall(-5)

    assert gone == [None, None]
    assert back == [b"1", b"1"]
    assert kv.mget(["ada", "bob"]) == [None, None]


def test_the_end_is_the_same_when_the_log_is_folded_again():
    world = World()
    kv = kv_of(world.store)
    kv.put("ada", b"1", ttl=10)
    kv.touch("ada", 20)
    live = digest(world.store)
    world.clock.advance(30)

    assert rebuilt_digest(world.store) == live
    assert kv.get("ada") is None
