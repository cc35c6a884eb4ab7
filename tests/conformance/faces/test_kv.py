"""Promise: a key-value view of a server takes, gives and refuses what one of an open store does."""

from __future__ import annotations

import pytest

from strandline import Conflict, Delete, Invalid, NotFound, Put, StrandlineError, TooLarge
from strandline.views.kv.values import Change, Entry, Version

VALUES = [b"", b"\0\xff", b'{"a": 1.50}', b"[" * 100 + b"]" * 100, b" x ", "ä".encode()]


@pytest.fixture
def kv(store, name):
    return store.kv(name)


@pytest.mark.parametrize("value", VALUES)
def test_a_value_comes_back_as_it_is(kv, value):
    version = kv.put(b"\xff/?%", value)

    entry = kv.entry(b"\xff/?%")

    assert isinstance(entry, Entry)
    assert (entry.key, entry.value, entry.version) == (b"\xff/?%", value, version)
    assert entry.expires_us is None
    assert kv.get(b"\xff/?%") == value


def test_text_and_bytes_are_the_same_key(kv):
    kv.put("ada", b"1")

    assert kv.get(b"ada") == b"1"
    assert kv.exists("ada")
    assert not kv.exists("bob")
    assert kv.get("bob") is None
    assert kv.entry("bob") is None


def test_versions_rise_and_the_head_is_the_last(kv):
    first, second = kv.put("a", b"1"), kv.put("b", b"2")

    assert first < second == kv.head


def test_many_keys_at_once(kv):
    versions = kv.put_many({"a": b"1", b"b": b"2"})

    assert len(versions) == 2
    assert kv.mget(["b", "nobody", b"a"]) == [b"2", None, b"1"]
    assert kv.put_many({}) == []
    assert kv.mget([]) == []


def test_conditions_of_a_put(kv):
    version = kv.put("a", b"1", nx=True)

    with pytest.raises(Conflict):
        kv.put("a", b"2", nx=True)
    with pytest.raises(Conflict):
        kv.put("b", b"2", xx=True)
    with pytest.raises(Conflict):
        kv.put("a", b"2", version=version + 100)
    with pytest.raises(Conflict):
        kv.put("a", b"2", version=0)
    assert kv.put("a", b"2", version=version) > version
    assert kv.put("a", b"3", xx=True)
    assert kv.get("a") == b"3"


def test_a_key_is_deleted_once(kv):
    version = kv.put("a", b"1")

    with pytest.raises(Conflict):
        kv.delete("a", version=version + 1)
    assert kv.delete("a", version=version) is True
    assert kv.delete("a") is False
    assert kv.get("a") is None


def test_a_counter_counts(kv):
    assert kv.incr("n") == 1
    assert kv.incr("n", 5) == 6
    assert kv.incr("n", -7) == -1
    kv.put("t", b"text")
    with pytest.raises(Conflict):
        kv.incr("t")


def test_keys_end_and_stay(kv):
    kv.put("a", b"1", ttl=1000)
    ends = kv.entry("a").expires_us

    assert ends is not None
    version = kv.persist("a")
    assert version > 0
    assert kv.entry("a").expires_us is None
    assert kv.touch("a", 2000) > version
    assert kv.entry("a").expires_us > ends
    assert kv.touch("nobody", 10) == 0
    assert kv.persist("nobody") == 0
    kv.put_many({"m": b"1"}, ttl=1000)
    assert kv.entry("m").expires_us is not None


def test_documents_are_changed_in_place(kv):
    kv.json_set("d", "$", {"a": [1, {"b": None}], "f": 1.5, "big": 2**60})

    assert kv.json_get("d") == {"a": [1, {"b": None}], "f": 1.5, "big": 2**60}
    assert kv.json_get("d", "$.a[1]") == {"b": None}
    assert kv.json_get("d", "$.a[1].b", default="x") is None
    assert kv.json_get("d", "$.zz", default="x") == "x"
    assert kv.json_get("nobody", default=7) == 7
    assert kv.json_set("d", "$.a[0]", "ä") > 0
    assert kv.json_delete("d", "$.f") is True
    assert kv.json_delete("d", "$.f") is False
    assert kv.json_get("d", "$.a[0]") == "ä"


def test_a_batch_is_done_whole_or_not_at_all(kv):
    first = kv.batch([Put("a", b"1"), Put("b", b"2", ttl=1000), Delete("nobody"), Put("a", b"3")])

    assert first[2] == 0
    assert first[0] == first[3]
    with pytest.raises(Conflict):
        kv.batch([Put("c", b"1"), Put("a", b"4", nx=True)])
    assert kv.get("c") is None
    assert kv.get("a") == b"3"
    assert kv.batch([]) == []


