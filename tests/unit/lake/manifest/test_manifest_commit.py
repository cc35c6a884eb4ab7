"""Promise (O2, O4, O6): the newest version is found, commits are whole, and none forks history."""

from __future__ import annotations

import contextlib
import tracemalloc
from functools import partial

import pytest
from pyroaring import BitMap64

from strandline.errors import Conflict, Corrupt, Fenced, NotFound, UnknownTopic
from strandline.lake import object_keys, topic_names
from strandline.lake.gc import collect_garbage
from strandline.lake.manifest import fencing
from strandline.lake.manifest.manifest_codec import DELTAS_MAX
from strandline.lake.manifest.manifest_commit import ManifestCommitter
from strandline.testing.sim_clock import WALL_US_START, SimClock
from strandline.testing.sim_objects import SimObjects
from tests.unit.lake.histories import (
    STORE_ID,
    TOPIC_ID,
    add,
    ids,
    lake_file,
    ledger_of,
    new_lake,
    numbers_in,
    upload,
)

LONG_AGO = {"manifest_retention_s": 0, "grace_s": 0}


def test_a_new_topic_begins_with_a_manifest_without_files():
    objects = SimObjects()

    first = ledger_of(objects).create("orders", epoch=4, term=None)

    assert (first.number, first.name, first.epoch, first.files) == (1, "orders", 4, ())
    assert ledger_of(objects).create("orders", epoch=4) == first
    assert topic_names.topics_named(objects, "orders") == [TOPIC_ID]


def test_what_is_committed_is_what_everybody_loads():
    objects = SimObjects()
    ledger = new_lake(objects)
    changes = [
        lambda each: each.with_added([lake_file(1, 10)]),
        lambda each: each.with_deleted(BitMap64([3])),
        lambda each: each.with_floor(5, at_us=1),
    ]
    upload(objects, lake_file(1, 10))

    made = [ledger.commit(change) for change in changes]

    assert [each.number for each in made] == [2, 3, 4]
    assert made[-1].created_us == WALL_US_START
    assert ledger.load() == made[-1] == ledger_of(objects).load()
    assert [ledger_of(objects).load(number) for number in (2, 3, 4)] == made


def test_a_change_that_changes_nothing_commits_nothing():
    objects = SimObjects()
    ledger = new_lake(objects)

    made = [ledger.commit(change) for change in (lambda _: None, lambda each: each.with_added([]))]

    assert [each.number for each in made] == [1, 1]
    assert numbers_in(objects) == [1]


def test_a_change_that_raises_commits_nothing():
    objects = SimObjects()
    ledger = new_lake(objects)

    with pytest.raises(Conflict):
        ledger.commit(lambda each: each.with_replaced(["gone"], [lake_file(1, 2)], at_us=0))

    assert numbers_in(objects) == [1]


def test_a_topic_that_is_not_in_the_lake_is_unknown():
    with pytest.raises(UnknownTopic):
        ledger_of(SimObjects()).load()
    with pytest.raises(UnknownTopic):
        ledger_of(SimObjects()).commit(lambda each: each.with_epoch(2))


def test_a_file_must_be_in_the_store_before_it_is_named():
    objects = SimObjects()
    ledger = new_lake(objects)
    file = lake_file(1, 10)

    with pytest.raises(Conflict, match="upload it again"):
        ledger.commit(lambda each: each.with_added([file]))
    objects.put(object_keys.data_key(TOPIC_ID, file.name()), b"short")
    with pytest.raises(Corrupt, match="5"):
        ledger.commit(lambda each: each.with_added([file]))

    assert numbers_in(objects) == [1]


@pytest.mark.parametrize("lag", [1, 3, 40, 200])
def test_a_listing_that_lags_hides_nothing(lag):
    objects = SimObjects()
    ledger = new_lake(objects)
    for number in range(50):
        ledger.commit(lambda each, epoch=number: each.with_epoch(epoch + 2))
    objects.lagging_list = lag

    found = ledger_of(objects).load()

    assert (found.number, found.epoch) == (51, 51)


