"""Promise (O6): a lake belongs to one store, and of its openings only the newest writes."""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt, Fenced, Invalid, ObjectStoreUnreachable, UnsupportedFormat
from strandline.lake import object_keys, topic_names
from strandline.lake.manifest import fencing
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import SimObjects
from tests.unit.lake.histories import STORE_ID

OTHER_ID = bytes(16)


def opened(objects: SimObjects, attempt: int) -> int:
    return fencing.open_term(objects, STORE_ID, SimClock(), attempt=bytes([attempt]) * 16)


def test_the_first_store_gets_the_lake_and_keeps_it():
    objects = SimObjects()

    fencing.claim_lake(objects, STORE_ID, SimClock())
    fencing.claim_lake(objects, STORE_ID, SimClock(wall_us=5))

    assert fencing.identity_of(objects) == STORE_ID
    with pytest.raises(Invalid, match=STORE_ID.hex()):
        fencing.claim_lake(objects, OTHER_ID, SimClock())


def test_of_two_stores_that_come_at_once_one_gets_the_lake():
    objects = SimObjects()
    rivals = [lambda: fencing.claim_lake(objects, OTHER_ID, SimClock())]
    objects.on_call = lambda operation, _: (
        rivals.pop()() if operation == "create" and rivals else None
    )

    with pytest.raises(Invalid, match=OTHER_ID.hex()):
        fencing.claim_lake(objects, STORE_ID, SimClock())

    assert fencing.identity_of(objects) == OTHER_ID


def test_a_lost_reply_does_not_cost_the_lake():
    objects = SimObjects()
    objects.fail("create", how="after")

    with pytest.raises(ObjectStoreUnreachable):
        fencing.claim_lake(objects, STORE_ID, SimClock())
    fencing.claim_lake(objects, STORE_ID, SimClock(wall_us=5))

    assert fencing.identity_of(objects) == STORE_ID


def test_a_damaged_identity_is_not_taken_for_another_stores():
    objects = SimObjects()
    fencing.claim_lake(objects, STORE_ID, SimClock())
    data = objects.get(object_keys.STORE)

    for damaged in (data.replace(b"000102", b"000103"), data[:-1], b"", data + b" ", b"[]"):
        objects.put(object_keys.STORE, damaged)
        with pytest.raises(Corrupt):
            fencing.claim_lake(objects, STORE_ID, SimClock())


def test_a_newer_lake_asks_for_an_upgrade(monkeypatch):
    objects = SimObjects()
    monkeypatch.setattr(fencing, "FORMAT", 2)
    fencing.claim_lake(objects, STORE_ID, SimClock())
    monkeypatch.undo()

    with pytest.raises(UnsupportedFormat):
        fencing.claim_lake(objects, STORE_ID, SimClock())


def test_every_opening_takes_the_next_term():
    objects = SimObjects()

    taken = [opened(objects, attempt) for attempt in range(3)]

    assert taken == [1, 2, 3]


@pytest.mark.parametrize("lag", [1, 2, 100])
def test_a_lagging_list_gives_no_term_twice(lag):
    objects = SimObjects()
    taken = [opened(objects, attempt) for attempt in range(3)]
    objects.lagging_list = lag

    assert opened(objects, 9) not in taken


def test_a_lost_reply_leaves_the_term_ours():
    objects = SimObjects()
    objects.fail("create", how="after")

    with pytest.raises(ObjectStoreUnreachable):
        opened(objects, 1)

    assert opened(objects, 2) == 2


def test_only_the_newest_term_is_good():
    objects = SimObjects()
    old, new = opened(objects, 1), opened(objects, 2)

    fencing.check_term(objects, new)
    with pytest.raises(Fenced, match="term 1 is over"):
        fencing.check_term(objects, old)


def test_topics_are_found_by_name():
    objects = SimObjects()
    for name, topic_id in (("orders", 9), ("ørders/ /../", 3), ("orders", 4)):
        topic_names.create_marker(objects, name, topic_id)
        topic_names.create_marker(objects, name, topic_id)

    assert topic_names.topics_named(objects, "orders") == [4, 9]
    assert topic_names.topics_named(objects, "ørders/ /../") == [3]
    assert topic_names.topics_named(objects, "nobody") == []
    assert topic_names.has_marker(objects, "orders", 4)
    assert not topic_names.has_marker(objects, "orders", 5)


def test_names_with_the_same_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(object_keys, "xxh3_64_hexdigest", lambda _: "0" * 16)
    objects = SimObjects()
    topic_names.create_marker(objects, "orders", 4)
    topic_names.create_marker(objects, "audit", 5)

    assert topic_names.topics_named(objects, "orders") == [4]
    assert topic_names.topics_named(objects, "audit") == [5]
