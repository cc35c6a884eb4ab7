"""Promise (C1, C10, D8): a checkpoint comes back as it was, or says what is wrong with it."""

from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from strandline.errors import Corrupt, StrandlineError, UnsupportedFormat
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files.checkpoint_codec import GapEntry, ShardEntry, StoreCheckpoint, TopicEntry
from strandline.log.files.layout import Layout
from strandline.log.segments.reader import SegmentInfo
from strandline.testing import strategies
from strandline.testing.sim_disk import SimDisk

PATH = "/data/meta/checkpoint-0000000000000001.bin"
U63 = st.integers(0, 2**63 - 1)
U64 = st.integers(0, 2**64 - 1)
texts = st.text(max_size=12)
topics = st.builds(
    TopicEntry,
    id=U64,
    name=texts,
    config=strategies.configs(),
    epoch=U63,
    created_us=U63,
    covered=U63,
    covered_payload=U63,
    last_ts=U63,
    evict_floor=U63,
    evict_reason=texts,
    delete_floor=U63,
    gone_payload=U63,
    ceiling=U63,
    deleted=st.binary(max_size=20),
    gaps=st.lists(st.builds(GapEntry, U63, U63, texts), max_size=2),
    idempotency=st.lists(st.tuples(st.binary(max_size=8), U63, U63, U63), max_size=2),
)
segments = st.builds(SegmentInfo, **dict.fromkeys(SegmentInfo.__struct_fields__, U64))
roots = st.builds(
    StoreCheckpoint,
    number=U63,
    store_id=st.binary(min_size=16, max_size=16),
    term=U63,
    next_topic_id=U63,
    next_file_number=U63,
    last_ts=U63,
    shards=st.lists(st.builds(ShardEntry, shard=U63, replay_lsn=U63, durable_lsn=U63), max_size=2),
    segments=st.lists(segments, max_size=2),
    topics=st.lists(topics, max_size=2),
)
FEW = settings(max_examples=50)


@FEW
@given(roots)
def test_a_root_comes_back_as_it_was(root):
    assert root_file.decode(root_file.encode(root), PATH) == root


@FEW
@given(roots, st.data())
def test_a_garbled_root_is_refused_with_its_path(root, data):
    whole = root_file.encode(root)
    garbled = data.draw(strategies.garbled(whole).filter(lambda made: made != whole))

    with pytest.raises((Corrupt, UnsupportedFormat)) as caught:
        root_file.decode(garbled, PATH)

    assert PATH in str(caught.value)


@settings(max_examples=5)
@given(roots.filter(lambda root: root.topics))
def test_any_flipped_bit_is_noticed(root):
    whole = bytearray(root_file.encode(root))

    for place in range(len(whole)):
        whole[place] ^= 1 << place % 8
        with pytest.raises(Corrupt):
            root_file.decode(bytes(whole), PATH)
        whole[place] ^= 1 << place % 8


@settings(max_examples=5)
@given(roots)
def test_no_beginning_of_a_root_is_one(root):
    whole = root_file.encode(root)

    for size in range(len(whole)):
        with pytest.raises(Corrupt):
            root_file.decode(whole[:size], PATH)


@given(st.binary(max_size=200))
def test_garbage_is_no_root(data):
    with pytest.raises(Corrupt):
        root_file.decode(data, PATH)


@given(st.binary(max_size=200))
def test_a_body_that_checks_and_still_is_no_root_is_refused(body):
    sound = root_file.encode(root_file.empty_checkpoint(bytes(16)))
    header = sound[:40]
    forged = bytearray(header)
    forged[16:24] = struct.pack("<Q", len(body))
    forged[24:32] = struct.pack("<Q", xxh3_64_intdigest(body, 0))

    with pytest.raises(StrandlineError):
        root_file.decode(bytes(forged) + body, PATH)


def _saved(disk: SimDisk, *numbers: int, store_id: bytes = bytes(16)) -> None:
    disk.make_dirs("/data/meta")
    for number in numbers:
        root = msgspec.structs.replace(root_file.empty_checkpoint(store_id), number=number)
        disk.durable_replace(root_file.path_of("/data/meta", number), root_file.encode(root))


def test_the_newest_root_is_loaded():
    disk = SimDisk()
    _saved(disk, 9, 10, 11)

    root, complaints = root_file.load(disk, "/data/meta", bytes(16))

    assert (root.number, complaints) == (11, [])


def test_a_damaged_newest_root_costs_only_a_complaint():
    disk = SimDisk()
    _saved(disk, 1, 2)
    path = root_file.path_of("/data/meta", 2)
    disk.durable_replace(path, disk.read(path)[:-1])

    root, complaints = root_file.load(disk, "/data/meta", bytes(16))

    assert root.number == 1
    assert len(complaints) == 1
    assert path in complaints[0]


def test_without_a_good_root_the_store_is_not_thought_to_be_new():
    disk = SimDisk()
    _saved(disk, 1)
    disk.durable_replace(root_file.path_of("/data/meta", 1), b"gone")

    with pytest.raises(Corrupt, match="no checkpoint"):
        root_file.load(disk, "/data/meta", bytes(16))


def test_a_root_of_another_store_or_place_is_not_taken():
    disk = SimDisk()
    _saved(disk, 1)
    _saved(disk, 2, store_id=bytes(range(16)))
    first, third = (root_file.path_of("/data/meta", number) for number in (1, 3))
    disk.durable_replace(third, disk.read(first))

    root, complaints = root_file.load(disk, "/data/meta", bytes(16))

    assert (root.number, len(complaints)) == (1, 2)


def test_a_store_that_was_never_checkpointed_has_an_empty_root():
    root, complaints = root_file.load(SimDisk(), "/data/meta", bytes(16))

    assert (root.number, root.topics, complaints) == (0, [], [])


@given(st.dictionaries(st.integers(0, 63), U63, max_size=4), st.data())
def test_the_closed_file_comes_back_or_is_refused(synced, data):
    disk = SimDisk()
    disk.make_dirs("/data")
    layout = Layout("/data")
    layout.write_closed(disk, synced)
    whole = disk.read(layout.closed)
    assert layout.read_closed(disk) == synced

    garbled = data.draw(strategies.garbled(whole).filter(lambda made: made != whole))
    disk.durable_replace(layout.closed, garbled)

    with pytest.raises(Corrupt):
        layout.read_closed(disk)
