"""Promise: an event that was stored is a row at once, wherever it is: in memory, on its way into a
file, or in files, also after a restart; and it is there once."""

from __future__ import annotations

import random

import pytest

from strandline.errors import Invalid
from strandline.views.table.condition import Compare, In, Not
from tests.unit.views.table.world import (
    FIELDS,
    NAME,
    World,
    digest,
    event,
    fill,
    host_of,
    numbers,
    rebuilt_digest,
    rows,
    table_of,
)


def data_files(store) -> list[str]:
    return [info.key for info in store.lake_objects.list() if "/data/" in info.key]


def sweep_lake(world) -> None:
    for _ in range(3):
        world.clock.advance(2 * 86_400)
        world.store.relocate()


@pytest.fixture
def world() -> World:
    return World()


def test_an_event_is_a_row_when_store_returns(world):
    table = table_of(world.store)

    appended = table.store("acct-9", event(4))

    (row,) = rows(table)
    assert row["seq"] == appended.first_seq
    assert (row["context"], row["amount"], row["cur"]) == ("acct-9", 1.0, "EUR")
    assert row["note"] == "note 4"
    assert row["at"].timestamp() == 1_767_225_604


def test_rows_in_memory_on_their_way_and_in_files_are_seen_together(world):
    table = table_of(world.store)
    fill(table, 1, 64)
    table.flush()
    fill(table, 65, 130)

    fill(table, 131, 140)

    fold = host_of(world.store).fold
    assert len(fold.segments.files) == 1
    assert len(fold.passives) == 1
    assert numbers(table) == list(range(1, 141))


def test_a_full_memory_becomes_a_file_in_the_background(world):
    table = table_of(world.store)
    fill(table, 1, 200)

    world.store.checkpoint()

    facts = table.statistics()
    assert facts.files == 3
    assert facts.memory_rows == 200 - 3 * 64
    assert numbers(table) == list(range(1, 201))


def test_no_row_is_seen_twice_between_its_file_and_the_end_of_its_memory(world, monkeypatch):
    table = table_of(world.store)
    fill(table, 1, 70)
    fold = host_of(world.store).fold
    drop, seen = fold.drop_passive, []

    def look_first(passive, left_out):
        seen.append(numbers(table))
        drop(passive, left_out)

    monkeypatch.setattr(fold, "drop_passive", look_first)
    table.flush()

    assert seen == [list(range(1, 71))] * 2


def test_rows_are_there_once_after_a_restart(world):
    table = table_of(world.store)
    fill(table, 1, 100)
    world.store.checkpoint()
    fill(table, 101, 150)

    world.kill()

    table = table_of(world.store)
    assert numbers(table) == list(range(1, 151))
    assert digest(world.store) == rebuilt_digest(world.store)


def test_a_file_that_is_ahead_of_what_was_saved_brings_no_row_twice(world):
    table = table_of(world.store)
    fill(table, 1, 10)
    world.store.checkpoint()
    fill(table, 11, 90)
    table.flush()

    world.kill()

    table = table_of(world.store)
    assert numbers(table) == list(range(1, 91))
    assert table.statistics().memory_rows == 0


def test_a_rebuild_uses_no_file_of_before(world):
    table = table_of(world.store)
    fill(table, 1, 100)
    table.flush()
    before = set(data_files(world.store))

    world.store.rebuild("table", NAME)

    assert table.statistics().files == 0
    assert numbers(table) == list(range(1, 101))
    table.flush()
    sweep_lake(world)
    assert numbers(table) == list(range(1, 101))
    assert before
    assert not before & set(data_files(world.store))


def test_merging_changes_no_row(world):
    table = table_of(world.store, flush_rows=16)
    for start in range(1, 200, 16):
        fill(table, start, start + 15)
        table.flush()
    before = rows(table)

    table.compact()

    assert rows(table) == before
    assert table.statistics().files < 12


def test_deleted_rows_are_gone_at_once_from_memory_and_files(world):
    table = table_of(world.store)
    fill(table, 1, 100)
    table.flush()
    fill(table, 101, 120)

    deleted = table.delete(Compare("cur", "=", "USD"))

    assert deleted == 40
    assert numbers(table) == [n for n in range(1, 121) if n % 3]


