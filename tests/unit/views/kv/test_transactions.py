"""Promise: a batch and a transaction happen as a whole or not at all; a transaction that has read
what somebody changed meanwhile is a conflict."""

from __future__ import annotations

import threading

import pytest

from strandline.errors import Closed, Conflict, Invalid
from strandline.views.kv.conditions import KeyWrite
from strandline.views.kv.values import Delete, Put
from tests.unit.views.kv.world import NAME, World, kv_of

THREADS = 4
TIMES = 25


def test_a_batch_writes_all_its_keys_with_versions_in_order():
    kv = kv_of(World().store)
    kv.put("c", b"3")

    versions = kv.batch([Put("a", b"1"), Delete("c"), Delete("x"), Put("b", b"2", ttl=5)])

    assert versions == [2, 3, 0, 4]
    assert kv.mget(["a", "b", "c", "x"]) == [b"1", b"2", None, None]


def test_many_keys_are_put_at_once_with_versions_in_order():
    world = World()
    kv = kv_of(world.store)

    versions = [kv.put_many({"a": b"1", b"b": b"2"}), kv.put_many({"c": b"3"}, ttl=5)]
    before = kv.mget(["a", "b", "c"])
    world.clock.advance(5)

    assert versions == [[1, 2], [3]]
    assert before == [b"1", b"2", b"3"]
    assert kv.mget(["a", "b", "c"]) == [b"1", b"2", None]


def test_many_keys_of_which_one_is_wrong_are_not_put():
    kv = kv_of(World().store)

    for wrong in ({"a": b"1", "": b"2"}, {"a": b"1", "b": "text"}):
        with pytest.raises(Invalid):
            kv.put_many(wrong)

    assert kv.put_many({}) == []
    assert kv.head == 0


def test_a_batch_with_one_condition_that_fails_writes_nothing():
    kv = kv_of(World().store)
    kv.put("c", b"3")

    for condition in (Put("c", b"", nx=True), Put("d", b"", xx=True), Delete("c", version=9)):
        with pytest.raises(Conflict):
            kv.batch([Put("a", b"1"), condition, Delete("c")])

    assert kv.mget(["a", "c"]) == [None, b"3"]
    assert kv.head == 1


def test_conditions_of_a_batch_see_what_it_did_before_them():
    kv = kv_of(World().store)

    versions = kv.batch([Put("a", b"1", nx=True), Put("a", b"2", xx=True), Delete("b")])

    assert versions == [1, 1, 0]
    assert kv.get("a") == b"2"
    assert [each.value for each in kv.history("a")] == [b"2"]


def test_an_empty_batch_is_nothing():
    kv = kv_of(World().store)

    assert kv.batch([]) == []
    assert kv.head == 0


def test_a_transaction_reads_its_own_writes_and_nobody_else_does():
    kv = kv_of(World().store)
    kv.put("b", b"old")

    with kv.transaction() as work:
        work.put("a", b"1")
        work.delete("b")
        numbers = work.incr("n"), work.incr("n", 4)
        work.json_set("doc", "$", {"x": 1})
        inside = work.get("a"), work.get("b"), work.exists("b"), work.json_get("doc", "$.x")
        outside = kv.mget(["a", "b", "n", "doc"])

    assert numbers == (1, 5)
    assert inside == (b"1", None, False, 1)
    assert outside == [None, b"old", None, None]
    assert kv.mget(["a", "b", "n", "doc"]) == [b"1", None, b"5", b'{"x":1}']


def test_a_transaction_writes_every_key_once():
    kv = kv_of(World().store)

    work = kv.transaction()
    for value in (b"1", b"2", b"3"):
        work.put("a", value)
    work.put("b", b"1")
    last = work.commit()

    assert (last, kv.head) == (2, 2)
    assert [each.value for each in kv.history("a")] == [b"3"]


def test_an_error_inside_leaves_everything_as_it_was():
    kv = kv_of(World().store)

    def fail() -> None:
        with kv.transaction() as work:
            work.put("a", b"1")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()

    assert (kv.get("a"), kv.head) == (None, 0)


@pytest.mark.parametrize("change", ["put", "delete", "same value", "plain append", "expiry"])
def test_a_key_that_changed_after_it_was_read_is_a_conflict(change):
    world = World()
    kv = kv_of(world.store)
    kv.put("read", b"1", ttl=10)
    work = kv.transaction()
    work.get("read")
    work.put("written", b"1")

    match change:
        case "put":
            kv.put("read", b"2")
        case "delete":
            kv.delete("read")
        case "same value":
            kv.put("read", b"1", ttl=10)
        case "plain append":
            world.store.topic(NAME).append(b"2", key="read")
        case "expiry":
            world.clock.advance(10)

    with pytest.raises(Conflict, match="read"):
        work.commit()
    assert kv.get("written") is None


