"""Promise (C1, E8): a location gives the record that was placed there, or an error that says where.

Windows, masks and a log that grows meanwhile make no difference.
"""

from __future__ import annotations

import errno
import tracemalloc

import pytest

from strandline.config.settings import WalSettings
from strandline.errors import Corrupt
from strandline.log.wal.log_files import LOCATION_LSN, MASKED_BLOCK_AT
from tests.unit.log.wal.log import Log

LARGE = WalSettings(file_size_first=4 << 20, file_size_max=4 << 20)


def test_neighbours_share_reads_that_grow():
    log = Log(settings=LARGE)
    locations = [log.single(b"record %d" % number) for number in range(500)]
    reader = log.reader()
    before = log.disk.calls["pread"]

    found = [reader.single(location)[3] for location in locations]

    assert found == [b"record %d" % number for number in range(500)]
    assert log.disk.calls["pread"] - before == 3  # 4 KiB, 32 KiB, and all the rest


def test_records_far_apart_are_found_in_any_order():
    log = Log(settings=LARGE)
    locations = [log.batch([b"%d" % number, b"x" * 60_000]) for number in range(20)]
    reader = log.reader()

    for number in (19, 0, 7, 7, 18, 1):
        assert reader.block(locations[number]).data()[0].as_py() == b"%d" % number


def test_a_record_placed_after_the_window_was_read_is_found():
    log = Log(settings=LARGE)
    first = log.single(b"first")
    reader = log.reader()
    reader.single(first)

    later = log.single(b"later")
    batched = log.batch([b"a", b"b"])

    assert reader.single(later)[3] == b"later"
    assert reader.block(batched).data().to_pylist() == [b"a", b"b"]


def test_a_record_larger_than_a_window_is_found():
    log = Log(settings=LARGE)
    locations = [log.single(bytes([number]) * 300_000) for number in range(3)]
    reader = log.reader()

    assert [reader.single(place)[3][0] for place in locations] == [0, 1, 2]


def test_a_masked_block_is_found():
    log = Log(settings=LARGE)

    location = log.batch([bytes(5000), b"x", bytes(5000)])

    assert location & 7 == MASKED_BLOCK_AT
    assert log.reader().block(location).data().to_pylist() == [bytes(5000), b"x", bytes(5000)]


@pytest.mark.parametrize("masked", [False, True])
def test_any_damage_of_a_record_is_reported_with_its_place(masked):
    log = Log(settings=LARGE)
    data = bytes(1500) if masked else b"x" * 1500
    single, batched = log.single(data), log.batch([data])
    entry, offset = log.files.locate(single & LOCATION_LSN)
    whole = entry.file.pread(log.writer.end_lsn, offset)

    for place in (*range(0, 1500, 97), *range(1800, 3000, 97)):
        entry.file.write(offset + place, [bytes([whole[place] ^ 1])])
        with pytest.raises(Corrupt) as caught:
            _ = log.reader().single(single), log.reader().block(batched)
        entry.file.write(offset + place, [whole[place : place + 1]])

        assert caught.value.path == entry.path
        assert caught.value.offset in (offset, log.files.locate(batched & LOCATION_LSN)[1])
    assert log.reader().single(single)[3] == log.reader().block(batched).data()[0].as_py() == data


def test_a_block_that_lies_about_its_size_costs_no_memory():
    log = Log(settings=LARGE)
    location = log.batch([bytes(5000)])
    entry, offset = log.files.locate(location & LOCATION_LSN)
    entry.file.write(offset, [b"\xf0" * 16])
    tracemalloc.start()

    with pytest.raises(Corrupt):
        log.reader().block(location)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * LARGE.file_size_max


def test_a_file_that_was_cut_short_is_damage_not_a_crash():
    log = Log(settings=LARGE)
    location = log.batch([b"y" * 50_000])
    short = log.files.entries[0]
    content = short.file.pread(short.size, 0)[:30_000]
    log.disk.durable_replace(short.path, content)
    short.file = log.disk.open_read(short.path)

    with pytest.raises(Corrupt):
        log.reader().block(location)


def test_a_read_error_reaches_the_caller_and_the_next_read_works():
    log = Log(settings=LARGE)
    location = log.single(b"x")
    log.disk.fail("pread", errno=errno.EIO)

    with pytest.raises(OSError, match="Input/output"):
        log.reader().single(location)

    assert log.reader().single(location)[3] == b"x"
