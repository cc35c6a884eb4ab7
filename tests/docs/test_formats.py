"""Promise: the byte examples in docs/format are what the code writes today, and what it reads."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from strandline.config.settings import SegmentSettings, TopicConfig, WalSettings
from strandline.lake.cold_index import ColdEntry
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files.checkpoint_codec import ShardEntry, StoreCheckpoint, TopicEntry
from strandline.log.segments.codec import decode_tags
from strandline.log.segments.reader import SegmentInfo
from strandline.log.segments.rows import of_singles
from strandline.log.segments.segment_set import SegmentSet
from strandline.log.wal import block, codec, control_messages
from strandline.log.wal.log_files import ShardFiles
from strandline.log.wal.reader import Reader
from strandline.log.wal.recovery import ShardLog
from strandline.log.wal.writer import Writer
from strandline.testing.sim_clock import WALL_US_START, SimClock
from strandline.testing.sim_disk import SimDisk
from tests.docs.format_page import worked_example
from tests.house.tree import read_document

PAGES = [f"docs/format/{name}.md" for name in ("wal", "segment", "checkpoint", "lake")]
PAGE_LINES_MAX = 120
STORE_ID = bytes(range(16))
SEED = codec.store_seed(STORE_ID)
FILE_SIZE = 4096


def test_the_wal_example_is_what_the_writer_writes():
    disk, files, size = _write_wal()

    content = disk.read(files.path(0))

    assert content[:size] == worked_example("docs/format/wal.md")
    assert content[size:] == bytes(FILE_SIZE - size)


def test_the_wal_example_is_read_back_as_the_page_says():
    log = _wal_from_the_page()

    frames = list(log.scan(0, 0))
    reader = Reader({0: log.files}, STORE_ID)
    single = reader.single(frames[0].location)
    batch = reader.block(frames[1].blocks[0][0])

    assert single == (1, 1, [None] * 4, b"hi", WALL_US_START)
    assert (batch.topic_id, batch.first_seq, batch.data().to_pylist()) == (1, 2, [b"a", b"bc"])
    assert batch.column(block.TAG).to_pylist() == ["eu", "eu"]
    assert log.end_lsn == len(worked_example("docs/format/wal.md")) - codec.FILE_HEADER_SIZE
    log.files.close()


def test_every_control_message_is_on_the_wal_page():
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]*)\|", read_document("docs/format/wal.md"), re.M)

    told = {tag: tuple(re.findall(r"\w+", fields)) for tag, fields in rows}

    messages = get_args(control_messages.Message)
    assert told == {kind.__struct_config__.tag: kind.__struct_fields__ for kind in messages}


def test_the_segment_example_is_what_the_writer_writes():
    disk = SimDisk()

    info = _write_segment(disk)

    content = disk.read(f"/segments/{info.name()}")
    assert content == worked_example("docs/format/segment.md")


def test_the_segment_example_is_read_back_as_the_page_says():
    disk = SimDisk()
    info = _write_segment(disk)
    disk.durable_replace(f"/segments/{info.name()}", worked_example("docs/format/segment.md"))
    library = SegmentSet(disk, "/segments", SegmentSettings(), store_id=STORE_ID, seed=SEED)

    segment = library.add(info)
    found = segment.block(0)

    assert found.data().to_pylist() == [b"hi", b"you"]
    assert found.column(block.TAG).to_pylist() == ["eu", None]
    assert found.stamps().tolist() == [WALL_US_START, WALL_US_START + 1]
    assert list(decode_tags(segment.packed_tags())) == ["eu"]
    library.close()


def test_the_checkpoint_example_is_what_the_codec_writes_and_reads():
    root = _root(_write_segment(SimDisk()))

    content = root_file.encode(root)

    assert content == worked_example("docs/format/checkpoint.md")
    assert root_file.decode(content, "checkpoint") == root


@pytest.mark.parametrize(
    ("structure", "kind"),
    [
        ("root", StoreCheckpoint),
        ("shard", ShardEntry),
        ("segment", SegmentInfo),
        ("topic", TopicEntry),
        ("gap", root_file.GapEntry),
        ("cold", ColdEntry),
    ],
)
def test_the_checkpoint_page_lists_as_many_fields_as_are_stored(structure, kind):
    row = re.search(
        rf"^\| {structure} \| (.*) \|$", read_document("docs/format/checkpoint.md"), re.MULTILINE
    )

    assert row is not None
    assert len(row[1].split(",")) == len(kind.__struct_fields__)


@pytest.mark.parametrize("page", PAGES)
def test_a_format_page_is_short_enough_to_finish(page):
    assert len(read_document(page).splitlines()) <= PAGE_LINES_MAX


def _write_wal() -> tuple[SimDisk, ShardFiles, int]:
    disk = SimDisk()
    disk.make_dirs("/wal")
    files = ShardFiles(disk, "/wal", 0)
    writer = Writer(
        files,
        SimClock(),
        WalSettings(file_size_first=FILE_SIZE),
        store_id=STORE_ID,
        term=1,
        end_lsn=0,
        previous=0,
        last_ts=0,
    )
    draft = block.draft([b"a", b"bc"])
    draft.add(block.TAG, "eu")
    writer.acquire()
    ts = writer.stamp()
    writer.place_single(1, 1, codec.NO_FIELDS, b"hi", ts)
    writer.place_draft(draft, 1, 2, ts)
    writer.release()
    return disk, files, codec.FILE_HEADER_SIZE + writer.end_lsn


def _wal_from_the_page() -> ShardLog:
    disk = SimDisk()
    disk.make_dirs("/wal")
    content = worked_example("docs/format/wal.md").ljust(FILE_SIZE, b"\0")
    disk.durable_replace(ShardFiles(disk, "/wal", 0).path(0), content)
    return ShardLog(disk, "/wal", 0, STORE_ID)


def _write_segment(disk: SimDisk) -> SegmentInfo:
    library = SegmentSet(disk, "/segments", SegmentSettings(), store_id=STORE_ID, seed=SEED)
    library.next_number = 7
    writer, info = library.begin_segment(1, 1)
    tagged = (WALL_US_START, (None, b"eu", None, None), b"hi")
    plain = (WALL_US_START + 1, (None, None, None, None), b"you")
    writer.add(1, of_singles(1, [tagged, plain]))
    made = library.finish_segment(writer, info, WALL_US_START + 2).info
    library.close()
    return made


def _root(info: SegmentInfo) -> StoreCheckpoint:
    topic = TopicEntry(
        id=1,
        name="orders",
        config=TopicConfig(),
        epoch=WALL_US_START,
        created_us=WALL_US_START,
        covered=2,
        covered_payload=7,
        last_ts=WALL_US_START + 1,
        evict_floor=1,
        evict_reason="",
        delete_floor=1,
        gone_payload=0,
        ceiling=256,
        deleted=b"",
        gaps=[],
        idempotency=[],
    )
    return StoreCheckpoint(
        number=3,
        store_id=STORE_ID,
        term=1,
        next_topic_id=2,
        next_file_number=8,
        last_ts=WALL_US_START + 1,
        shards=[ShardEntry(shard=0, replay_lsn=240, durable_lsn=240)],
        segments=[info],
        topics=[topic],
    )