def test_events_that_come_after_a_delete_stay(world):
    table = table_of(world.store)
    fill(table, 1, 10)

    table.delete(Compare("n", ">=", 1))
    fill(table, 11, 12)

    assert numbers(table) == [11, 12]


def test_deleted_rows_leave_log_and_files(world):
    table = table_of(world.store, flush_rows=16)
    for start in range(1, 129, 16):
        fill(table, start, start + 15)
        table.flush()
    table.delete(Not(In("n", (5, 70))))

    world.store.checkpoint()
    table.compact()
    world.store.checkpoint()

    assert numbers(table) == [5, 70]
    assert world.store.existing_topic(NAME).statistics().count == 4  # two events, schema, delete
    assert sum(file.rows for file in host_of(world.store).fold.segments.files) == 2
    assert digest(world.store) == rebuilt_digest(world.store)


def test_deletes_hold_after_a_restart_though_nothing_was_saved(world):
    table = table_of(world.store)
    fill(table, 1, 100)
    table.flush()
    table.delete(Compare("n", "<=", 50))

    world.kill()

    assert numbers(table_of(world.store)) == list(range(51, 101))


def test_deletes_hold_after_a_clean_restart(world):
    table = table_of(world.store)
    fill(table, 1, 100)
    table.flush()
    table.delete(Compare("n", "<=", 50))

    world.reopen()

    assert numbers(table_of(world.store)) == list(range(51, 101))


def test_deletes_that_come_again_take_no_later_row(world):
    table = table_of(world.store)
    fill(table, 1, 5)
    world.store.checkpoint()
    table.delete(Compare("n", ">=", 1))
    fill(table, 6, 9)
    table.flush()

    world.kill()

    assert numbers(table_of(world.store)) == [6, 7, 8, 9]


def test_a_file_holds_no_row_that_the_log_may_lose(world):
    table = table_of(world.store)
    world.store.sync()
    fill(table, 1, 100)
    table.flush()
    left = world.disk.crash(random.Random(1))

    world.disk = left
    world.store = world.open()

    assert numbers(table_of(world.store))[:64] == list(range(1, 65))
    assert world.store.existing_topic(NAME).head_seq >= 101


@pytest.mark.parametrize("writing", ["flush", "merge"])
def test_deletes_that_come_again_are_asked_in_the_schema_of_their_time(world, writing):
    table = world.store.table(NAME, zone_rows=256, flush_rows=4)
    table.define({"n": "i64"})
    for n in range(1, 33):
        table.store("c", {"n": n})
        if writing == "merge" and n % 4 == 0:
            table.flush()
    world.store.views.registry.save()
    table.delete(Compare("n", ">=", 23))
    table.define({"n": "f64"})
    table.store("c", {"n": 99.5})
    table.flush()
    table.compact()

    world.kill()

    table = world.store.table(NAME)
    assert {file.schema_version for file in host_of(world.store).fold.segments.files} >= {2}
    assert numbers(table) == [*range(1, 23), 99.5]
    assert digest(world.store) == rebuilt_digest(world.store)


def test_a_snapshot_keeps_what_it_has_seen(world):
    table = table_of(world.store, flush_rows=16)
    for start in range(1, 129, 16):
        fill(table, start, start + 15)
        table.flush()
    view = table.snapshot()

    table.delete(Compare("n", ">", 0))
    world.store.checkpoint()
    table.compact()
    world.store.checkpoint()

    found = sorted(n for part in view.read(["n"]).tables() for n in part["n"].to_pylist())
    assert found == list(range(1, 129))


def test_a_table_can_be_seen_as_of_a_position(world):
    table = table_of(world.store)
    fill(table, 1, 70)
    table.flush()
    position = table.snapshot().position
    fill(table, 71, 80)

    found = numbers(table, as_of=position - 5)

    assert found == list(range(1, 66))


