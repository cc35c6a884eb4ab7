"""Promise: a directory finds the tags of a footer that a look at all of them would find."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from strandline.log.segments.tag_directory import DamagedGroup, TagDirectory

TEXTS = st.text(max_size=6) | st.text("ab", min_size=30, max_size=40)
SEQS = st.sets(st.integers(0, 2**40), max_size=5)


def _packed(tags: dict[str, set[int]]) -> bytes:
    return msgspec.msgpack.encode({tag: BitMap64(tags[tag]).serialize() for tag in sorted(tags)})


def _reader(packed: bytes):
    return lambda size, start: packed[start : start + size]


@given(st.dictionaries(TEXTS, SEQS, max_size=60), TEXTS, TEXTS, st.booleans())
def test_a_directory_finds_what_is_between(tags, one, other, spent):
    packed = _packed(tags)
    low, high = sorted((one.encode(), other.encode()))
    directory = TagDirectory(packed)
    if spent:
        directory.skip(low, high)

    found = directory.find(b"" if spent else low, b"\xff" if spent else high, _reader(packed))

    expected = [seqs for tag, seqs in tags.items() if low <= tag.encode() < high]
    if spent:  # what lies outside must still be found
        outside = [seqs for tag, seqs in tags.items() if not low <= tag.encode() < high]
        assert set().union(*outside) <= set(found) <= set().union(*tags.values())
    else:
        assert set(found) == set().union(*expected)


@pytest.mark.parametrize("size", [1, 31, 32, 255, 256])
@pytest.mark.parametrize("count", [1, 5000, 200_000])
def test_tags_and_bitmaps_of_every_size_are_found(size, count):
    tags = {"t" * size: set(range(0, 3 * count, 3)), "u": {7}}
    packed = _packed(tags)

    found = TagDirectory(packed).find(b"t" * size, b"t" * size + b"\0", _reader(packed))

    assert set(found) == tags["t" * size]


def test_one_tag_among_many_costs_one_short_read():
    packed = _packed({f"tag-{number:06d}": {number} for number in range(5000)})
    directory = TagDirectory(packed)
    reads: list[int] = []

    def read(size: int, start: int) -> bytes:
        reads.append(size)
        return packed[start : start + size]

    assert list(directory.find(b"tag-001234", b"tag-001234\0", read)) == [1234]
    assert (len(reads), sum(reads) < 1024) == (1, True)
    assert directory.size < len(packed) // 3


def test_a_group_whose_tags_are_all_gone_is_not_read_again():
    packed = _packed({f"tag-{number:06d}": {number} for number in range(5000)})
    directory = TagDirectory(packed)
    directory.skip(b"tag-", b"tag-\xff")
    reads: list[int] = []

    def read(size: int, start: int) -> bytes:
        reads.append(size)
        return packed[start : start + size]

    directory.find(b"tag-", b"tag-\xff", read)

    assert sum(reads) < 1024  # the last group, which may go on with other tags


def test_a_group_that_has_changed_is_noticed():
    packed = _packed({f"tag-{number:06d}": {number} for number in range(100)})
    directory = TagDirectory(packed)
    damaged = packed.replace(b"tag-000050", b"tag-000051", 1)

    with pytest.raises(DamagedGroup):
        directory.find(b"tag-000050", b"tag-000050\0", _reader(damaged))
