"""Promise: a damaged file of rows is told, with its path; other rows are never given for those that
were written."""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt
from strandline.lake import object_keys
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.local import FolderObjects
from tests.unit.views.table.files.small_table import COLUMNS, TABLE_ID, Table, rows_of


def key_of(table: Table) -> str:
    return object_keys.data_key(TABLE_ID, table.segments.files[0].name())


def outcome(table: Table) -> object:
    try:
        return table.reopened().rows()
    except Corrupt as damage:
        return "told" if key_of(table) in damage.path else damage


@pytest.mark.parametrize("bit", [1, 2, 128])
def test_a_flipped_bit_anywhere_is_told_or_changes_nothing(bit: int):
    table = Table()
    rows = table.add(1, 40)
    key = key_of(table)
    whole = table.objects.get(key)
    told = 0

    for place in range(bit, len(whole), 23):
        table.objects.put(key, whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        found = outcome(table)
        assert found in (rows, "told"), place
        told += found == "told"

    assert told > len(whole) // 23 // 2


def test_a_missing_file_is_told():
    table = Table()
    table.add(1, 40)
    table.objects.delete([key_of(table)])

    with pytest.raises(Corrupt, match="missing"):
        table.reopened().rows()


def test_a_file_that_became_shorter_is_told():
    table = Table()
    table.add(1, 40)
    whole = table.objects.get(key_of(table))

    for size in (0, 4, len(whole) // 2, len(whole) - 1):
        table.objects.put(key_of(table), whole[:size])
        assert outcome(table) == "told", size


def test_bits_that_flip_on_the_way_are_asked_for_again():
    table = Table()
    rows = table.add(1, 40)
    again = table.reopened()
    for nth in (1, 3):  # the footer, and the columns
        again.objects.fail("get_ranges", nth, how="flipped", key_contains="/data/")

    assert again.rows() == rows


def test_damage_names_column_and_zone():
    table = Table()
    table.add(1, 40)
    whole = table.objects.get(key_of(table))
    damaged = whole[:40] + bytes([whole[40] ^ 255]) + whole[41:]
    table.objects.put(key_of(table), damaged)

    with pytest.raises(Corrupt, match=r"column '\w+' of zone 0 fails its checksum"):
        table.reopened().rows()


def test_files_of_a_folder_are_read_and_their_damage_told(tmp_path):
    table = Table(FolderObjects(str(tmp_path), OsDisk()))
    rows = table.add(1, 40)
    assert table.rows() == table.reopened().rows() == rows == rows_of(range(1, 41))
    path = tmp_path / key_of(table)
    whole = path.read_bytes()

    told = 0
    for place in range(0, len(whole), 197):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 8]) + whole[place + 1 :])
        found = outcome(table)
        assert found in (rows, "told"), place
        told += found == "told"

    assert told > len(whole) // 197 // 3
    path.unlink()
    with pytest.raises(Corrupt, match="missing"):
        table.reopened().read(COLUMNS)
