"""Promise: a compaction merges small files and drops what is gone, and every record stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.config.settings import LakeSettings
from strandline.errors import Invalid, UnknownTopic
from strandline.lake import external_reader
from strandline.pipelines import CompactSummary, Embedded, compact
from strandline.store import Store
from tests.unit.lake.small_lake import fill, open_small

WHOLE = LakeSettings()
"""Files of 256 MiB: everything that there is here becomes one."""


@pytest.fixture
def store(tmp_path):
    with open_small(str(tmp_path / "data")) as opened:
        yield opened


def records_in(store: Store, topic: str = "orders") -> list[tuple[int, bytes, str | None]]:
    page = store.existing_topic(topic).read(0, limit=100_000)
    assert page.caught_up
    return [(record.seq, record.data, record.tag) for record in page.records]


def rows_outside(store: Store, topic: str = "orders") -> list[dict[str, object]]:
    """What a stranger reads, by the manifest."""
    return external_reader.dataset(f"{store.path}/lake", topic).to_table().to_pylist()


def files_of(store: Store, topic: str = "orders") -> list[tuple[int, int, int]]:
    found = external_reader.files(f"{store.path}/lake", topic)
    return [(file.first_seq, file.last_seq, file.rows) for file in found.files]


def compacted(store: Store, *topics: str, settings: LakeSettings = WHOLE) -> CompactSummary:
    summary = compact(store, topics, settings=settings)
    store._relocator._read_s.clear()  # the next turn asks for the newest manifest
    return summary


def test_small_files_become_one_and_every_record_stays(store):
    fill(store, batches=9)
    before, outside_before = records_in(store), rows_outside(store)

    summary = compacted(store)

    assert files_of(store) == [(1, 800, 800)]
    assert rows_outside(store) == outside_before
    assert records_in(store) == before
    store.relocate()
    assert len(store.existing_topic("orders")._state.cold) == 1
    assert records_in(store) == before
    assert (summary.files_before, summary.files_after, summary.groups) == (8, 1, 1)
    assert (summary.rows_before, summary.rows_after, summary.rows_dropped) == (800, 800, 0)
    assert summary.engine == "embedded"
    assert not summary.skipped


def test_a_second_run_finds_nothing_to_do(store):
    fill(store)
    compacted(store)
    version = external_reader.files(f"{store.path}/lake", "orders").version

    summary = compacted(store)

    assert (summary.groups, summary.files_before, summary.files_after) == (0, 1, 1)
    assert external_reader.files(f"{store.path}/lake", "orders").version == version


def test_rows_that_are_gone_are_dropped_and_no_longer_hidden(store):
    topic = fill(store, batches=6)
    topic.delete(match="odd")
    topic.delete(before=151)
    store.relocate()
    before = rows_outside(store)

    summary = compacted(store)

    assert rows_outside(store) == before
    [(first_seq, last_seq, rows)] = files_of(store)
    assert (first_seq, last_seq, rows) == (101, 500, 175)
    assert summary.rows_dropped == 225
    assert len(external_reader.files(f"{store.path}/lake", "orders").deleted) == 0
    assert [seq for seq, *_ in records_in(store)] == list(range(152, 601, 2))


def test_a_dry_run_tells_and_changes_nothing(store):
    topic = fill(store, batches=6)
    topic.delete(match="odd")
    store.relocate()
    before = {info.key for info in store.lake_objects.list()}

    summary = compact(store, dry_run=True)

    assert (summary.files_before, summary.files_after, summary.groups) == (5, 1, 1)
    assert (summary.rows_dropped, summary.bytes_written) == (250, 0)
    assert summary.dry_run
    assert {info.key for info in store.lake_objects.list()} == before


def test_groups_reach_the_wanted_payload_and_no_further(store):
    fill(store, batches=9)
    payload = (
        external_reader.newest_of(
            store.lake_objects, external_reader.owner_of(store.lake_objects), 1
        )
        .files[4]
        .payload
    )

    compacted(store, settings=LakeSettings(file_bytes=payload * 3))

    assert [rows for *_, rows in files_of(store)] == [300, 300, 200]


def test_only_the_named_topics_are_compacted_by_name_and_pattern(store):
    for name in ("orders-eu", "orders-us", "users"):
        fill(store, name, batches=4)

    by_pattern = compacted(store, "orders-*")
    by_name = compacted(store, "users", "orders-eu")

    assert (by_pattern.topics, by_pattern.groups) == (2, 2)
    assert (by_name.topics, by_name.groups) == (2, 1)
    assert len(files_of(store, "users")) == 1


def test_an_unknown_topic_is_told_with_those_that_are_there(store):
    fill(store)

    with pytest.raises(UnknownTopic, match=r"no topic 'order' .* has 'orders'"):
        compact(store, ["order"])


def test_a_lake_alone_is_compacted_by_its_url_or_the_stores_folder(store):
    fill(store, "one", batches=4)
    fill(store, "two", batches=4)
    store.close()

    by_url = compact(f"file://{store.path}/lake", ["one"])
    by_folder = compact(store.path, ["two"])

    assert (by_url.groups, by_folder.groups) == (1, 1)


def test_a_place_without_a_lake_is_told(tmp_path):
    (tmp_path / "empty").mkdir()

    with pytest.raises(Invalid, match="there is no lake in"):
        compact(str(tmp_path / "empty"))
    with pytest.raises(Invalid, match="neither the folder of a store nor of a lake"):
        compact(str(tmp_path / "nowhere"))


def test_progress_ends_at_the_total(store):
    fill(store, "one", batches=4)
    fill(store, "two", batches=4)
    told: list[tuple[str, int, int]] = []

    compact(store, engine=Embedded(threads=1), progress=lambda *step: told.append(step))

    assert [what for what, *_ in told] == ["compact", "compact"]
    assert 0 < told[0][1] < told[1][1] == told[1][2]


def test_a_damaged_file_is_told_left_alone_and_holds_up_no_other(store):
    fill(store, "bad", batches=4)
    fill(store, "good", batches=4)
    damaged = external_reader.files(f"{store.path}/lake", "bad").files[1].url
    with open(damaged, "r+b") as file:
        file.seek(200)
        byte = file.read(1)
        file.seek(200)
        file.write(bytes([byte[0] ^ 1]))
    before = files_of(store, "bad")

    summary = compacted(store)

    assert files_of(store, "bad") == before
    assert len(files_of(store, "good")) == 1
    [skipped] = summary.skipped
    assert (skipped.topic, skipped.damaged, skipped.files) == ("bad", True, 3)
    assert damaged.rpartition("/")[2] in skipped.reason


def test_a_file_that_is_missing_is_damage(store):
    fill(store, batches=4)
    missing = external_reader.files(f"{store.path}/lake", "orders").files[1].url
    key = missing.removeprefix(f"{store.path}/lake/")
    store.lake_objects.delete([key])

    summary = compacted(store)

    [skipped] = summary.skipped
    assert skipped.damaged
    assert "is missing" in skipped.reason


def test_nothing_is_left_beside_the_objects_of_a_folder(store):
    fill(store)
    store.close()

    compact(store.path)

    assert not list(Path(store.path).rglob(".aside/*"))
