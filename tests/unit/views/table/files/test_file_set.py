"""Promise: rows that were added are read once each, whatever comes again, and after a reopening."""

from __future__ import annotations

import pytest

from strandline.errors import Conflict, Invalid, ObjectStoreUnreachable
from strandline.testing.sim_objects import SimObjects
from tests.unit.views.table.files.small_table import NAME, SCHEMA, Table, rows_of, table_of


def test_what_was_added_is_read():
    table = Table()

    rows = table.add(1, 10)

    assert table.rows() == rows


def test_a_reopened_table_has_its_rows():
    table = Table()
    rows = table.add(1, 10) + table.add(11, 13)

    again = table.reopened()

    assert again.segments.flushed == 13
    assert again.rows() == rows


def test_rows_that_come_again_are_taken_once():
    table = Table()
    rows = table.add(1, 10)

    table.add(1, 10)
    rows += table.add(5, 14)[6:]

    assert table.rows() == rows
    assert [(file.first_seq, file.last_seq) for file in table.segments.files] == [(1, 10), (11, 14)]


def test_files_answer_for_seqs_without_rows_in_between():
    table = Table()
    table.add(3, 5)

    table.add(9, 12)

    assert [(file.first_seq, file.last_seq) for file in table.segments.files] == [(3, 5), (6, 12)]
    assert table.seqs() == [3, 4, 5, 9, 10, 11, 12]


def test_a_flush_without_rows_moves_on():
    table = Table()
    table.add(1, 5)

    table.segments.add(table_of([]), 6, 9, SCHEMA)

    assert table.segments.flushed == 9
    assert table.rows() == rows_of(range(1, 6))


@pytest.mark.parametrize(
    ("first_seq", "last_seq", "all_are"),
    [
        (3, 8, True),
        (4, 4, True),
        (6, 8, True),
        (2, 3, False),
        (8, 9, False),
        (11, 12, False),
        (13, 13, False),
    ],
)
def test_a_seq_without_a_row_is_known_by_its_file(first_seq, last_seq, all_are):
    table = Table()
    table.add(3, 5)
    table.add(6, 8)
    table.add(10, 12)  # answers for 9, too
    table.segments.add(table_of([]), 13, 14, SCHEMA)

    assert table.segments.all_are_rows(first_seq, last_seq) is all_are


def test_opening_for_reading_creates_nothing():
    objects = SimObjects()

    table = Table(objects, readonly=True)

    assert table.rows() == []
    assert objects.snapshot() == {}
    with pytest.raises(Invalid, match="read-only"):
        table.add(1, 5)


def test_a_table_exists_once_it_has_files():
    table = Table()
    assert not table.segments.exists()

    table.add(1, 5)

    assert table.segments.exists()
    assert table.reopened().segments.manifest.name == NAME


def test_a_dropped_table_is_empty_and_takes_no_rows():
    table = Table()
    table.add(1, 5)

    table.segments.drop()

    assert table.rows() == []
    with pytest.raises(Conflict, match="deleted"):
        table.add(6, 9)
    assert [key for key in table.objects.snapshot() if "00006-" in key] == []


def test_rows_whose_commit_was_made_and_not_confirmed_are_not_written_again():
    table = Table()
    table.add(1, 5)
    table.objects.fail("create", how="after", key_contains="/manifest/")
    with pytest.raises(ObjectStoreUnreachable):
        table.add(6, 9)
    uploads = table.objects.calls["put_file"]

    table.add(6, 9)

    assert table.objects.calls["put_file"] == uploads
    assert table.rows() == rows_of(range(1, 10))