def test_a_new_version_shows_old_rows_too(world):
    table = table_of(world.store)
    fill(table, 1, 70)
    table.flush()
    fill(table, 71, 72)

    table.define(FIELDS | {"n": "f64", "tip": "f64 | null", "cur": ["EUR", "USD", "CHF"]})
    table.store("c1", event(73, cur="CHF", tip=0.5))

    found = rows(table)
    assert [row["n"] for row in found] == [float(n) for n in range(1, 74)]
    assert {type(row["n"]) for row in found} == {float}
    assert [row["tip"] for row in found if row["tip"] is not None] == [0.5]
    assert digest(world.store) == rebuilt_digest(world.store)


def test_a_change_that_is_not_compatible_is_refused_and_changes_nothing(world):
    table = table_of(world.store)
    fill(table, 1, 3)

    with pytest.raises(Invalid, match="amount"):
        table.define(FIELDS | {"amount": "string"})

    assert table.schema.version == 1
    fill(table, 4, 4)
    assert numbers(table) == [1, 2, 3, 4]


def test_an_event_that_does_not_fit_is_refused_and_nothing_of_its_batch_is_stored(world):
    table = table_of(world.store)

    with pytest.raises(Invalid, match="cur"):
        table.store_many("c", [event(1), event(2, cur="GBP")])

    assert numbers(table) == []
    assert world.store.existing_topic(NAME).statistics().count == 1  # the schema


def test_plain_records_that_fit_are_rows_and_others_are_counted(world):
    table = table_of(world.store)
    topic = world.store.existing_topic(NAME)

    topic.append(b'{"amount":1,"cur":"EUR","at":"2026-01-02","n":7}', key=b"ctx")
    topic.append(b'{"amount":1}', key=b"ctx")
    topic.append(b"no json", key=b"ctx")
    topic.append(b'{"amount":1,"cur":"EUR","at":"2026-01-02","n":8}')

    assert numbers(table) == [7]
    assert table.statistics().misfits == 3


def test_misfits_are_counted_once_whatever_is_saved(world):
    table = table_of(world.store)
    topic = world.store.existing_topic(NAME)
    topic.append(b"no json", key=b"ctx")
    world.store.checkpoint()
    topic.append(b"no json either", key=b"ctx")
    fill(table, 1, 3)
    table.flush()

    world.kill()

    assert table_of(world.store).statistics().misfits == 2


def test_other_options_keep_the_files(world):
    table = table_of(world.store)
    fill(table, 1, 70)
    table.flush()
    world.store.checkpoint()
    fill(table, 71, 75)

    world.store.views.alter("table", NAME, retention_ms=1_000_000_000)

    assert table.statistics().files == 2
    assert numbers(table) == list(range(1, 76))
    world.reopen()
    assert table_of(world.store, retention_ms=1_000_000_000).statistics().files == 2


def test_events_older_than_the_retention_are_deleted(world):
    table = table_of(world.store, retention_ms=60_000)
    fill(table, 1, 70)
    table.flush()
    world.clock.advance(90)
    fill(table, 71, 75)

    world.store.checkpoint()

    assert numbers(table) == list(range(71, 76))


def test_a_read_only_store_sees_files_and_log(world):
    table = table_of(world.store)
    fill(table, 1, 100)
    world.store.checkpoint()
    fill(table, 101, 105)
    world.store.sync()

    with world.open(readonly=True) as reader:
        found = numbers(table_of(reader))

    assert found == list(range(1, 106))


def test_an_event_without_definition_is_refused(world):
    table = world.store.table("fresh")

    with pytest.raises(Invalid, match="DEFINE"):
        table.store("c", {"a": 1})


@pytest.mark.parametrize("context", ["", "__system_x", "x" * 2000, 5])
def test_contexts_that_cannot_be_are_refused(world, context):
    table = table_of(world.store)

    with pytest.raises(Invalid, match="context"):
        table.store(context, event(1))


def test_deleting_the_topic_ends_its_files(world):
    table = table_of(world.store)
    fill(table, 1, 70)
    table.flush()
    world.store.checkpoint()

    world.kill()  # the table is not in use when it is deleted
    world.store.delete_topic(NAME)
    fill(table_of(world.store), 1, 2)
    sweep_lake(world)

    assert numbers(table_of(world.store)) == [1, 2]
    assert data_files(world.store) == []