def test_the_past_of_a_key_is_kept(kv):
    first = kv.put("a", b"1")
    second = kv.put("a", b"2")
    kv.delete("a")

    past = kv.history("a")

    assert all(isinstance(each, Version) for each in past)
    assert [each.value for each in past] == [None, b"2", b"1"]
    assert [each.deleted for each in past] == [True, False, False]
    assert [each.version for each in past][1:] == [second, first]
    assert kv.history("nobody") == []
    assert kv.entry_at("a", version=first).value == b"1"
    assert kv.entry_at("a", ts=past[1].ts).value == b"2"
    assert kv.entry_at("a", version=kv.head) is None


def test_the_past_beyond_the_history_is_not_found(store, name):
    kv = store.kv(name, history=1)
    first = kv.put("a", b"1")
    kv.put("a", b"2")

    with pytest.raises(NotFound):
        kv.entry_at("a", version=first)


@pytest.fixture
def many(kv):
    kv.put_many({f"k{number:04}": b"%d" % number for number in range(500)})
    kv.put(b"\xff\xff", b"last")
    return kv


def test_a_scan_is_in_order_and_complete(many):
    entries = list(many.scan())

    assert [entry.key for entry in entries[:2]] == [b"k0000", b"k0001"]
    assert len(entries) == 501
    assert entries[-1].key == b"\xff\xff"
    assert isinstance(entries[0], Entry)


@pytest.mark.parametrize(
    ("said", "keys"),
    [
        ({"prefix": "k001"}, [b"k%04d" % number for number in range(10, 20)]),
        ({"prefix": b"\xff"}, [b"\xff\xff"]),
        ({"prefix": ""}, None),
        ({"first": "k0498"}, [b"k0498", b"k0499", b"\xff\xff"]),
        ({"next": "k0002"}, [b"k0000", b"k0001"]),
        ({"next": b""}, []),
        ({"after": "k0499"}, [b"\xff\xff"]),
        ({"limit": 2}, [b"k0000", b"k0001"]),
        ({"limit": 0}, []),
        ({"limit": 2, "reverse": True}, [b"\xff\xff", b"k0499"]),
        ({"after": "k0001", "reverse": True}, [b"k0000"]),
        ({"prefix": "k04", "after": "k0401", "limit": 1}, [b"k0402"]),
        ({"first": "k0001", "next": "k0003", "reverse": True}, [b"k0002", b"k0001"]),
    ],
)
def test_a_scan_of_a_part(many, said, keys):
    found = [entry.key for entry in many.scan(**said)]

    assert found == (keys if keys is not None else [entry.key for entry in many.scan()])


def test_a_watcher_sees_changes_of_what_it_watches(kv):
    begun = kv.head
    kv.put("a", b"1")
    kv.put("b/1", b"2", ttl=1000)
    kv.delete("a")

    everything = list(kv.watch(after=begun, timeout_s=0))
    of_key = list(kv.watch("a", after=begun, timeout_s=0))
    of_prefix = list(kv.watch(prefix="b/", after=begun, timeout_s=0))

    assert all(isinstance(change, Change) for change in everything)
    assert [(each.key, each.value) for each in everything] == [
        (b"a", b"1"),
        (b"b/1", b"2"),
        (b"a", None),
    ]
    assert [change.deleted for change in of_key] == [False, True]
    assert [change.expires_us is not None for change in of_prefix] == [True]
    assert list(kv.watch(after=of_key[-1].version, timeout_s=0)) == []


def test_a_watcher_waits_for_what_comes(kv):
    begun = kv.head
    changes = kv.watch("a", after=begun, timeout_s=30)
    kv.put("b", b"0")
    kv.put("a", b"1")

    change = next(changes)

    assert (change.key, change.value) == (b"a", b"1")
    changes.close()


def test_waiting_for_a_key(kv):
    version = kv.put("a", b"1")

    assert kv.wait_for("a").value == b"1"
    assert kv.wait_for("a", after=version, timeout_s=0) is None
    assert kv.wait_for("b", timeout_s=0.01) is None


