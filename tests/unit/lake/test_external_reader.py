"""Promise: others read a topic's part of the lake without its store, and never what is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import strandline
from strandline.errors import Invalid, NotFound, UnknownTopic
from tests.unit.lake.small_lake import fill, open_small


@pytest.fixture
def lake(data_dir: str) -> str:
    """A lake with seqs 1 to 400 of a topic that has a hundred more."""
    with open_small(data_dir) as store:
        fill(store)
    return f"{data_dir}/lake"


def seqs_of(rows: pa.dataset.Dataset) -> list[int]:
    return sorted(rows.to_table(columns=["seq"])["seq"].to_pylist())


def test_a_dataset_has_the_rows_that_the_store_would_serve(lake: str, data_dir: str):
    with open_small(data_dir) as store:
        page = store.topic("orders").read(0, limit=400).arrow()

    found = strandline.lake.dataset(lake, "orders").to_table().sort_by("seq")

    assert found.combine_chunks() == pa.table(page).combine_chunks()


def test_the_store_need_not_be_there(lake: str, tmp_path: Path):
    elsewhere = str(tmp_path / "copy")
    shutil.copytree(lake, elsewhere)
    shutil.rmtree(Path(lake).parent)

    found = strandline.lake.dataset(f"file://{elsewhere}", "orders")

    assert seqs_of(found) == list(range(1, 401))


def test_rows_that_are_gone_do_not_appear_though_the_files_hold_them(data_dir: str):
    with open_small(data_dir) as store:
        orders = fill(store)
        orders.delete(match="odd", before=200)
        orders.delete(before=50)
        store.relocate()
    lake = f"{data_dir}/lake"

    found = strandline.lake.dataset(lake, "orders")
    facts = strandline.lake.files(lake, "orders")

    live = [seq for seq in range(50, 401) if seq >= 200 or seq % 2 == 0]
    assert seqs_of(found) == live
    assert found.count_rows() == len(live)
    assert (facts.rows, facts.floor) == (400, 50)
    assert facts.deleted.to_pylist() == list(range(51, 200, 2))


def test_a_delete_below_a_seq_is_told_to_others_at_the_next_turn(data_dir: str):
    with open_small(data_dir) as store:
        fill(store).delete(before=50)
        store.relocate()

    found = strandline.lake.dataset(f"{data_dir}/lake", "orders")

    assert seqs_of(found) == list(range(50, 401))


def test_rows_that_are_gone_are_hidden_from_an_engine_that_scans_the_dataset(data_dir: str):
    with open_small(data_dir) as store:
        fill(store).delete(match="odd")
        store.relocate()
    rows = strandline.lake.dataset(f"{data_dir}/lake", "orders")

    counted = duckdb.sql("SELECT count(*), max(seq) FROM rows WHERE seq <= 300").fetchall()

    assert counted == [(150, 300)]
    assert rows.schema.names[0] == "seq"


def test_an_older_version_is_read_as_it_was(lake: str, data_dir: str):
    old = strandline.lake.files(lake, "orders").version
    with open_small(data_dir) as store:
        fill(store, batches=1)

    assert strandline.lake.files(lake, "orders").files[-1].last_seq == 500
    assert strandline.lake.files(lake, "orders", version=old).files[-1].last_seq == 400
    assert seqs_of(strandline.lake.dataset(lake, "orders", version=old)) == list(range(1, 401))


def test_files_are_told_with_paths_that_any_reader_can_open(lake: str):
    facts = strandline.lake.files(lake, "orders")

    rows = [pq.read_table(file.url, columns=["seq"])["seq"].to_pylist() for file in facts.files]

    assert [(file.first_seq, file.last_seq, file.rows) for file in facts.files] == [
        (1, 100, 100),
        (101, 200, 100),
        (201, 300, 100),
        (301, 400, 100),
    ]
    assert [seq for seqs in rows for seq in seqs] == list(range(1, 401))
    assert facts.size == sum(Path(file.url).stat().st_size for file in facts.files)


def test_files_that_a_filter_rules_out_are_not_opened(lake: str):
    facts = strandline.lake.files(lake, "orders")
    for file in facts.files[1:]:
        Path(file.url).unlink()
    rows = strandline.lake.dataset(lake, "orders")

    by_seq = rows.to_table(filter=pc.field("seq") <= 100)
    stamp = pa.scalar(facts.files[0].ts_max, pa.timestamp("us", tz="UTC"))
    by_time = rows.to_table(filter=pc.field("ts") <= stamp)

    assert len(by_seq) == len(by_time) == 100


def test_every_topic_of_a_lake_is_listed_by_name(data_dir: str):
    with open_small(data_dir) as store:
        for name in ("readings", "orders", "gone"):
            fill(store, name, batches=2)
        store.delete_topic("gone")
        store.relocate()

    found = strandline.lake.topics(f"{data_dir}/lake")

    assert [(each.topic, each.rows) for each in found] == [("orders", 100), ("readings", 100)]


def test_a_topic_that_was_made_again_is_the_new_one(data_dir: str):
    with open_small(data_dir) as store:
        fill(store, batches=3)
        store.delete_topic("orders")
        store.relocate()
        fill(store, batches=2)

    found = strandline.lake.dataset(f"{data_dir}/lake", "orders")

    assert seqs_of(found) == list(range(1, 101))


def test_a_topic_without_files_is_an_empty_dataset(data_dir: str):
    with open_small(data_dir) as store:
        fill(store).delete(before=501)
        store.relocate()

    found = strandline.lake.dataset(f"{data_dir}/lake", "orders")

    assert found.count_rows() == 0
    assert found.schema.names == ["seq", "ts", "key", "tag", "node", "meta", "data"]


def test_a_place_without_a_lake_is_told(tmp_path: Path):
    with pytest.raises(Invalid, match="there is no lake in"):
        strandline.lake.dataset(str(tmp_path), "orders")


def test_an_unknown_topic_is_told_with_those_that_there_are(lake: str):
    with pytest.raises(UnknownTopic, match=r"'order' in the lake .*: it has 'orders'"):
        strandline.lake.files(lake, "order")


def test_a_version_that_is_not_kept_is_told_with_those_that_are(lake: str):
    with pytest.raises(
        NotFound, match=r"version 99 of topic 'orders' .* versions 1 to \d are kept"
    ):
        strandline.lake.dataset(lake, "orders", version=99)
