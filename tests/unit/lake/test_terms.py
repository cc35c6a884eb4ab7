"""Promise (O6): a lake belongs to one store, and of its openings only the newest writes."""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt, Fenced, Invalid, NewerFormat, Unreachable
from strandline.lake import keys, names, terms
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import SimObjects
from tests.unit.lake.histories import STORE_ID

OTHER_ID = bytes(16)


def opened(objects: SimObjects, attempt: int) -> int:
    return terms.open_term(objects, STORE_ID, SimClock(), attempt=bytes([attempt]) * 16)


def test_the_first_store_gets_the_lake_and_keeps_it():
    objects = SimObjects()

    terms.check_identity(objects, STORE_ID, SimClock())
    terms.check_identity(objects, STORE_ID, SimClock(wall_us=5))

    assert terms.identity_of(objects) == STORE_ID
    with pytest.raises(Invalid, match=STORE_ID.hex()):
        terms.check_identity(objects, OTHER_ID, SimClock())


def test_of_two_stores_that_come_at_once_one_gets_the_lake():
    objects = SimObjects()
    rivals = [lambda: terms.check_identity(objects, OTHER_ID, SimClock())]
    objects.on_call = lambda operation, _: (
        rivals.pop()() if operation == "create" and rivals else None
    )

    with pytest.raises(Invalid, match=OTHER_ID.hex()):
        terms.check_identity(objects, STORE_ID, SimClock())

    assert terms.identity_of(objects) == OTHER_ID


def test_a_lost_reply_does_not_cost_the_lake():
    objects = SimObjects()
    objects.fail("create", how="after")

    with pytest.raises(Unreachable):
        terms.check_identity(objects, STORE_ID, SimClock())
    terms.check_identity(objects, STORE_ID, SimClock(wall_us=5))

    assert terms.identity_of(objects) == STORE_ID


def test_a_damaged_identity_is_not_taken_for_another_stores():
    objects = SimObjects()
    terms.check_identity(objects, STORE_ID, SimClock())
    data = objects.get(keys.STORE)

    for damaged in (data.replace(b"000102", b"000103"), data[:-1], b"", data + b" ", b"[]"):
        objects.put(keys.STORE, damaged)
        with pytest.raises(Corrupt):
            terms.check_identity(objects, STORE_ID, SimClock())


def test_a_newer_lake_asks_for_an_upgrade(monkeypatch):
    objects = SimObjects()
    monkeypatch.setattr(terms, "FORMAT", 2)
    terms.check_identity(objects, STORE_ID, SimClock())
    monkeypatch.undo()

    with pytest.raises(NewerFormat):
        terms.check_identity(objects, STORE_ID, SimClock())


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

    with pytest.raises(Unreachable):
        opened(objects, 1)

    assert opened(objects, 2) == 2


def test_only_the_newest_term_is_good():
    objects = SimObjects()
    old, new = opened(objects, 1), opened(objects, 2)

    terms.check_term(objects, new)
    with pytest.raises(Fenced, match="term 1 is over"):
        terms.check_term(objects, old)


def test_topics_are_found_by_name():
    objects = SimObjects()
    for name, topic_id in (("orders", 9), ("ørders/ /../", 3), ("orders", 4)):
        names.mark(objects, name, topic_id)
        names.mark(objects, name, topic_id)

    assert names.topics_named(objects, "orders") == [4, 9]
    assert names.topics_named(objects, "ørders/ /../") == [3]
    assert names.topics_named(objects, "nobody") == []
    assert names.is_marked(objects, "orders", 4)
    assert not names.is_marked(objects, "orders", 5)


def test_names_with_the_same_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(keys, "xxh3_64_hexdigest", lambda _: "0" * 16)
    objects = SimObjects()
    names.mark(objects, "orders", 4)
    names.mark(objects, "audit", 5)

    assert names.topics_named(objects, "orders") == [4]
    assert names.topics_named(objects, "audit") == [5]
