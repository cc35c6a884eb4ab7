"""Promise: who reads a table's files by himself is told which, and what of them to leave out."""

from __future__ import annotations

import pyarrow.parquet as pq

import strandline
from strandline.store import Store
from strandline.views.table.condition import Compare
from strandline.views.table.snapshot import SEQ


def three_files(store: Store) -> None:
    table = store.table("pay")
    table.define({"n": "i64"})
    for part in range(3):
        table.store_many("c", [{"n": 100 * part + n} for n in range(10)])
        table.flush()
    table.store_many("c", [{"n": 1000}, {"n": 1001}])


def test_files_and_memory_are_all_there_is(data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        three_files(store)

        apart = store.table("pay").snapshot().read([SEQ, "n"]).external_scan()

        files = [pq.read_table(f"{each.lake}/{each.key}") for each in apart.files]
        seqs = [seq for part in (*files, *apart.memory) for seq in part[SEQ].to_pylist()]
        assert sorted(seqs) == list(range(2, 34))  # the first record is the definition
        assert [each.is_cut for each in apart.files] == [False] * 3


def test_a_file_with_rows_that_are_not_wanted_is_cut(data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        three_files(store)

        news = store.table("pay").snapshot(28).read(["n"], after=15).external_scan()

        assert [(each.first_seq, each.last_seq, each.is_cut) for each in news.files] == [
            (12, 21, True),
            (22, 31, True),
        ]
        assert (news.first_seq, news.last_seq) == (16, 28)


def test_a_file_with_hidden_rows_is_cut_and_others_are_not(data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        three_files(store)
        store.run("DELETE pay WHERE n = 105")

        apart = store.table("pay").snapshot().read(["n"]).external_scan()

        assert [each.is_cut for each in apart.files] == [False, True, False]
        assert list(apart.hidden) == [17]


def test_files_that_the_indexes_rule_out_are_not_named(data_dir):
    with strandline.open(data_dir, start_jobs=False) as store:
        three_files(store)

        apart = store.table("pay").snapshot().read(["n"], Compare("n", ">=", 200)).external_scan()

        assert [each.first_seq for each in apart.files] == [22]