def test_a_transaction_writes_everything_at_once(kv):
    kv.put("a", b"1")

    with kv.transaction() as work:
        assert work.get("a") == b"1"
        assert not work.exists("b")
        work.put("b", b"2", ttl=1000)
        work.put("c", b"3", nx=True)
        assert work.incr("n", 4) == 4
        assert work.delete("a") is True
        assert work.delete("zz") is False
        assert work.get("a") is None
        assert work.get("b") == b"2"
        work.json_set("d", "$", {"x": [1]})
        assert work.json_get("d", "$.x[0]") == 1
        assert work.json_delete("d", "$.x") is True
        assert work.touch("c", 500) is True
        assert work.persist("c") is True
        assert kv.get("b") is None

    assert kv.mget(["a", "b", "c", "n"]) == [None, b"2", b"3", b"4"]
    assert kv.entry("b").expires_us is not None
    assert kv.entry("c").expires_us is None
    assert kv.json_get("d") == {}


def test_a_transaction_whose_reads_have_changed_writes_nothing(kv):
    kv.put("a", b"1")

    work = kv.transaction()
    work.get("a")
    work.put("b", b"2")
    kv.put("a", b"other")

    with pytest.raises(Conflict):
        work.commit()

    assert kv.get("b") is None


def test_a_transaction_that_fails_writes_nothing(kv):
    work = kv.transaction()

    def fail():
        with work:
            work.put("a", b"1")
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert kv.get("a") is None
    with pytest.raises(StrandlineError) as over:
        work.get("a")
    assert over.value.code == "closed"


def test_a_transaction_keeps_the_end_of_a_key_that_it_changes(kv):
    kv.put("n", b"1", ttl=1000)
    ends = kv.entry("n").expires_us

    with kv.transaction() as work:
        work.incr("n")

    assert kv.entry("n").value == b"2"
    assert kv.entry("n").expires_us == ends


def test_a_transaction_can_be_committed_and_rolled_back_by_hand(kv):
    work = kv.transaction()
    work.put("a", b"1")
    version = work.commit()
    other = kv.transaction()
    other.put("b", b"1")
    other.rollback()
    other.rollback()

    assert version == kv.entry("a").version
    assert kv.get("b") is None
    assert kv.transaction().commit() == 0


def test_compaction_tells_what_it_did(kv):
    kv.put("a", b"1")

    done = kv.compact()

    assert (done.expired, done.forgotten) == (0, 0)


REFUSED = {
    "empty key": (Invalid, lambda kv: kv.get("")),
    "key is a number": (Invalid, lambda kv: kv.put(5, b"")),
    "long key": (TooLarge, lambda kv: kv.put("k" * 4097, b"")),
    "value is text": (Invalid, lambda kv: kv.put("a", "text")),
    "nx and xx": (Invalid, lambda kv: kv.put("a", b"", nx=True, xx=True)),
    "nx and version": (Invalid, lambda kv: kv.put("a", b"", nx=True, version=1)),
    "version below 0": (Invalid, lambda kv: kv.put("a", b"", version=-1)),
    "ttl 0": (Invalid, lambda kv: kv.put("a", b"", ttl=0)),
    "ttl as text": (Invalid, lambda kv: kv.put("a", b"", ttl="1")),
    "ttl for ages": (Invalid, lambda kv: kv.put("a", b"", ttl=1e30)),
    "touch without an end": (Invalid, lambda kv: kv.touch("a", None)),
    "both of when": (Invalid, lambda kv: kv.entry_at("a", version=1, ts=1)),
    "none of when": (Invalid, lambda kv: kv.entry_at("a")),
    "prefix and range": (Invalid, lambda kv: kv.scan("a", first="b")),
    "limit below 0": (Invalid, lambda kv: kv.scan(limit=-1)),
    "limit as text": (Invalid, lambda kv: kv.scan(limit="1")),
    "key and prefix": (Invalid, lambda kv: kv.watch("a", prefix="b")),
    "bad path": (Invalid, lambda kv: kv.json_set("a", "nonsense[", 1)),
    "no document": (Conflict, lambda kv: (kv.put("t", b"\xff"), kv.json_get("t"))),
    "no JSON": (Invalid, lambda kv: kv.json_set("a", "$", {1, 2}.__iter__)),
    "delta as text": (Invalid, lambda kv: kv.incr("a", "1")),
    "delta too large": (Conflict, lambda kv: kv.incr("a", 2**70)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_alike(kv, what):
    kind, verb = REFUSED[what]

    with pytest.raises(StrandlineError) as refused:
        verb(kv)

    assert refused.type is kind


def test_options_are_those_it_was_made_with(store, name):
    store.kv(name, history=3, durability="fsync")

    assert store.existing_topic(name).config.views.kv.history == 3
    assert store.existing_topic(name).config.durability == "fsync"
    assert store.kv(name).name == name
    with pytest.raises(Invalid):
        store.kv(name, history=4)
    with pytest.raises(Invalid):
        store.kv(name, colour="red")
