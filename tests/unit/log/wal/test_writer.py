"""Promise (E2, E3, E6): frames follow each other without a gap, in files that are zeros before.

A placement that fails leaves nothing behind, or the shard says no to everything from then on.
"""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.config.settings import WalSettings
from strandline.errors import Closed, DiskFull, StoreFailed, Unavailable
from strandline.log.wal import codec, control_messages
from strandline.log.wal.log_files import LOCATION_LSN
from strandline.testing import strategies
from tests.unit.log.wal.log import DIRECTORY, Log

frames = st.lists(
    st.one_of(strategies.values(), st.lists(strategies.payloads(200), min_size=1, max_size=40)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=50)
@given(frames)
def test_what_was_placed_is_found_again_in_order(frames):
    log = Log()
    placed = []

    for frame in frames:
        if isinstance(frame, list):
            placed.append((log.next_seq, log.batch(frame), frame))
        else:
            placed.append((log.next_seq, log.single(frame), frame))

    reader = log.reader()
    for seq, location, frame in placed:
        if isinstance(frame, list):
            assert reader.block(location).data().to_pylist() == frame
        else:
            _, found_seq, fields, data, _ = reader.single(location)
            texts = [None if f is None else f.encode() for f in (frame.tag, frame.node)]
            assert (found_seq, data) == (seq, frame.data)
            assert fields == [frame.key, *texts, frame.meta]
    assert [seq for seq, _ in log.scanned(log.disk.kill())] == [seq for seq, _, _ in placed]


def test_a_file_that_is_full_is_followed_by_one_twice_as_large():
    log = Log()

    for _ in range(1000):
        log.single(b"x" * 200)

    sizes = [entry.size for entry in log.files.entries]
    assert sizes[:4] == [8192, 16384, 32768, 32768]
    assert [seq for seq, _ in log.scanned()] == list(range(1, 1001))


def test_files_follow_each_other_without_a_gap():
    log = Log()

    for _ in range(300):
        log.single(b"x" * 100)

    firsts = [entry.first_lsn for entry in log.files.entries]
    assert firsts[0] == 0
    assert log.names() == [f"wal-{first:020d}.log" for first in firsts]
    assert [seq for seq, _ in log.scanned()] == list(range(1, 301))


def test_a_prepared_file_is_used_at_the_next_rotation():
    log = Log()
    log.single(b"first")

    log.writer.prepare_spares()
    prepared = [name for name in log.names() if name.startswith("spare-")]
    reserved_before = log.disk.calls["reserve"]
    while len(log.files.entries) == 1:
        log.single(b"x" * 400)

    assert len(prepared) == 1
    assert not [name for name in log.names() if name.startswith("spare-")]
    assert log.disk.calls["reserve"] == reserved_before


def test_nothing_is_prepared_before_something_was_written():
    log = Log()

    log.writer.prepare_spares()

    assert log.names() == []


@pytest.mark.parametrize("prepared", [False, True])
def test_a_frame_larger_than_a_file_gets_a_file_of_its_size(prepared):
    log = Log()
    log.single(b"small")
    if prepared:
        log.writer.prepare_spares()

    location = log.batch([b"y" * 100_000])
    log.single(b"behind")

    assert log.reader().block(location).data().to_pylist() == [b"y" * 100_000]
    assert [data for _, data in log.scanned()][1] == [b"y" * 100_000]
    assert all(entry.file.size() >= entry.size for entry in log.files.entries)


def test_a_spare_that_is_too_small_for_a_frame_is_kept_for_a_later_one():
    log = Log()
    log.single(b"small")
    log.writer.prepare_spares()

    log.batch([b"y" * 20_000])
    for _ in range(500):
        log.single(b"x" * 100)

    assert [seq for seq, _ in log.scanned()] == list(range(1, 503))
    assert all(entry.file.size() == entry.size for entry in log.files.entries)


def test_a_commit_of_many_messages_is_one_frame():
    log = Log()

    log.locked(
        log.writer.place_control, 5, control_messages.Ceiling(1), control_messages.Ceiling(2)
    )
    end = log.writer.end_lsn

    assert log.locked(log.writer.place_control, 5, control_messages.Ceiling(3)) > end


def test_a_refused_writer_takes_control_messages_but_no_records():
    log = Log()
    log.single(b"before")
    log.writer.set_rejection(DiskFull("full"))

    for refused in (lambda: log.single(b"x"), lambda: log.batch([b"y"])):
        with pytest.raises(DiskFull):
            refused()
    log.locked(log.writer.place_control, 1, control_messages.Ceiling(1))

    log.writer.set_rejection(None)
    log.single(b"after")
    assert [data[0][:6].rstrip(b"\xa5\0") for _, data in log.scanned()] == [b"before", b"after"]


@pytest.mark.parametrize(("end", "error"), [("close", Closed), ("poison", StoreFailed)])
def test_a_finished_writer_takes_nothing_at_all(end, error):
    log = Log()
    log.single(b"before")
    finish = log.writer.close if end == "close" else lambda: log.writer.poison("broken")

    finish()

    for call in (lambda: log.single(b"x"), lambda: log.batch([b"y"])):
        with pytest.raises(error):
            call()
    with pytest.raises(error):
        log.locked(log.writer.place_control, 1, control_messages.Ceiling(1))


@pytest.mark.parametrize("short", [None, 0, 1000, 39_999])
def test_a_write_that_fails_leaves_no_half_frame_behind(short):
    log = Log(settings=WalSettings(file_size_first=1 << 20, file_size_max=1 << 20))
    log.single(b"before")
    log.disk.fail("write", errno=errno.ENOSPC, short=short)

    with pytest.raises(DiskFull):
        log.batch([b"y" * 40_000])
    log.single(b"after")

    assert [seq for seq, _ in log.scanned()] == [1, 2]
    assert len(log.scanned(log.disk.kill())) == 2


def test_a_write_that_cannot_be_taken_back_poisons_the_shard():
    log = Log(settings=WalSettings(file_size_first=1 << 20, file_size_max=1 << 20))
    log.single(b"before")
    log.disk.fail("write", errno=errno.EIO, once=False, short=100)

    with pytest.raises(StoreFailed):
        log.batch([b"y" * 40_000])

    with pytest.raises(StoreFailed):
        log.single(b"after")
    assert [seq for seq, _ in log.scanned(log.disk.kill())] == [1]


@pytest.mark.parametrize("step", ["reserve", "open_log", "rename"])
def test_a_rotation_that_fails_can_be_tried_again(step):
    log = Log()
    log.single(b"first")
    fault = log.disk.fail(step, errno=errno.ENOSPC)
    large = [b"x" * 10_000]

    with pytest.raises(DiskFull):
        log.batch(large)
    log.batch(large)

    assert fault.fired == 1
    assert [seq for seq, _ in log.scanned()] == list(range(1, log.next_seq))


def test_another_failure_of_a_rotation_is_unavailable():
    log = Log()
    log.disk.fail("reserve", errno=errno.EIO)

    with pytest.raises(Unavailable):
        log.single(b"x")


def test_stamps_never_go_back():
    log = Log()
    log.single(b"a")
    log.clock.jump_wall(-3600)

    earlier = log.locked(log.writer.stamp)
    log.clock.advance(7200)
    later = log.locked(log.writer.stamp)

    assert later - earlier == 3600 * 1_000_000


@settings(max_examples=40)
@given(st.integers(0, 70), st.integers(400, 3000), st.binary(max_size=3))
def test_a_frame_of_zeros_has_no_zero_sector_on_disk(before, size, end):
    log = Log(settings=WalSettings(file_size_first=1 << 20))
    for _ in range(before):
        log.single(b"x")
    start = log.writer.end_lsn

    location = log.single(bytes(size) + end)
    batched = log.batch([bytes(size)])

    entry, offset = log.files.locate(start)
    stored = entry.file.pread(log.writer.end_lsn - start, offset)
    sectors = range(-offset % codec.SECTOR, len(stored) - codec.SECTOR + 1, codec.SECTOR)
    assert all(any(stored[first : first + codec.SECTOR]) for first in sectors)
    assert log.reader().single(location)[3] == bytes(size) + end
    assert log.reader().block(batched).data().to_pylist() == [bytes(size)]


def test_files_below_an_lsn_can_be_dropped_and_then_say_so():
    log = Log()
    locations = [log.single(b"x" * 200) for _ in range(300)]
    second = log.files.entries[1].first_lsn

    gone = log.files.drop_below(second)

    assert gone == [f"{DIRECTORY}/wal-{0:020d}.log"]
    with pytest.raises(Closed):
        log.reader().single(locations[0])
    assert log.reader().single(locations[-1])[1] == 300
    assert locations[-1] & LOCATION_LSN > second
