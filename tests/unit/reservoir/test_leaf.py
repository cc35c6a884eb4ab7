"""Promise: a page of the map decodes to what was encoded; other bytes raise Corrupt or are a page.

Whether bytes are those that were written is for the checksums of the reservoir to tell. Here it is
only that no bytes whatever make the decoders fail in another way, or give what cannot be.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.reservoir.btree import branch, leaf
from strandline.reservoir.btree import root as map_root
from strandline.reservoir.btree.branch import Branch
from strandline.reservoir.btree.leaf import Leaf
from strandline.reservoir.btree.overflow import (
    PIECE_BYTES,
    LargeValue,
    ValuePiece,
    decode_piece,
    encode_piece,
    piece_count,
)
from strandline.reservoir.btree.root import TreeRoot

WHERE = "page 5 of the map in space 0"
pack = msgspec.msgpack.encode


def a_leaf() -> Leaf:
    keys = [b"", b"a", b"key", b"key2", b"z" * 300]
    values = [
        b"value",
        LargeValue(2 * PIECE_BYTES + 1, (7, 9, 8)),
        b"",
        b"v" * 300,
        LargeValue(5, (3,)),
    ]
    return Leaf(5, keys, values, leaf.size_of(keys, values))


def a_branch() -> Branch:
    keys = [b"b", b"key", b"q" * 300]
    return Branch(5, 2, keys, [9, 4_000_000_000, 2, 70_000], branch.size_of(keys))


def a_root() -> TreeRoot:
    made = TreeRoot()
    made.height, made.top, made.number_next = 3, 70, 100
    made.forgotten = 48
    made.entries, made.leaves, made.branches, made.pieces = 1000, 40, 5, 2
    made.leaf_bytes, made.free = 40_000, [5, 99, 17]
    return made


def fields(node: Leaf | Branch | TreeRoot) -> dict[str, object]:
    return {name: getattr(node, name) for name in node.__slots__ if name not in ("dirty", "used")}


def decode_leaf(data: bytes) -> None:
    found = leaf.decode(5, data, WHERE)
    assert len(found.keys) == len(found.values)
    assert found.keys == sorted(set(found.keys))
    assert {*map(type, found.keys), bytes} == {bytes}
    for value in found.values:
        assert type(value) is bytes or len(value.pieces) == piece_count(value.size)


def decode_branch(data: bytes) -> None:
    found = branch.decode(5, data, WHERE)
    assert found.keys == sorted(set(found.keys))
    assert len(found.children) == len(found.keys) + 1 == len(set(found.children))
    assert all(1 < child < 1 << 32 for child in found.children)
    assert 0 < found.level < 32


def decode_root(data: bytes) -> None:
    found = map_root.decode(data, WHERE)
    assert 1 < found.top < found.number_next <= 1 << 32
    assert all(1 < n < found.number_next for n in found.free)
    assert map_root.encode(found) == data


PAGES: dict[str, tuple[bytes, Callable[[bytes], None]]] = {
    "leaf": (leaf.encode(a_leaf()), decode_leaf),
    "branch": (branch.encode(a_branch()), decode_branch),
    "root": (map_root.encode(a_root()), decode_root),
}


@given(
    st.dictionaries(
        st.binary(max_size=20),
        st.binary(max_size=400)
        | st.lists(st.integers(2, 2**32 - 1), min_size=1, max_size=16, unique=True).map(
            lambda pieces: LargeValue(PIECE_BYTES * len(pieces), tuple(pieces))
        ),
    )
)
def test_any_leaf_comes_back(entries):
    keys = sorted(entries)
    values = [entries[key] for key in keys]
    made = Leaf(5, keys, values, 0)

    data = leaf.encode(made)
    found = leaf.decode(5, data, WHERE)

    assert (found.keys, found.values, found.size) == (keys, values, len(data))
    assert abs(leaf.size_of(keys, values) - len(data)) <= 16 + 3 * len(keys)


@given(st.lists(st.binary(max_size=400), min_size=1, unique=True), st.data())
def test_any_branch_comes_back(keys, data):
    count = len(keys) + 1
    numbers = st.integers(2, 2**32 - 1)
    children = data.draw(st.lists(numbers, min_size=count, max_size=count, unique=True))
    made = Branch(5, 31, sorted(keys), children, 0)

    page = branch.encode(made)
    found = branch.decode(5, page, WHERE)

    assert fields(found) == {**fields(made), "size": len(page)}


def test_a_root_comes_back():
    assert fields(map_root.decode(map_root.encode(a_root()), WHERE)) == fields(a_root())


def test_a_piece_comes_back():
    page = encode_piece(ValuePiece(5, b"bytes"))

    assert bytes(decode_piece(page, 5, WHERE)) == b"bytes"
    for wrong in (page[:-1], page + b"x", b"L" + page[1:], b""):
        with pytest.raises(Corrupt):
            decode_piece(wrong, 5, WHERE)


@pytest.mark.parametrize("kind", PAGES)
def test_any_value_of_any_byte_is_corrupt_or_a_page(kind: str):
    page, decode = PAGES[kind]
    refused = 0

    for offset in range(len(page)):
        for byte in range(256):
            try:
                decode(page[:offset] + bytes((byte,)) + page[offset + 1 :])
            except (Corrupt, UnsupportedFormat):
                refused += 1

    assert refused > 256


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_cut_short_or_too_long_is_corrupt(kind: str):
    page, decode = PAGES[kind]

    for wrong in [*(page[:size] for size in range(len(page))), page + b"\0", page + page]:
        with pytest.raises(Corrupt):
            decode(wrong)


@pytest.mark.parametrize("kind", PAGES)
def test_bytes_at_random_are_corrupt_or_a_page(kind: str):
    page, decode = PAGES[kind]
    chance = random.Random(6)

    for _ in range(20_000):
        begin = chance.randrange(len(page))
        try:
            decode(page[:begin] + chance.randbytes(chance.randrange(40)))
        except (Corrupt, UnsupportedFormat):
            continue


@pytest.mark.parametrize(
    "body",
    [
        ([b"b", b"a"], [b"", b""], []),
        ([b"a", b"a"], [b"", b""], []),
        ([b"a"], [], []),
        ([b"a"], [b""], [1]),
        ([b"a"], [b""], [-1]),
        ([b"a", b"b"], [b"", b""], [1, 0]),
        ([b"a"], [b"abc"], [0]),
        ([b"a"], [struct.pack("<2I", 0, 5)], [0]),
        ([b"a"], [struct.pack("<2I", 9, 1)], [0]),
        ([b"a"], [struct.pack("<3I", 9, 5, 6)], [0]),
        ([b"a"], [struct.pack("<3I", PIECE_BYTES + 1, 5, 5)], [0]),
        (["a"], [b""], []),
        ([b"a"], [None], []),
        ([b"a"], [b""]),
        {b"a": b""},
    ],
)
def test_a_leaf_that_makes_no_sense_is_corrupt_and_named(body):
    with pytest.raises(Corrupt) as caught:
        leaf.decode(5, b"L" + pack(body), WHERE)

    assert caught.value.path == WHERE


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"B",
        b"L\1" + pack(([b"a"], [2, 3])),
        b"B\0" + pack(([b"a"], [2, 3])),
        b"B\x20" + pack(([b"a"], [2, 3])),
        b"B\1" + pack(([b"a"], [2])),
        b"B\1" + pack(([], [2])),
        b"B\1" + pack(([b"a"], [2, 2])),
        b"B\1" + pack(([b"a"], [1, 2])),
        b"B\1" + pack(([b"a"], [2, 1 << 32])),
        b"B\1" + pack(([b"b", b"a"], [2, 3, 4])),
        b"B\1" + pack(([b"a"], [2, 3.0])),
    ],
)
def test_a_branch_that_makes_no_sense_is_corrupt(page: bytes):
    with pytest.raises(Corrupt):
        branch.decode(5, page, WHERE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("height", 0),
        ("height", 33),
        ("height", 1),
        ("top", 1),
        ("top", 100),
        ("top", 99),
        ("number_next", 50),
        ("number_next", 2**32 + 1),
        ("leaves", 0),
        ("leaves", 1001),
        ("branches", 0),
        ("free", [5, 5]),
        ("free", [1]),
        ("free", [100]),
        ("leaf_bytes", 3),
    ],
)
def test_a_root_that_contradicts_itself_is_corrupt(name: str, value):
    made = a_root()
    setattr(made, name, value)

    with pytest.raises(Corrupt):
        map_root.decode(map_root.encode(made), WHERE)


def test_a_newer_format_is_told_from_damage():
    page = map_root.encode(a_root())

    with pytest.raises(UnsupportedFormat):
        map_root.decode(page[:8] + struct.pack("<H", 2) + page[10:], WHERE)
    with pytest.raises(Corrupt):
        map_root.decode(page[:8] + struct.pack("<H", 0) + page[10:], WHERE)
