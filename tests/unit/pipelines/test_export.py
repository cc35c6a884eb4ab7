"""Promise: an export has exactly the records of one position, however often it died."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strandline
from strandline.errors import Conflict, Invalid, UnknownTopic
from strandline.pipelines import export
from strandline.pipelines.splits.snapshot_position import position
from tests.unit.lake.small_lake import BATCH, fill, open_small
from tests.unit.pipelines.transfers import Died, Dying, write


@pytest.fixture
def cold(data_dir: str) -> str:
    """500 records that say their seq, all but the last 100 in the lake, and 20 in the log."""
    with open_small(data_dir) as store:
        topic = fill(store)
        topic.append([b"%d" % seq for seq in range(501, 521)], tag="hot")
    return data_dir


def files(folder: Path, ending: str = "parquet") -> list[Path]:
    return sorted(folder.rglob(f"*.{ending}"), key=lambda path: path.name)


def rows(folder: Path) -> list[dict[str, Any]]:
    tables = [pq.ParquetFile(path).read() for path in files(folder)]
    return pa.concat_tables(tables).to_pylist() if tables else []


def seqs(folder: Path) -> list[int]:
    return [row["seq"] for row in rows(folder)]


def test_an_export_has_the_records_of_lake_and_store(cold: str, tmp_path: Path):
    summary = export(cold, "orders", str(tmp_path / "out"), file_rows=150)

    with strandline.open(cold, readonly=True) as store:
        there = store.existing_topic("orders").read(0, 1000).records
    assert [(row["seq"], row["data"], row["tag"]) for row in rows(tmp_path / "out")] == [
        (each.seq, each.data, each.tag) for each in there
    ]
    assert rows(tmp_path / "out")[0]["ts"].timestamp() * 1e6 == pytest.approx(there[0].ts)
    assert [path.name for path in files(tmp_path / "out")] == [
        f"orders-{first:020d}-{min(first + 149, 520):020d}.parquet" for first in (1, 151, 301, 451)
    ]
    assert (summary.rows, summary.files, summary.ranges) == (520, 4, 4)
    assert (tmp_path / "out/_SUCCESS").exists()


def test_deleted_records_are_not_there_and_nothing_is_lost(cold: str, tmp_path: Path):
    with open_small(cold) as store:
        topic = store.existing_topic("orders")
        topic.delete(before=50)
        topic.delete(match="even")

    summary = export(cold, "orders", str(tmp_path / "out"), file_rows=70)

    assert seqs(tmp_path / "out") == [seq for seq in range(50, 521) if seq % 2 or seq > 5 * BATCH]
    assert summary.lost == []


def test_what_retention_took_is_told(cold: str, tmp_path: Path):
    with open_small(cold) as store:
        store.existing_topic("orders").alter(cap_records=200)

    summary = export(cold, "orders", str(tmp_path / "out"))
    again = export(cold, "orders", str(tmp_path / "out"))

    assert seqs(tmp_path / "out") == list(range(321, 521))
    assert [(lost.gap_from, lost.gap_to, lost.reason) for lost in summary.lost] == [(1, 320, "cap")]
    assert again.lost == summary.lost


def test_what_goes_while_it_runs_is_told(cold: str, tmp_path: Path):
    out = str(tmp_path / "out")
    with pytest.raises(Died):
        export(cold, "orders", out, file_rows=100, engine=Dying(1))
    with open_small(cold) as store:
        store.existing_topic("orders").alter(cap_records=210)

    summary = export(cold, "orders", out, file_rows=100)

    done = {seq for seq in seqs(tmp_path / "out") if seq <= 310}
    told = [range(lost.gap_from, lost.gap_to + 1) for lost in summary.lost]
    assert set(range(1, 101)) <= done
    assert {seq for each in told for seq in each} == set(range(1, 311)) - done
    assert {lost.reason for lost in summary.lost} == {"cap"}


def test_what_is_evicted_after_the_plan_is_told(data_dir: str, tmp_path: Path):
    with open_small(data_dir, hot_segments=9) as store:
        topic = fill(store)

        def evict(what: str, done: int, total: int) -> None:
            if done == 1:
                topic.alter(cap_records=170)
                for _ in range(3):  # until no checkpoint needs the segments
                    topic.append(b"later")
                    topic.enforce_retention()
                    store.checkpoint()

        summary = export(
            data_dir,
            "orders",
            str(tmp_path / "out"),
            file_rows=150,
            engine=Dying(99),
            progress=evict,
        )

    told = {seq for lost in summary.lost for seq in range(lost.gap_from, lost.gap_to + 1)}
    assert {lost.reason for lost in summary.lost} == {"cap"}
    assert told
    assert sorted([*told, *seqs(tmp_path / "out")]) == list(range(1, 501))


@pytest.mark.parametrize("results", range(6))
@pytest.mark.parametrize("partition_by", ["", "tag"])
def test_an_export_that_died_goes_on_with_the_same_records(
    cold: str, tmp_path: Path, results: int, partition_by: str
):
    out = str(tmp_path / "out")
    options: dict[str, Any] = {"file_rows": 100, "partition_by": partition_by}
    with pytest.raises(Died):
        export(cold, "orders", out, engine=Dying(results), **options)
    with open_small(cold) as store:
        store.existing_topic("orders").append(b"later")

    summary = export(cold, "orders", out, **options)

    assert sorted(seqs(tmp_path / "out")) == list(range(1, 521))
    assert summary.ranges_before >= results
    assert (summary.rows, summary.last_seq) == (520, 520)
    assert not [name for name in os.listdir(out) if name == "_columns.json"]
    assert list((tmp_path / "out/_parts").iterdir()) == []


def test_an_export_that_is_complete_does_nothing(cold: str, tmp_path: Path):
    out = str(tmp_path / "out")
    first = export(cold, "orders", out)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}

    again = export(cold, "orders", out)

    assert (first.complete, again.complete, again.rows) == (False, True, 520)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.*")} == {
        path: time for path, time in before.items() if "." in path.name
    }


@pytest.mark.parametrize(
    "options", [{"format": "csv"}, {"columns": ["seq"]}, {"from_": 5}, {"partition_by": "day"}]
)
def test_a_folder_with_another_export_is_refused(cold: str, tmp_path: Path, options: dict):
    export(cold, "orders", str(tmp_path / "out"))

    with pytest.raises(Invalid, match="with other options"):
        export(cold, "orders", str(tmp_path / "out"), **options)


def test_a_folder_that_is_not_empty_is_refused(cold: str, tmp_path: Path):
    path = write(tmp_path, "out/my notes.txt", "mine")

    with pytest.raises(Invalid, match=r"not empty \(my notes.txt\)"):
        export(cold, "orders", str(tmp_path / "out"))
    with pytest.raises(Invalid, match="is a file"):
        export(cold, "orders", path)

    assert os.listdir(tmp_path / "out") == ["my notes.txt"]


def test_an_export_of_a_topic_that_was_made_anew_is_refused(cold: str, tmp_path: Path):
    out = str(tmp_path / "out")
    with pytest.raises(Died):
        export(cold, "orders", out, file_rows=100, engine=Dying(1))
    with open_small(cold) as store:
        store.delete_topic("orders")
        fill(store)

    with pytest.raises(Conflict, match="re-created"):
        export(cold, "orders", out, file_rows=100)


def test_a_range_of_seqs_or_times(cold: str, tmp_path: Path):
    with strandline.open(cold, readonly=True) as store:
        page = store.existing_topic("orders").read(0, 1000).records
    moments = sorted({each.ts for each in page})
    begin, end = (iso(moment) for moment in (moments[1], moments[-1]))

    export(cold, "orders", str(tmp_path / "a"), from_=100, until=200)
    export(cold, "orders", str(tmp_path / "b"), from_=begin, until=end)
    export(cold, "orders", str(tmp_path / "c"), as_of=iso(moments[1]))
    export(cold, "orders", str(tmp_path / "d"), from_=1000)

    assert seqs(tmp_path / "a") == list(range(100, 200))
    assert seqs(tmp_path / "b") == [
        each.seq for each in page if moments[1] <= each.ts < moments[-1]
    ]
    assert seqs(tmp_path / "c") == [each.seq for each in page if each.ts <= moments[1]]
    assert seqs(tmp_path / "d") == []
    assert (tmp_path / "d/_SUCCESS").exists()


def iso(moment_us: int) -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment_us)).isoformat()


def test_an_earlier_position_is_exported(cold: str, tmp_path: Path):
    then = position(cold, "orders")
    with open_small(cold) as store:
        store.existing_topic("orders").append(b"later")

    export(cold, "orders", str(tmp_path / "out"), as_of=then)

    assert seqs(tmp_path / "out")[-1] == 520


def test_a_dry_run_tells_what_there_is_to_do_and_does_nothing(cold: str, tmp_path: Path):
    planned = export(cold, "orders", str(tmp_path / "out"), file_rows=100, dry_run=True)

    assert planned.dry_run
    assert (planned.rows, planned.ranges, planned.files) == (520, 6, 6)
    assert not (tmp_path / "out").exists()


def test_a_writer_may_append_meanwhile(data_dir: str, tmp_path: Path):
    ended = threading.Event()
    with strandline.open(data_dir) as store:
        topic = store.topic("t")
        topic.append([b"x"] * 100)

        def keep_appending() -> None:
            while not ended.wait(0.001):
                topic.append([b"more"] * 10)

        writer = threading.Thread(target=keep_appending)
        writer.start()
        try:
            summary = export(store, "t", str(tmp_path / "out"), file_rows=1000)
        finally:
            ended.set()
            writer.join()

    assert seqs(tmp_path / "out") == list(range(1, summary.last_seq + 1))
    assert summary.last_seq >= 100


def test_two_runs_at_a_time_end_with_one_export(cold: str, tmp_path: Path):
    out = str(tmp_path / "out")
    failures: list[BaseException] = []

    def run() -> None:
        try:
            export(cold, "orders", out, file_rows=50)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert seqs(tmp_path / "out") == list(range(1, 521))
    assert json.loads((tmp_path / "out/_SUCCESS").read_text())["rows"] == 520


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "orc"}, "format is parquet, csv, jsonl"),
        ({"data": "hex"}, "data is binary, text, json"),
        ({"partition_by": "week"}, "partition_by is day, hour, tag"),
        ({"columns": ["nothing"]}, "no column 'nothing'"),
        ({"file_rows": -1}, "file_rows"),
        ({"from_": "yesterday"}, "not a time"),
    ],
)
def test_what_cannot_be_is_refused(cold: str, tmp_path: Path, options: dict, message: str):
    with pytest.raises(Invalid, match=message):
        export(cold, "orders", str(tmp_path / "out"), **options)

    assert not (tmp_path / "out").exists()


def test_a_topic_that_is_not_there_is_told(cold: str, tmp_path: Path):
    with pytest.raises(UnknownTopic, match="it has orders"):
        export(cold, "order", str(tmp_path / "out"))
