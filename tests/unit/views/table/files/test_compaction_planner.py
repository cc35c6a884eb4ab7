"""Promise: a table has few files, and each row is written a few times only."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile
from strandline.views.table.files.compaction_planner import MergeRules, level_of, next_merge

RULES = MergeRules(flush_rows=100, merge_files=8, rows_max=10_000)


def files_of(rows: Sequence[int]) -> list[LakeFile]:
    found, seq = [], 1
    for count in rows:
        found.append(
            LakeFile(
                first_seq=seq,
                last_seq=seq + 999,
                rows=count,
                size=1,
                payload=1,
                ts_min=0,
                ts_max=0,
                content="0" * 32,
                tail_offset=0,
                tail_checksum=0,
            )
        )
        seq += 1000
    return found


def chosen(rows: Sequence[int], rules: MergeRules = RULES) -> list[int]:
    """The places of the files that are merged next."""
    return [file.first_seq // 1000 for file in next_merge(files_of(rows), BitMap64(), rules)]


def grown(flushes: Sequence[int], rules: MergeRules = RULES) -> tuple[list[int], int]:
    """The files after many flushes, and how many rows were written by merges."""
    rows: list[int] = []
    written = 0
    for flush in flushes:
        rows.append(flush)
        while places := chosen(rows, rules):
            total = sum(rows[place] for place in places)
            written += total
            rows[places[0] : places[-1] + 1] = [total]
    return rows, written


@pytest.mark.parametrize(
    ("rows", "level"), [(100, 0), (150, 0), (800, 1), (700, 1), (6400, 2), (12, -1), (0, -2)]
)
def test_the_level_follows_from_the_rows(rows: int, level: int):
    assert level_of(rows, RULES) == level


def test_eight_files_of_a_level_are_merged():
    assert chosen([100] * 8) == list(range(8))
    assert chosen([800] + [100] * 8) == list(range(1, 9))


def test_seven_wait():
    assert chosen([100] * 7) == []
    assert chosen([800] * 7 + [100] * 7) == []


def test_five_are_enough_where_no_more_will_come():
    assert chosen([100] * 5 + [800]) == [0, 1, 2, 3, 4]
    assert chosen([100] * 4 + [800]) == []


def test_small_files_between_do_not_hinder():
    assert chosen([100, 100, 100, 3, 100, 100, 100, 100, 100]) == list(range(9))


def test_a_large_file_is_not_written_again_for_a_few_rows():
    assert chosen([140, 1, 1, 1, 1, 1, 1, 1]) == []
    assert chosen([140] + [1] * 8) == list(range(1, 9))


def test_no_file_becomes_larger_than_allowed():
    assert chosen([6400, 6400, 6400]) == []
    assert sum([2000] * len(chosen([2000] * 8))) <= 10_000


@pytest.mark.parametrize("flush", [1, 7, 100, 130])
def test_files_stay_few_and_rows_are_written_seldom(flush: int):
    rows, written = grown([flush] * 1000)

    assert sum(rows) == flush * 1000
    assert len(rows) <= 8 * 4 + sum(rows) // (RULES.rows_max // 4)
    assert written <= 5 * sum(rows)


def test_flushes_of_all_sizes_stay_few_too():
    sizes = [(number * 7919) % 173 + 1 for number in range(1500)]

    rows, written = grown(sizes)

    assert len(rows) <= 8 * 4 + sum(rows) // (RULES.rows_max // 4)
    assert written <= 6 * sum(rows)


def test_a_file_with_many_hidden_rows_is_rewritten_alone():
    files = files_of([100, 100])

    few = next_merge(files, BitMap64(range(1001, 1010)), RULES)
    many = next_merge(files, BitMap64(range(1001, 1040)), RULES)

    assert list(few) == []
    assert list(many) == [files[1]]
