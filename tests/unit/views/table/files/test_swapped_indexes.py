"""Guarantee: indexes that belong to other rows exclude no zone. They are reported and not used."""

from __future__ import annotations

import itertools
import logging

import pytest

from strandline.errors import Corrupt
from strandline.views.table.condition import Compare
from strandline.views.table.files import index_file, layout
from strandline.views.table.files.row_order import sort_rows
from strandline.views.table.index.index_builder import build
from tests.unit.views.table.files.small_table import (
    SCHEMA,
    TABLE_ID,
    ZONE_ROWS,
    Table,
    row_of,
    table_of,
)

SEQS = range(1, 25)


def three_files() -> tuple[Table, list[str]]:
    """Files of the same number of rows, and the keys of their indexes."""
    table = Table()
    for first_seq in (1, 9, 17):
        table.add(first_seq, first_seq + 7)
    return table, [layout.index_key(TABLE_ID, file.name()) for file in table.segments.files]


def without_identity(table: Table) -> None:
    """Write the indexes as earlier versions did."""
    for file in table.segments.files:
        rows = table_of([row_of(seq) for seq in range(file.first_seq, file.last_seq + 1)])
        key = layout.index_key(TABLE_ID, file.name())
        table.objects.put(key, build(sort_rows(rows), SCHEMA, ZONE_ROWS))


def missing(table: Table) -> list[int]:
    """The seqs of rows that a search for their amount does not return."""
    again = table.reopened()
    return [seq for seq in SEQS if seq not in again.seqs(where=Compare("amount", "=", seq * 10))]


@pytest.mark.parametrize("is_older", [False, True])
def test_swapped_indexes_are_reported_and_hide_no_row(is_older: bool, caplog):
    table, keys = three_files()
    if is_older:
        without_identity(table)
    whole = {key: table.objects.get(key) for key in keys}
    wrong = []

    for one, other in itertools.permutations(keys, 2):
        table.objects.put(one, whole[other])
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            if missing(table) or one not in caplog.text:
                wrong.append((one, other))
        table.objects.put(one, whole[one])

    assert wrong == []


@pytest.mark.parametrize("is_older", [False, True])
def test_indexes_in_their_own_place_are_used(is_older: bool, caplog):
    table, _ = three_files()
    if is_older:
        without_identity(table)

    reading = table.reopened().read(where=Compare("amount", "=", 90))

    assert reading.facts.zones_kept == 1
    assert caplog.text == ""


def test_indexes_of_another_file_are_named_with_both_files():
    table, keys = three_files()
    first, second, _ = table.segments.files
    table.objects.put(keys[0], table.objects.get(keys[1]))

    with pytest.raises(Corrupt, match=second.name()) as raised:
        index_file.read_indexes(table.objects, TABLE_ID, first, lambda: ([], []))

    assert keys[0] in raised.value.path
