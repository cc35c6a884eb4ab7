"""Promise: counters count and documents change in one step with everybody else's writes."""

from __future__ import annotations

import threading

import pytest

from strandline.errors import Conflict, Invalid, NotFound
from tests.unit.views.kv.world import NAME, World, kv_of

THREADS = 4
TIMES = 50


def test_a_counter_begins_at_nothing_and_is_text():
    kv = kv_of(World().store)

    numbers = [kv.incr("n"), kv.incr("n", 41), kv.incr("n", -50)]

    assert numbers == [1, 42, -8]
    assert kv.get("n") == b"-8"


@pytest.mark.parametrize("value", [b"", b"x", b"1.5", b" 1", b"01", b"+1", b"1\n", b"9" * 30])
def test_what_is_no_counter_is_a_conflict_and_stays(value):
    kv = kv_of(World().store)
    kv.put("n", value)

    with pytest.raises(Conflict, match="counter"):
        kv.incr("n")

    assert kv.get("n") == value


@pytest.mark.parametrize(("value", "delta"), [(b"%d" % (2**63 - 1), 1), (b"%d" % -(2**63), -1)])
def test_a_counter_does_not_leave_64_bits(value, delta):
    kv = kv_of(World().store)
    kv.put("n", value)

    with pytest.raises(Conflict, match="64 bits"):
        kv.incr("n", delta)

    assert kv.get("n") == value
    assert kv.incr("n", -delta) == int(value) - delta


@pytest.mark.parametrize("delta", [True, 1.0, "1", None])
def test_a_counter_takes_whole_numbers(delta):
    with pytest.raises(Invalid):
        kv_of(World().store).incr("n", delta)


def test_no_count_of_many_threads_is_lost():
    store = World().store
    kv = kv_of(store)
    topic = store.topic(NAME)

    def count() -> None:
        for _ in range(TIMES):
            kv.incr("n")
            topic.append(b"noise", key="other")

    threads = [threading.Thread(target=count) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert kv.get("n") == b"%d" % (THREADS * TIMES)


def test_places_of_a_document_are_read_set_and_deleted():
    kv = kv_of(World().store)

    kv.json_set("doc", "$", {"name": "ada", "tags": ["x"]})
    kv.json_set("doc", "$.tags[1]", "y")
    version = kv.json_set("doc", "$.born", {"year": 1815})
    deleted = [kv.json_delete("doc", "$.name"), kv.json_delete("doc", "$.name")]

    assert kv.get("doc") == b'{"tags":["x","y"],"born":{"year":1815}}'
    assert deleted == [True, False]
    assert kv.json_get("doc", "$.born.year") == 1815
    assert kv.json_get("doc", "$.tags[-1]") == "y"
    assert kv.json_get("doc", "$.nothing") is None
    assert kv.json_get("doc", "$.nothing", default=7) == 7
    assert kv.entry("doc").version == version + 1


def test_a_document_that_is_not_there_is_begun_with_its_root():
    kv = kv_of(World().store)

    with pytest.raises(NotFound):
        kv.json_set("doc", "$.a", 1)

    assert not kv.json_delete("doc", "$.a")
    assert kv.json_get("doc") is None
    assert kv.head == 0
    assert kv.json_set("doc", "$", [1]) == 1


def test_what_is_no_document_is_a_conflict_and_stays():
    kv = kv_of(World().store)
    kv.put("doc", b"{")

    for work in (
        lambda: kv.json_get("doc"),
        lambda: kv.json_set("doc", "$.a", 1),
        lambda: kv.json_delete("doc", "$.a"),
    ):
        with pytest.raises(Conflict, match="JSON"):
            work()

    assert kv.get("doc") == b"{"


def test_what_json_cannot_hold_is_refused():
    kv = kv_of(World().store)

    with pytest.raises(Invalid):
        kv.json_set("doc", "$", {1j: 2})

    assert kv.head == 0
