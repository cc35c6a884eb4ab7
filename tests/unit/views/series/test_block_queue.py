"""Promise: blocks wait in order, are found by their source, and leave when they are written."""

from __future__ import annotations

from strandline.views.series.block_queue import BlockQueue


def filled() -> BlockQueue:
    pending = BlockQueue()
    for n in range(6):
        pending.add(n % 2, b"key%d" % n, b"block%d" % n)
    return pending


def test_the_blocks_of_a_source_are_found_oldest_first():
    pending = filled()

    assert [key for key, _ in pending.of(1)] == [b"key1", b"key3", b"key5"]
    assert pending.of(7) == []
    assert len(pending) == 6


def test_a_batch_is_of_the_oldest_and_stays_until_it_is_written():
    pending = filled()

    portions = pending.oldest(4)

    assert [(number, len(entries)) for number, entries in portions] == [(0, 3), (1, 1)]
    assert len(pending) == 6


def test_what_is_written_leaves_and_the_rest_is_found():
    pending = filled()

    for portion in pending.oldest(4):
        pending.drop(portion)

    assert [key for key, _ in pending.of(1)] == [b"key3", b"key5"]
    assert (len(pending), pending.of(0)) == (2, [])


def test_an_empty_queue_takes_no_memory():
    pending = filled()
    size = pending.size

    for portion in pending.oldest(100):
        pending.drop(portion)

    assert size > 6 * len(b"key0block0")
    assert (len(pending), pending.size, pending.oldest(5)) == (0, 0, [])
