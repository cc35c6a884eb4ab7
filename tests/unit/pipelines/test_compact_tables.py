"""Promise: a compaction merges the files of event tables by context and time, beside their store or
without it, and every question has the same answer as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import strandline
from strandline.lake import external_reader
from strandline.pipelines import Embedded, compact, scrub
from strandline.store import Store
from strandline.views.table.condition import Compare

FILES = 4
ROWS = 500


@pytest.fixture
def store(data_dir) -> Iterator[Store]:
    with strandline.open(data_dir, start_jobs=False) as opened:
        yield opened


def fill(store: Store, files: int = FILES) -> None:
    """A table of several files, of two versions of the schema, with some rows deleted."""
    table = store.table("pay")
    for number in range(files):
        fields = {"amount": "u64"} | ({"note": "string | null"} if number else {})
        if number < 2:
            table.define(fields)
        contexts = [f"user-{(row * 7) % 40:02}" for row in range(ROWS)]
        table.store_many(contexts, [b'{"amount":%d}' % (row % 90) for row in range(ROWS)])
        table.flush()
    table.delete(Compare(field="amount", op="=", value=13))


def answers(store: Store) -> list[object]:
    questions = [
        "QUERY pay",
        'QUERY pay FOR "user-07"',
        "QUERY pay WHERE amount > 80 COUNT, TOTAL amount BY context",
        "QUERY pay ORDER BY amount DESC LIMIT 7",
    ]
    return [store.run(question).rows() for question in questions]


def files_of(store: Store) -> list[str]:
    return [file.url for file in external_reader.files(f"{store.path}/lake", "pay:table").files]


def path_of(url: str) -> Path:
    return Path(url.removeprefix("file://"))


def test_files_become_one_by_context_and_time_and_answers_stay(store):
    fill(store)
    before = answers(store)

    summary = compact(store, ["pay:table"])

    assert (summary.files_before, summary.files_after, summary.skipped) == (FILES, 1, [])
    (file,) = files_of(store)
    rows = pq.read_table(path_of(file), columns=["context", "ts", "seq"]).to_pylist()
    keys = [(row["context"], row["ts"], row["seq"]) for row in rows]
    assert keys == sorted(keys)
    assert answers(store) == before


def test_a_store_that_opens_afterwards_finds_the_merged_files(data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        fill(store)
        before = answers(store)

    compact(data_dir)

    assert scrub(data_dir, store=data_dir).ok
    with strandline.open(data_dir, start_jobs=False) as store:
        assert store.table("pay").statistics().files == 1
        assert answers(store) == before
        plan = store.run('EXPLAIN QUERY pay FOR "user-07"').rows()[0]
        assert "context" in str(plan["tables"])


def test_rows_that_are_told_as_deleted_leave_the_files(store):
    fill(store)
    store.table("pay")._host.fold.segments.hide(store.table("pay")._host.fold.hidden)

    summary = compact(store, ["pay:table"])

    gone = FILES * sum(row % 90 == 13 for row in range(ROWS))
    assert summary.rows_dropped == gone
    (file,) = files_of(store)
    assert pq.read_metadata(path_of(file)).num_rows == FILES * ROWS - gone


def test_the_store_goes_on_beside_it(store):
    fill(store)
    compact(store, ["pay:table"])
    table = store.table("pay")
    before = store.run("QUERY pay COUNT").rows()[0]["count"]

    for number in range(3):
        table.store_many(["user-07"] * 10, [b'{"amount":1,"note":"later %d"}' % number] * 10)
        table.flush()
    table.compact()
    compact(store, ["pay:table"])
    table.store_many(["user-07"], [b'{"amount":1,"note":"last"}'])

    assert store.run("QUERY pay COUNT").rows() == [{"count": before + 31}]
    assert store.run('QUERY pay FOR "user-07" WHERE note = "last" COUNT').rows() == [{"count": 1}]


class Overtaken(Embedded):
    """An engine during whose tasks the store merges the same files."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        done = list(super().run(work, tasks))
        self._meanwhile()
        yield from done


def test_whoever_is_overtaken_gives_way_and_leaves_nothing(store):
    fill(store)
    before = answers(store)
    table = store.table("pay")

    summary = compact(store, ["pay:table"], engine=Overtaken(lambda: compact(store, ["pay:table"])))

    (skipped,) = summary.skipped
    assert "another writer was first" in skipped.reason
    assert not skipped.damaged
    assert answers(store) == before
    listed = {Path(url).name for url in map(path_of, files_of(store))}
    folder = path_of(files_of(store)[0]).parent
    there = {each.name for each in folder.iterdir()}
    assert len(there - listed) == FILES  # those that have left, for a while
    sides = {each.name.removesuffix(".zones") for each in (folder.parent / "zones").iterdir()}
    assert sides == there
    assert table.statistics().rows == len(before[0])


def test_a_damaged_file_is_told_and_left_alone(data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        fill(store)
        urls = files_of(store)
    path = path_of(urls[1])
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)

    summary = compact(data_dir, ["pay:table"])

    (skipped,) = summary.skipped
    assert skipped.damaged
    assert path.name in skipped.reason
    assert summary.files_after == FILES


def test_a_file_that_is_missing_is_damage(data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        fill(store)
        urls = files_of(store)
    path_of(urls[2]).unlink()

    summary = compact(data_dir, ["pay:table"])

    (skipped,) = summary.skipped
    assert skipped.damaged
    assert path_of(urls[2]).name in skipped.reason