def test_a_ledger_that_is_far_behind_catches_up():
    objects = SimObjects()
    behind, ahead = new_lake(objects), ledger_of(objects)
    behind.load()
    for number in range(100):
        ahead.commit(lambda each, epoch=number: each.with_epoch(epoch + 2))

    calls = objects.calls.copy()
    found = behind.load()

    assert found == ahead.load()
    assert (objects.calls - calls)["get"] < 2 * (DELTAS_MAX + 3)


def test_looking_for_news_takes_two_small_requests():
    objects = SimObjects()
    ledger = new_lake(objects)
    add(ledger, lake_file(1, 10))

    calls, received = objects.calls.copy(), objects.bytes_out.total()
    ledger.load()

    assert objects.calls - calls == {"get": 1, "head": 1}
    assert objects.bytes_out.total() == received


def test_a_lake_that_looks_empty_is_not_taken_for_a_new_one():
    """O4: the first manifest was swept, and a listing shows nothing."""
    objects = SimObjects()
    ledger = new_lake(objects)
    for number in range(40):
        ledger.commit(lambda each, epoch=number: each.with_epoch(epoch + 2))
    collect_garbage(ledger, now_us=WALL_US_START, **LONG_AGO)
    objects.lagging_list = 10_000

    with pytest.raises(Corrupt, match="has been in the lake"):
        ledger_of(objects).create("orders", epoch=1)

    assert 1 not in numbers_in(objects)


def test_a_missing_manifest_is_told_not_skipped():
    objects = SimObjects()
    ledger = new_lake(objects)
    for number in range(5):
        ledger.commit(lambda each, epoch=number: each.with_epoch(epoch + 2))
    objects.delete([object_keys.manifest_key(TOPIC_ID, 3)])

    with pytest.raises(Corrupt, match="cannot be read"):
        ledger_of(objects).load()


def test_a_bit_that_flips_on_the_way_is_read_again():
    objects = SimObjects()
    newest = add(new_lake(objects), lake_file(1, 10))
    fault = objects.fail("get", how="flipped")

    loaded = ledger_of(objects).load()

    assert loaded == newest
    assert fault.fired == 1


def test_every_changed_byte_of_a_small_lake_is_noticed():
    """C1: the bodies of terms are for people; that they exist is all that counts."""
    objects = SimObjects()
    fencing.claim_lake(objects, STORE_ID, SimClock())
    term = fencing.open_term(objects, STORE_ID, SimClock(), attempt=bytes(16))
    add(new_lake(objects), lake_file(1, 10), term=term)
    silent = []

    for key, stored in objects.snapshot().items():
        for offset in range(0 if "/data/" in key or object_keys.TERMS in key else len(stored.data)):
            damaged = objects.fork()
            data = bytearray(stored.data)
            data[offset] ^= 0x04
            damaged.put(key, data)
            try:
                fencing.claim_lake(damaged, STORE_ID, SimClock())
                topic_names.topics_named(damaged, "orders")
                ledger_of(damaged).load()
            except Corrupt:
                continue
            silent.append((key, offset))

    assert silent == []


def test_a_sleeper_cannot_fork_history():
    """Whatever happens between two calls of a commit, it is in the newest version in the end."""
    calls = _calls_of_a_commit()

    for at in range(1, calls + 1):
        objects = SimObjects()
        sleeper = new_lake(objects)
        sleeper.load()
        objects.on_call = _once_at(objects, at, partial(_go_on_and_sweep, objects))
        made = sleeper.commit(lambda each: each.with_deleted(BitMap64([77])))

        newest = ledger_of(objects).load()
        assert list(newest.deleted or []) == [77], at
        assert newest.number >= max(made.number, 40), at


def test_a_sleeping_reader_finds_the_newest_version():
    objects = SimObjects()
    sleeper = new_lake(objects)
    sleeper.load()
    _go_on_and_sweep(objects)

    assert 2 not in numbers_in(objects)
    assert sleeper.load() == ledger_of(objects).load()


def _calls_of_a_commit() -> int:
    objects = SimObjects()
    ledger = new_lake(objects)
    ledger.load()
    before = objects.calls_total
    ledger.commit(lambda each: each.with_deleted(BitMap64([77])))
    return objects.calls_total - before


