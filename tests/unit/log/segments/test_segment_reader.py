"""Promise (C1, C3, E8): a segment gives back what was written, from bounded memory and few files.

Damage, a missing file or one that belongs elsewhere is an error that says where and what.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from strandline.config.settings import SegmentSettings
from strandline.errors import Corrupt, UnsupportedFormat
from strandline.log.segments import codec
from strandline.log.segments.reader import BlockCache, Segment
from strandline.log.segments.rows import RecordRows
from strandline.log.segments.segment_set import SegmentSet
from strandline.log.wal import block
from strandline.testing.sim_disk import SimDisk

STORE_ID = bytes(range(16))
DIRECTORY = "/data/segments"


class Shelf:
    """A library of segments on a simulated disk."""

    def __init__(self, **changes: object) -> None:
        self.disk = SimDisk()
        settings = SegmentSettings(**changes)
        self.library = SegmentSet(self.disk, DIRECTORY, settings, store_id=STORE_ID, seed=5)

    def segment(self, topic_id: int = 1, blocks: int = 4, rows: int = 10) -> Segment:
        """A segment of one topic with blocks that differ."""
        writer, info = self.library.begin_segment(topic_id, 1)
        for number in range(blocks):
            data = [b"%04d" % (number * rows + row) * 25 for row in range(rows)]
            first_seq = 1 + number * rows
            stamps = np.full(rows, 100 + number, "<i8")
            writer.add(
                topic_id or 9, RecordRows(first_seq, pa.array(data, pa.binary()), {}, stamps)
            )
        return self.library.finish_segment(writer, info, 0)

    def forget(self, segment: Segment) -> Segment:
        """The same segment as a fresh process knows it: from the checkpoint alone."""
        self.library.close()
        return self.library.add(segment.info)

    def damage(self, segment: Segment, offset: int, content: bytes = b"") -> None:
        whole = bytearray(self.disk.read(segment.path))
        if content:
            whole[offset : offset + len(content)] = content
        else:
            whole[offset] ^= 1
        self.disk.durable_replace(segment.path, bytes(whole))


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_blocks_come_back_with_their_index(compression):
    shelf = Shelf(compression=compression)

    segment = shelf.forget(shelf.segment())

    index = segment.index()
    assert index.first_seq.tolist() == [1, 11, 21, 31]
    assert index.ts_max.tolist() == [100, 101, 102, 103]
    assert segment.block(3).data()[9].as_py() == b"0039" * 25
    smaller = compression == "zstd"
    assert (index.stored_size < index.raw_size).tolist() == [smaller] * 4
    info = segment.info
    assert (info.first_seq, info.last_seq, info.record_count) == (1, 40, 40)
    assert info.payload_size == 40 * 100


def test_what_does_not_shrink_is_stored_as_it_is():
    shelf = Shelf(compression="zstd")
    writer, info = shelf.library.begin_segment(1, 1)
    writer.add(1, RecordRows(1, pa.array([b"\x07"], pa.binary()), {}, np.zeros(1, "<i8")))

    segment = shelf.library.finish_segment(writer, info, 0)

    assert segment.block(0).data().to_pylist() == [b"\x07"]


def test_the_cache_stays_within_its_size():
    shelf = Shelf(cache_bytes=4000)
    segment = shelf.segment(blocks=20)

    for place in (*range(20), *range(20)):
        segment.block(place)
        assert shelf.library.cache.size <= 4000

    assert shelf.library.cache.misses == 40


def test_a_block_that_is_used_stays_in_the_cache():
    shelf = Shelf(cache_bytes=4000)
    segment = shelf.segment(blocks=20)

    for place in range(1, 20):
        segment.block(0)
        segment.block(place)

    assert shelf.library.cache.hits == 18


def test_a_block_larger_than_the_cache_is_read_but_not_kept():
    cache = BlockCache(10)
    shelf = Shelf()
    cache.put(1, 2, shelf.segment().block(0))

    assert (cache.size, cache.get(1, 2)) == (0, None)


def test_jobs_read_past_the_cache():
    shelf = Shelf()
    segment = shelf.segment()

    segment.read_block(0)

    assert (shelf.library.cache.size, shelf.library.cache.misses) == (0, 0)


def test_only_so_many_files_stay_open(monkeypatch):
    monkeypatch.setattr("strandline.log.segments.reader._OPEN_FILES_MAX", 3)
    shelf = Shelf(cache_bytes=0)
    segments = [shelf.segment(topic_id) for topic_id in range(1, 8)]
    before = shelf.disk.calls["open_read"]

    for _ in range(2):
        for segment in segments:
            segment.block(0)
    opened = shelf.disk.calls["open_read"] - before
    segments[-1].block(1)

    assert opened == 14
    assert shelf.disk.calls["open_read"] - before == 14


def test_a_file_is_opened_only_when_somebody_reads_there():
    shelf = Shelf()
    info = shelf.segment().info
    shelf.library.close()
    before = shelf.disk.calls_total

    shelf.library.add(info)

    assert shelf.disk.calls_total == before


def test_any_flipped_byte_is_noticed_with_its_place():
    shelf = Shelf()
    segment = shelf.segment(blocks=2, rows=2)
    whole = shelf.disk.read(segment.path)

    for offset in range(len(whole)):
        shelf.damage(segment, offset)
        fresh = shelf.forget(segment)
        with pytest.raises((Corrupt, UnsupportedFormat)) as caught:
            _ = fresh.read_block(0), fresh.read_block(1)
        shelf.disk.durable_replace(segment.path, whole)
        assert segment.path in str(caught.value)


def test_a_damaged_block_says_which_records_are_affected_and_spares_the_others():
    shelf = Shelf()
    segment = shelf.segment()
    shelf.damage(segment, int(segment.index().offset[1]) + 60)
    fresh = shelf.forget(segment)

    with pytest.raises(Corrupt) as caught:
        fresh.block(1)

    error = caught.value
    assert (error.topic_id, error.first_seq, error.last_seq) == (1, 11, 20)
    assert fresh.block(0).count == fresh.block(2).count == 10


def test_a_block_in_another_block_s_place_is_noticed():
    shelf = Shelf()
    segment = shelf.segment()
    index = segment.index()
    whole = shelf.disk.read(segment.path)
    first, second = int(index.offset[0]), int(index.offset[1])
    shelf.damage(segment, first, whole[second : second + int(index.stored_size[1])])

    with pytest.raises(Corrupt):
        shelf.forget(segment).block(0)


def test_a_segment_of_another_topic_or_number_is_noticed():
    shelf = Shelf()
    one, two = shelf.segment(1), shelf.segment(2)

    shelf.disk.durable_replace(one.path, shelf.disk.read(two.path))

    with pytest.raises(Corrupt, match="that of another segment"):
        shelf.forget(one).index()


def test_a_missing_segment_says_what_is_affected():
    shelf = Shelf()
    segment = shelf.segment()
    fresh = shelf.forget(segment)
    shelf.disk.remove(segment.path)

    with pytest.raises(Corrupt, match="missing") as caught:
        fresh.index()

    assert (caught.value.first_seq, caught.value.last_seq) == (1, 40)


@pytest.mark.parametrize("step", [1, 63, 64, 65])
def test_a_cut_segment_is_noticed(step):
    shelf = Shelf()
    segment = shelf.segment(blocks=1, rows=2)
    whole = shelf.disk.read(segment.path)

    for size in range(0, len(whole), step):
        shelf.disk.durable_replace(segment.path, whole[:size])
        with pytest.raises(Corrupt):
            shelf.forget(segment).block(0)


def test_an_abandoned_segment_leaves_no_file():
    shelf = Shelf()
    writer, _ = shelf.library.begin_segment(1, 1)

    writer.abandon()

    assert shelf.disk.list_dir(f"{DIRECTORY}/{1:016x}") == []


def test_names_of_one_topic_sort_by_seq_and_shared_ones_stand_apart():
    shelf = Shelf()

    own, shared = shelf.segment(1), shelf.segment(codec.SHARED)

    assert own.info.name() == f"{1:016x}/{1:020d}-{1:020d}.seg"
    assert shared.info.name() == f"shared/{2:020d}.seg"


def test_tags_are_listed_with_their_seqs_in_a_topic_s_own_segment():
    shelf = Shelf()
    writer, info = shelf.library.begin_segment(1, 5)
    fields = {block.TAG: pa.array(["eu", None, "us", "eu"])}
    writer.add(1, RecordRows(5, pa.array([b"a"] * 4, pa.binary()), fields, np.zeros(4, "<i8")))

    tags = codec.decode_tags(shelf.library.finish_segment(writer, info, 0).packed_tags())

    assert {tag: list(BitMap64.deserialize(seqs)) for tag, seqs in tags.items()} == {
        "eu": [5, 8],
        "us": [7],
    }
