"""Promise: a put is seen at once and returns its version; conditions hold or nothing is written;
a plain append with a key is a put."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from strandline.errors import Conflict, Invalid, NotFound, TooLarge
from strandline.views.kv import meta_codec
from strandline.views.kv.key_state import INLINE_BYTES_MAX
from tests.unit.views.kv.world import NAME, World, host_of, kv_of, save


def test_a_put_is_seen_at_once_and_its_version_is_its_seq():
    kv = kv_of(World().store)

    versions = [kv.put("ada", b"1"), kv.put(b"bob", b"2"), kv.put("ada", b"3")]

    assert versions == [1, 2, 3]
    assert (kv.get("ada"), kv.get(b"ada"), kv.get("bob")) == (b"3", b"3", b"2")
    assert kv.get("eve") is None


def test_an_entry_has_key_value_version_and_times():
    world = World()
    kv = kv_of(world.store)
    kv.put("ada", b"1", ttl=2.5)

    entry = kv.entry("ada")

    now_us = world.clock.now_us()
    assert entry is not None
    assert (entry.key, entry.value, entry.version) == (b"ada", b"1", 1)
    assert (entry.ts, entry.expires_us) == (now_us, now_us + 2_500_000)
    assert kv.entry("eve") is None


def test_an_empty_value_is_a_value():
    kv = kv_of(World().store)

    kv.put("ada", b"")

    assert (kv.get("ada"), kv.exists("ada"), kv.mget(["ada"])) == (b"", True, [b""])
    assert [entry.key for entry in kv.scan()] == [b"ada"]


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    ("conditions", "wants"),
    [
        ({}, None),
        ({"nx": True}, False),
        ({"xx": True}, True),
        ({"version": 0}, False),
        ({"version": 1}, True),
        ({"version": 2}, "never"),
    ],
)
def test_a_put_is_done_when_its_condition_holds_and_refused_otherwise(there, conditions, wants):
    kv = kv_of(World().store)
    if there:
        kv.put("ada", b"old")

    if wants in (None, there):
        version = kv.put("ada", b"new", **conditions)
        assert kv.get("ada") == b"new"
        assert kv.entry("ada").version == version == 1 + there
    else:
        with pytest.raises(Conflict, match="ada"):
            kv.put("ada", b"new", **conditions)
        assert kv.get("ada") == (b"old" if there else None)
        assert kv.head == there


@pytest.mark.parametrize("gone", ["deleted", "expired"])
def test_a_key_that_is_gone_counts_as_absent(gone):
    world = World()
    kv = kv_of(world.store)
    version = kv.put("ada", b"1", ttl=1)
    if gone == "deleted":
        kv.delete("ada")
    world.clock.advance(1)

    with pytest.raises(Conflict):
        kv.put("ada", b"2", xx=True)
    with pytest.raises(Conflict):
        kv.put("ada", b"2", version=version)

    assert kv.put("ada", b"2", version=0) > version


def test_a_delete_tells_whether_the_key_was_there():
    kv = kv_of(World().store)
    kv.put("ada", b"1")

    told = [kv.delete("ada"), kv.delete("ada"), kv.delete("eve")]

    assert told == [True, False, False]
    assert kv.get("ada") is None
    assert kv.head == 2  # what changes nothing is not on the log


def test_a_delete_with_a_version_wants_that_version():
    kv = kv_of(World().store)
    first = kv.put("ada", b"1")
    second = kv.put("ada", b"2")

    with pytest.raises(Conflict):
        kv.delete("ada", version=first)
    assert kv.get("ada") == b"2"

    assert kv.delete("ada", version=second)


def test_many_keys_are_looked_up_in_the_order_asked():
    kv = kv_of(World().store)
    kv.put("b", b"2")
    kv.put("a", b"1")
    kv.put("c", b"3")
    kv.delete("c")

    assert kv.mget(["b", "x", "a", "b", "c"]) == [b"2", None, b"1", b"2", None]


def test_a_plain_append_with_a_key_is_a_put_whatever_its_meta():
    store = World().store
    kv = kv_of(store)
    topic = store.topic(NAME)

    topic.append(b"1", key="ada")
    topic.append(b"2", key="bob", meta=b"something of my own")
    topic.append(b"3", key="eve", meta=meta_codec.MARK + b"but not readable")
    topic.append(b"4", key="joe", meta=meta_codec.encode(meta_codec.ExpiryMeta(-5)))
    topic.append(b"not for the view")
    topic.append(b"nor this", key=b"")

    assert kv.mget(["ada", "bob", "eve", "joe"]) == [b"1", b"2", b"3", b"4"]
    assert [entry.key for entry in kv.scan()] == [b"ada", b"bob", b"eve", b"joe"]


def test_keys_of_records_from_before_the_view_are_in_it():
    store = World().store
    store.topic(NAME).append_many([b"1", b"2", b"3"], keys=[b"a", b"b", b"a"])

    kv = kv_of(store)

    assert (kv.get("a"), kv.get("b")) == (b"3", b"2")


def test_a_large_value_is_read_from_the_log_also_after_a_save():
    world = World()
    kv = kv_of(world.store)
    large = bytes(range(256)) * (INLINE_BYTES_MAX // 256) + b"!"

    kv.put("large", large)
    kv.put("small", b"s")
    first = (kv.get("large"), kv.mget(["large", "small"]), kv.entry("large").value)
    world.store.checkpoint()
    world.reopen()
    kv = kv_of(world.store)

    assert first == (large, [large, b"s"], large)
    assert [entry.value for entry in kv.scan()] == [large, b"s"]
    assert kv.history("large")[0].value == large
    with kv.transaction() as work:
        assert work.get("large") == large
    live = host_of(world.store).fold
    assert live.find(b"large").value is None


@pytest.mark.parametrize(
    ("key", "error"),
    [("", Invalid), (b"", Invalid), (7, Invalid), (None, Invalid), ("k" * 4097, TooLarge)],
)
def test_what_cannot_be_a_key_is_refused(key, error):
    kv = kv_of(World().store)

    for use in (
        kv.get,
        kv.entry,
        kv.delete,
        kv.history,
        kv.incr,
        kv.exists,
        lambda key: kv.put(key, b""),
        lambda key: kv.mget([key]),
    ):
        with pytest.raises(error):
            use(key)
    assert kv.head == 0


@pytest.mark.parametrize(
    "options",
    [
        {"nx": True, "xx": True},
        {"nx": True, "version": 1},
        {"xx": True, "version": 0},
        {"version": -1},
        {"version": True},
        {"version": "1"},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": True},
        {"ttl": float("nan")},
        {"ttl": float("inf")},
        {"ttl": 1e300},
        {"ttl": "1"},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    kv = kv_of(World().store)

    with pytest.raises(Invalid):
        kv.put("ada", b"1", **options)

    assert kv.head == 0


@pytest.mark.parametrize("value", ["text", bytearray(b"x"), None, 5])
def test_a_value_is_bytes(value):
    kv = kv_of(World().store)

    with pytest.raises(Invalid):
        kv.put("ada", value)
    with pytest.raises(Invalid):
        kv.put("ada", value, nx=True)

    assert kv.head == 0


@pytest.mark.parametrize("history", [0, 1001, -1])
def test_a_history_that_cannot_be_is_refused(history):
    with pytest.raises(Invalid, match="history"):
        kv_of(World().store, history=history)


def test_keys_survive_reopening_and_a_kill():
    world = World()
    kv = kv_of(world.store)
    kv.put("saved", b"1")
    save(world.store)
    kv.put("not saved", b"2")

    world.kill()
    first = kv_of(world.store).mget(["saved", "not saved"])
    world.reopen()

    assert first == [b"1", b"2"]
    assert kv_of(world.store).mget(["saved", "not saved"]) == [b"1", b"2"]


def test_a_read_only_store_shows_the_keys():
    world = World()
    kv_of(world.store).put("ada", b"1")
    world.store.close()
    with world.open(readonly=True) as reader:
        kv = kv_of(reader)

        found = (kv.get("ada"), [entry.value for entry in kv.scan()], kv.get("eve"))

    assert found == (b"1", [b"1"], None)


def test_a_plain_append_is_seen_over_a_key_at_hand():
    store = World().store
    kv = kv_of(store)
    kv.put("ada", b"1")
    at_hand = kv.get("ada")

    store.topic(NAME).append(b"2", key="ada")

    assert (at_hand, kv.get("ada")) == (b"1", b"2")


def test_a_large_value_that_was_lost_is_told_and_not_waited_for():
    world = World()
    kv = kv_of(world.store)
    version = kv.put("large", bytes(INLINE_BYTES_MAX + 1))
    world.store.topic(NAME).trim(BitMap64([version]), before=0)

    for read in (
        lambda: kv.get("large"),
        lambda: kv.mget(["large"]),
        lambda: list(kv.scan()),
        lambda: kv.json_set("large", "$", 1),
        lambda: kv.transaction().get("large"),
    ):
        with pytest.raises(NotFound, match="lost"):
            read()
