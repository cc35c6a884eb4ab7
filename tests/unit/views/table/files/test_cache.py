"""Promise: the cache keeps within its share, gives memory back when asked, and decodes once what
many ask for at the same time."""

from __future__ import annotations

import threading

import pytest

from strandline.config.memory_budget import MemoryShare
from strandline.views.table.files import spool_reader
from strandline.views.table.files.table_file import TableFile
from tests.unit.views.table.files.small_table import SCHEMA, Table, rows_of


def grown(files: int = 6, rows: int = 400, **options: object) -> Table:
    table = Table(zone_rows=64, flush_rows=100_000, **options)
    for number in range(files):
        table.add(number * rows + 1, (number + 1) * rows)
    return table


def test_the_share_is_never_passed():
    table = grown(cache_bytes=60_000)
    used = []

    for _ in range(3):
        assert len(table.rows()) == 2400
        used.append(table.share.used)

    assert all(0 < each <= 60_000 for each in used)


def test_what_does_not_fit_beside_an_open_file_is_not_kept():
    table = grown(files=1)
    table.read(["amount"])
    opened = table.share.used

    tight = table.reopened(cache_bytes=opened + 2000, zone_rows=64)
    amounts = tight.read(["amount"]).tables()[0]

    assert len(amounts) == 400
    assert tight.share.used <= opened + 2000


def test_memory_is_given_back_when_others_need_it():
    table = grown(cache_bytes=1 << 20)
    table.rows()
    before = table.share.used

    table.share.admit(table.share.limit - 2000)

    assert before > 100_000
    assert table.share.used <= 2000
    assert len(table.rows()) == 2400


def _reads(table: Table, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often files are read to see all rows."""
    reads = []
    read = TableFile.read

    def counted(self: TableFile, columns: object, zones: object) -> object:
        reads.append(columns)
        return read(self, columns, zones)

    with monkeypatch.context() as patch:
        patch.setattr(TableFile, "read", counted)
        assert len(table.rows()) == 2400
    return len(reads)


def test_a_table_that_is_in_use_takes_the_room_of_one_that_is_not(monkeypatch: pytest.MonkeyPatch):
    idle = grown()
    idle.rows()
    share = MemoryShare(idle.share.used + 4000)
    idle, busy = grown(share=share), grown(share=share)

    idle.rows()
    rounds = [_reads(busy, monkeypatch) for _ in range(8)]

    assert rounds[0] == 6
    assert rounds[-1] == 0
    assert share.used <= share.limit


def test_room_for_a_column_is_not_made_by_closing_the_files_of_its_table(
    monkeypatch: pytest.MonkeyPatch,
):
    table = grown()
    table.read(["seq"])
    opened = table.share.used
    tight = grown(cache_bytes=opened + 1000)
    tight.rows()
    opens = []
    monkeypatch.setattr(TableFile, "_footer", lambda self: opens.append(self.path))

    tight.rows()

    assert opens == []


def test_files_that_were_merged_away_take_no_memory():
    table = Table(zone_rows=64, flush_rows=400, merge_files=8)
    for number in range(8):
        table.add(number * 400 + 1, (number + 1) * 400)
    table.rows()
    while table.segments.compact_once(SCHEMA):
        pass
    table.rows()
    merged = table.share.used

    fresh = table.reopened(zone_rows=64)
    fresh.rows()

    assert len(table.segments.files) == 1
    assert merged == fresh.share.used


def test_closing_gives_everything_back():
    table = grown()
    table.rows()

    table.segments.close()

    assert table.share.used == 0


def test_many_who_ask_at_once_make_one_read(monkeypatch: pytest.MonkeyPatch):
    table = grown(files=1)
    table.read(["amount"])  # opens the file
    reads = []
    begin = threading.Barrier(8)
    read = TableFile.read

    def counted(self: TableFile, columns: object, zones: object) -> object:
        reads.append(columns)
        return read(self, columns, zones)

    monkeypatch.setattr(TableFile, "read", counted)
    found = []

    def ask() -> None:
        begin.wait(30)
        found.append(sum(each.num_rows for each in table.read(["amount", "plan"]).tables()))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)

    assert found == [400] * 8
    assert len(reads) == 1


def test_readers_see_all_rows_while_files_come_and_are_merged():
    table = Table(merge_files=2, cache_bytes=50_000)
    table.add(1, 8)
    problems: list[object] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            pinned = table.segments.pin()
            last = pinned.flushed
            pinned.close()
            seqs = table.seqs()
            if seqs != list(range(1, len(seqs) + 1)) or len(seqs) < last:
                problems.append(seqs)

    readers = [threading.Thread(target=look) for _ in range(3)]
    for each in readers:
        each.start()
    for number in range(1, 30):
        table.add(number * 8 + 1, number * 8 + 8)
        table.segments.compact_once(SCHEMA)
        table.clock.advance(1)
        table.segments.sweep()
    done.set()
    for each in readers:
        each.join(30)

    assert problems == []
    assert table.rows() == rows_of(range(1, 241))


def test_indexes_are_the_same_when_columns_are_read_back(monkeypatch: pytest.MonkeyPatch):
    kept = grown(files=1)
    monkeypatch.setattr(spool_reader, "MEMORY_ROWS_MAX", 10)
    read_back = grown(files=1)

    sides = [
        [data.data for key, data in table.objects.snapshot().items() if key.endswith(".zones")]
        for table in (kept, read_back)
    ]

    assert sides[0] == sides[1]
    assert len(sides[0][0]) > 100
