"""Promise: ``check`` finds what does not fit together, and no damage makes a map fail otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.reservoir.btree import branch, leaf
from strandline.reservoir.btree import root as map_root
from strandline.reservoir.btree.branch import Branch
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.btree.leaf import Leaf
from strandline.reservoir.btree.root import TreeRoot
from tests.unit.reservoir.map_pages import MemoryPages

SPACE = 3
FIRST = SPACE << 32


def saved(count: int = 400) -> MemoryPages:
    pages = MemoryPages()
    made = PagedMap(pages, space=SPACE, page_bytes=128)
    made.put_many((b"%04d" % n, b"value") for n in range(count))
    made.put(b"large", b"x" * 1000)
    made.save()
    return pages


def opened(pages: MemoryPages) -> PagedMap:
    return PagedMap(pages, space=SPACE, page_bytes=128)


def root_of(pages: MemoryPages) -> TreeRoot:
    return map_root.decode(pages.pages[FIRST + 1], "")


def leaves_of(pages: MemoryPages) -> list[Leaf]:
    """In the order of their keys."""
    found = [
        leaf.decode(page_id - FIRST, data, "")
        for page_id, data in pages.pages.items()
        if data[:1] == b"L"
    ]
    return sorted(found, key=lambda each: each.keys)


def top_of(pages: MemoryPages) -> Branch:
    top = root_of(pages).top
    return branch.decode(top, pages.pages[FIRST + top], "")


def put(pages: MemoryPages, node: Leaf | Branch | TreeRoot) -> None:
    if isinstance(node, TreeRoot):
        pages.pages[FIRST + 1] = map_root.encode(node)
    else:
        encode = branch.encode if isinstance(node, Branch) else leaf.encode
        pages.pages[FIRST + node.n] = encode(node)


def lose_an_entry(pages: MemoryPages) -> None:
    damaged = leaves_of(pages)[3]
    del damaged.keys[1], damaged.values[1]
    put(pages, damaged)


def put_a_key_outside_its_fences(pages: MemoryPages) -> None:
    damaged = leaves_of(pages)[3]
    damaged.keys[-1] = b"~" * len(damaged.keys[-1])
    put(pages, damaged)


def put_a_key_before_its_fences(pages: MemoryPages) -> None:
    damaged = leaves_of(pages)[3]
    damaged.keys[0] = b"!" * len(damaged.keys[0])
    put(pages, damaged)


def empty_a_leaf(pages: MemoryPages) -> None:
    damaged = leaves_of(pages)[3]
    put(pages, Leaf(damaged.n, [], [], 0))


def swap_two_children(pages: MemoryPages) -> None:
    damaged = top_of(pages)
    damaged.children[:2] = reversed(damaged.children[:2])
    put(pages, damaged)


def use_a_page_twice(pages: MemoryPages) -> None:
    """The last leaf points to the first one's page as a piece of a large value."""
    first, last = leaves_of(pages)[0], leaves_of(pages)[-1]
    damaged = branch.decode(0, next(d for d in pages.pages.values() if d[:2] == b"B\1"), "")
    number = next(i - FIRST for i, d in pages.pages.items() if d[:2] == b"B\1")
    other = last.n if first.n in damaged.children else first.n
    damaged.children[0] = other
    put(pages, Branch(number, 1, damaged.keys, damaged.children, 0))


def share_a_piece(pages: MemoryPages) -> None:
    """Two entries with one large value, and counts that say so."""
    owner = next(each for each in leaves_of(pages) if b"large" in each.keys)
    owner.values[0] = owner.values[owner.keys.index(b"large")]
    before = len(pages.pages[FIRST + owner.n])
    put(pages, owner)
    root = root_of(pages)
    root.leaf_bytes += len(pages.pages[FIRST + owner.n]) - before
    root.pieces += 1
    root.number_next += 1
    put(pages, root)


def lose_a_leaf(pages: MemoryPages) -> None:
    del pages.pages[FIRST + leaves_of(pages)[2].n]


def lose_a_piece(pages: MemoryPages) -> None:
    del pages.pages[next(i for i, data in pages.pages.items() if data[:1] == b"V")]