def _once_at(objects: SimObjects, nth: int, act):
    start = objects.calls_total
    pending = [act]

    def hook(_operation: str, _key: str) -> None:
        if objects.calls_total - start == nth and pending:
            pending.pop()()

    return hook


def _go_on_and_sweep(objects: SimObjects) -> None:
    other = ledger_of(objects, random_id=ids())
    for number in range(40):
        other.commit(lambda each, epoch=number: each.with_epoch(epoch + 100))
    collect_garbage(other, now_us=WALL_US_START, **LONG_AGO)


def test_an_older_term_is_fenced():
    objects = SimObjects()
    ledger = new_lake(objects)
    old, new = (_term(objects, attempt) for attempt in (1, 2))

    with pytest.raises(Fenced):
        ledger.commit(lambda each: each.with_epoch(2), term=old)
    made = ledger.commit(lambda each: each.with_epoch(3), term=new)

    assert (made.number, made.term) == (2, new)


def test_a_term_is_fenced_by_a_manifest_too():
    objects = SimObjects()
    ledger = new_lake(objects)
    old, new = (_term(objects, attempt) for attempt in (1, 2))
    ledger.commit(lambda each: each.with_epoch(3), term=new)
    objects.delete([object_keys.term_key(new)])

    with pytest.raises(Fenced):
        ledger_of(objects).commit(lambda each: each.with_epoch(2), term=old)


def test_a_committer_without_a_term_leaves_it_as_it_is():
    objects = SimObjects()
    ledger = new_lake(objects)
    ledger.commit(lambda each: each.with_epoch(3), term=_term(objects, 1))

    made = ledger.commit(lambda each: each.with_epoch(4))

    assert made.term == 1


def _term(objects: SimObjects, attempt: int) -> int:
    return fencing.open_term(objects, STORE_ID, SimClock(), attempt=bytes([attempt]) * 16)


def test_an_older_version_is_read_as_long_as_it_is_kept():
    objects = SimObjects()
    ledger = new_lake(objects)
    for number in range(40):
        ledger.commit(lambda each, epoch=number: each.with_epoch(epoch + 2))

    assert ledger_of(objects).load(20).epoch == 20
    collect_garbage(ledger, now_us=WALL_US_START, **LONG_AGO)
    for number in (1, 20):
        with pytest.raises(NotFound):
            ledger_of(objects).load(number)


def test_a_version_that_is_given_up_cannot_be_pinned():
    objects = SimObjects()
    ledger = new_lake(objects)
    for number in range(40):
        ledger.commit(lambda each, epoch=number: each.with_epoch(epoch + 2))
    ledger.retain_from(33)

    with pytest.raises(NotFound), ledger.pin(20):
        pass
    with ledger.pin(35) as pinned, contextlib.ExitStack() as stack:
        assert (pinned.number, ledger.retain_from(41)) == (35, 33)
        assert stack.enter_context(ledger.pin()).number == 41


def _large_lake(files: int) -> tuple[SimObjects, ManifestCommitter]:
    objects = SimObjects()
    ledger = new_lake(objects)
    stats = '{"key":["%s","%s",0],"tag":["a tag of 20 letters.","b tag of 20 letters.",3]}'
    add(
        ledger,
        *(
            lake_file(first, first + 9, stats=stats % (f"{first:032x}", f"{first + 9:032x}"))
            for first in range(1, files * 10, 10)
        ),
    )
    for number in range(20):
        ledger.commit(lambda each, epoch=number: each.with_epoch(epoch + 2))
    return objects, ledger


def test_opening_a_large_lake_reads_few_objects():
    objects, ledger = _large_lake(5_000)
    calls = objects.calls.copy()

    loaded = ledger_of(objects).load()

    assert len(loaded.files) == 5_000
    assert loaded == ledger.load()
    assert (objects.calls - calls)["get"] <= DELTAS_MAX + 2
    assert (objects.calls - calls)["list"] == 1


def test_a_file_of_a_large_lake_takes_less_than_a_kilobyte_of_memory():
    objects, _ = _large_lake(5_000)
    ledger = ledger_of(objects)

    tracemalloc.start()
    try:
        loaded = ledger.load()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size / len(loaded.files) < 1000
