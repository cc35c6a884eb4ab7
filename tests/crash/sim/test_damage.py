"""Promise: damage is noticed and never taken for a torn write, and nothing is thrown away in doubt.

C1, C4 and C8 in short, each the counterpart of a mutant; tests/corruption goes through every byte.
"""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt
from strandline.testing.crash_choices import Newest
from strandline.testing.sim_disk import SimDisk
from tests.crash.sim.lineage import Entry
from tests.crash.sim.world import PATH, World

WAL = f"{PATH}/wal/shard-00"


def _world(*payloads: bytes) -> World:
    world = World(1)
    world.create("orders", durability="fsync")
    for payload in payloads:
        world.append("orders", [Entry(payload)])
    return world


def _place_of(disk: SimDisk, folder: str, content: bytes) -> tuple[str, int]:
    """The file below a folder that holds these bytes, and where."""
    for name in disk.list_dir(folder):
        path = f"{folder}/{name}"
        offset = -1 if disk.is_dir(path) else disk.read(path).find(content)
        if offset >= 0:
            return path, offset
    raise AssertionError("the bytes are in no file")


def _overwrite(disk: SimDisk, path: str, offset: int, content: bytes) -> None:
    """Change bytes of a file in place, under whoever has it open."""
    file = disk.open_log(path)
    file.write(offset, [content])
    file.close()


def _flip_in(disk: SimDisk, folder: str, content: bytes) -> None:
    path, offset = _place_of(disk, folder, content)
    _overwrite(disk, path, offset, bytes([content[0] ^ 1]))


def test_a_flipped_bit_under_an_open_log_is_noticed_by_a_reader():
    world = _world(b"first", b"second")
    _flip_in(world.disk, WAL, b"second")

    with pytest.raises(Corrupt):
        world.topic("orders").read()


def test_a_flipped_bit_in_a_segment_is_noticed_by_a_reader():
    world = _world(b"first", b"second")
    world.checkpoint()
    _flip_in(world.disk, f"{PATH}/segments/shared", b"second")

    with pytest.raises(Corrupt):
        world.topic("orders").read()


def test_a_log_is_not_cut_at_a_damaged_frame():
    world = _world(b"first", b"second", b"third")
    after = world.disk.crash(Newest())
    _flip_in(after, WAL, b"second")

    with pytest.raises(Corrupt):
        world.opened(after)


def test_zeros_where_synced_frames_were_are_no_torn_write():
    world = _world(b"first", bytes([7]) * 2000, b"third")
    after = world.disk.crash(Newest())
    path, offset = _place_of(after, WAL, bytes([7]) * 2000)
    _overwrite(after, path, offset, bytes(1024))

    with pytest.raises(Corrupt):
        world.opened(after)


def test_a_damaged_last_frame_full_of_zeros_is_no_torn_write():
    world = _world(b"first", b"last" + bytes(5000) + b"end")
    after = world.disk.crash(Newest())
    path, offset = _place_of(after, WAL, b"first")
    content = after.read(path)
    end = len(content.rstrip(b"\0"))
    _overwrite(after, path, end - 300, bytes([content[end - 300] ^ 1]))
    assert end > offset + 5000

    with pytest.raises(Corrupt):
        world.opened(after)


def test_a_frame_that_was_written_to_the_next_frames_place_is_noticed():
    world = _world(b"a" * 100, b"b" * 100, b"c" * 100)
    after = world.disk.crash(Newest())
    path, second = _place_of(after, WAL, b"b" * 100)
    content = after.read(path)
    last = content.find(b"c" * 100)
    size = last - second
    start = second - 72  # the header of a frame, before its payload
    _overwrite(after, path, start + size, content[start : start + size])

    with pytest.raises(Corrupt):
        world.opened(after)


def _orphan(disk: SimDisk) -> str:
    """Put a segment there that no root lists."""
    path = f"{PATH}/segments/shared/{9:020d}.seg"
    disk.durable_replace(path, b"perhaps the only copy")
    return path


def test_a_segment_that_nothing_refers_to_is_set_aside_not_deleted():
    world = _world(b"first")
    world.checkpoint()
    after = world.disk.crash(Newest())
    path = _orphan(after)

    world.opened(after)

    aside = f"{PATH}/quarantine"
    assert not after.exists(path)
    assert [after.read(f"{aside}/{name}") for name in after.list_dir(aside)] == [
        b"perhaps the only copy"
    ]


@pytest.mark.parametrize("place", [0, -1])
def test_nothing_is_set_aside_when_either_root_is_damaged(place):
    world = _world(b"first")
    world.checkpoint()
    world.append("orders", [Entry(b"second")])
    world.checkpoint()
    after = world.disk.crash(Newest())
    path = _orphan(after)
    root = f"{PATH}/meta/{after.list_dir(f'{PATH}/meta')[place]}"
    _overwrite(after, root, 60, b"\xff\xff\xff")

    world.opened(after)

    assert after.exists(path)