def shorten_a_piece(pages: MemoryPages) -> None:
    page_id = next(i for i, data in pages.pages.items() if data[:1] == b"V")
    pages.pages[page_id] = pages.pages[page_id][:-1]


def leave_a_page_behind(pages: MemoryPages) -> None:
    root = root_of(pages)
    pages.pages[FIRST + root.number_next] = b"forgotten"
    root.number_next += 1
    root.forgotten += 1
    put(pages, root)


def free_a_page_in_use(pages: MemoryPages) -> None:
    root = root_of(pages)
    root.free.append(leaves_of(pages)[0].n)
    root.number_next += 1
    put(pages, root)


def free_a_page_that_is_there(pages: MemoryPages) -> None:
    root = root_of(pages)
    pages.pages[FIRST + root.number_next] = b"free"
    root.free.append(root.number_next)
    root.number_next += 1
    put(pages, root)


def put_a_leaf_in_the_place_of_a_branch(pages: MemoryPages) -> None:
    pages.pages[FIRST + root_of(pages).top] = leaf.encode(leaves_of(pages)[0])


def put_a_branch_at_another_level(pages: MemoryPages) -> None:
    damaged = top_of(pages)
    damaged.level += 1
    put(pages, damaged)


def count_wrongly(name: str) -> Callable[[MemoryPages], None]:
    def damage(pages: MemoryPages) -> None:
        root = root_of(pages)
        setattr(root, name, getattr(root, name) - 1)
        put(pages, root)

    return damage


DAMAGES = [
    lose_an_entry,
    put_a_key_outside_its_fences,
    put_a_key_before_its_fences,
    empty_a_leaf,
    swap_two_children,
    use_a_page_twice,
    share_a_piece,
    lose_a_leaf,
    lose_a_piece,
    shorten_a_piece,
    leave_a_page_behind,
    free_a_page_in_use,
    free_a_page_that_is_there,
    put_a_leaf_in_the_place_of_a_branch,
    put_a_branch_at_another_level,
    *map(count_wrongly, ("entries", "leaves", "branches", "pieces", "leaf_bytes")),
]


def test_a_sound_map_passes():
    pages = saved()

    opened(pages).check()

    assert root_of(pages).height >= 3


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("in_memory", [False, True])
def test_what_does_not_fit_is_found(damage: Callable[[MemoryPages], None], in_memory: bool):
    pages = saved()
    damage(pages)

    with pytest.raises(Corrupt, match=f"map in space {SPACE}"):
        check(pages, in_memory)


def check(pages: MemoryPages, in_memory: bool) -> None:
    found = opened(pages)
    if in_memory:
        try_all(reading(found))
    found.check()


def reading(made: PagedMap) -> list[Callable[[], object]]:
    return [
        lambda: [made.get(b"%04d" % n) for n in range(0, 400, 7)],
        lambda: made.get(b"large"),
        lambda: list(made.range()),
        lambda: list(made.range(reverse=True)),
    ]


def writing(made: PagedMap) -> list[Callable[[], object]]:
    return [
        lambda: made.put_many((b"%04d!" % n, b"value") for n in range(0, 400, 3)),
        lambda: [made.delete(b"%04d" % n) for n in range(200)],
        lambda: made.put(b"large", b"y" * 2000),
        made.check,
        made.save,
    ]


def try_all(acts: list[Callable[[], object]]) -> None:
    """Do each, whether or not it finds damage."""
    for act in acts:
        try:
            act()
        except Corrupt:
            continue


def use(pages: MemoryPages) -> None:
    """Everything that reads or writes."""
    try:
        found = opened(pages)
    except (Corrupt, UnsupportedFormat):
        return
    try_all(reading(found))
    try_all(writing(found))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_map_raises_corrupt_and_nothing_else(damage: Callable[[MemoryPages], None]):
    pages = saved()
    damage(pages)

    use(pages)


def test_any_changed_byte_of_any_page_raises_corrupt_and_nothing_else():
    pages = saved(12)

    for page_id, page in list(pages.pages.items()):
        for offset in range(min(len(page), 120)):
            for flip in (1, 0x80, 0xFF):
                changed = page[:offset] + bytes((page[offset] ^ flip,)) + page[offset + 1 :]
                hurt = MemoryPages()
                hurt.pages = {**pages.pages, page_id: changed}
                use(hurt)