def test_a_key_that_appeared_after_it_was_missed_is_a_conflict():
    kv = kv_of(World().store)
    work = kv.transaction()
    assert not work.exists("read")
    kv.put("read", b"1")

    with pytest.raises(Conflict):
        work.commit()


def test_a_key_that_came_and_went_again_is_a_conflict_only_if_it_was_there():
    kv = kv_of(World().store)
    work = kv.transaction()
    work.exists("absent")
    work.put("written", b"1")
    kv.put("absent", b"1")
    kv.delete("absent")

    work.commit()

    assert kv.get("written") == b"1"


def test_keys_that_were_only_written_do_not_conflict():
    kv = kv_of(World().store)
    work = kv.transaction()
    work.put("a", b"mine")
    kv.put("a", b"theirs")

    work.commit()

    assert kv.get("a") == b"mine"


def test_a_transaction_reads_a_key_the_same_way_twice():
    kv = kv_of(World().store)
    kv.put("a", b"1")
    work = kv.transaction()

    first = work.get("a")
    kv.put("a", b"2")

    assert (first, work.get("a")) == (b"1", b"1")


def test_a_condition_inside_a_transaction_is_told_at_once():
    kv = kv_of(World().store)
    version = kv.put("a", b"1")
    work = kv.transaction()

    with pytest.raises(Conflict):
        work.put("a", b"2", nx=True)
    with pytest.raises(Conflict):
        work.put("a", b"2", version=version + 1)
    work.put("a", b"2", version=version)
    with pytest.raises(Conflict):
        work.put("a", b"3", version=version)  # it is the transaction's own by now

    work.commit()
    assert kv.get("a") == b"2"


def test_ends_can_be_set_and_taken_away_inside():
    world = World()
    kv = kv_of(world.store)
    kv.put("a", b"1", ttl=10)
    kv.put("b", b"1")

    with kv.transaction() as work:
        told = work.persist("a"), work.touch("b", 10), work.touch("c", 10), work.persist("c")
    world.clock.advance(10)

    assert told == (True, True, False, False)
    assert kv.mget(["a", "b"]) == [b"1", None]


def test_deleting_what_was_only_put_inside_leaves_nothing_on_the_log():
    kv = kv_of(World().store)

    with kv.transaction() as work:
        work.put("a", b"1")
        work.delete("a")

    assert kv.head == 0


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_is_over_after_its_end(end):
    work = kv_of(World().store).transaction()
    work.put("a", b"1")
    getattr(work, end)()

    for use in (lambda: work.get("a"), lambda: work.put("a", b""), work.commit):
        with pytest.raises(Closed):
            use()
    work.rollback()


def test_what_is_wrong_is_refused_inside_as_outside():
    work = kv_of(World().store).transaction()

    with pytest.raises(Invalid):
        work.put("", b"")
    with pytest.raises(Invalid):
        work.put("a", b"", nx=True, xx=True)


def test_money_is_neither_made_nor_lost_by_many_threads():
    kv = kv_of(World().store, history=1000)
    accounts = ["a", "b", "c"]
    for account in accounts:
        kv.put(account, b"100")

    def move(number: int) -> None:
        done = 0
        while done < TIMES:
            source, target = accounts[(number + done) % 3], accounts[(number + done + 1) % 3]
            try:
                with kv.transaction() as work:
                    work.incr(source, -1)
                    work.incr(target, 1)
            except Conflict:
                continue
            done += 1

    threads = [threading.Thread(target=move, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    balances = [int(value or b"") for value in kv.mget(accounts)]
    assert sum(balances) == 300
    assert kv.head == 3 + 2 * THREADS * TIMES
    for version in range(3, kv.head, 2):  # at every step between, too
        seen = [kv.entry_at(account, version=version) for account in accounts]
        assert sum(int(entry.value) for entry in seen if entry) == 300


def test_a_transaction_that_was_made_elsewhere_counts_if_what_it_saw_is_so():
    world = World()
    kv = kv_of(world.store)
    version = kv.put("a", b"1")
    ends = world.clock.now_us() + 5_000_000

    done = kv.commit({"a": version, "new": 0}, {"a": KeyWrite(b"2", ends), b"gone": KeyWrite(None)})
    with pytest.raises(Conflict, match="begin again"):
        kv.commit({"a": version}, {"b": KeyWrite(b"3")})

    assert done == 2
    assert kv.entry("a").expires_us == ends
    assert kv.get("b") is None
    assert kv.commit({}, {"x": KeyWrite(None)}) == 0
