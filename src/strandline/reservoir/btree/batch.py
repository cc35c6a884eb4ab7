"""Merges many entries into one leaf. Pure.

Uses the fastest of three ways: entries after all keys of the leaf are appended; a few entries are
searched one by one; many are joined and sorted, which is one merge of two sorted runs.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from strandline.reservoir.btree.leaf import ENTRY_BYTES, Leaf, Stored, size_of
from strandline.reservoir.btree.overflow import LargeValue

FEW_SHARE = 3
"""Few are less than one in this many of the leaf's entries: a measured value."""


class MergedLeaf(NamedTuple):
    """The new content of a leaf."""

    keys: list[bytes]
    values: list[Stored]
    size: int
    replaced: list[LargeValue]
    """Large values that were replaced."""
    appended: bool


def merge_entries(leaf: Leaf, run: list[bytes], batch: dict[bytes, bytes]) -> MergedLeaf:
    """The leaf with the keys of the run, which are in order, and their values in the batch."""
    if not leaf.keys or run[0] > leaf.keys[-1]:
        return _appended(leaf, run, batch)
    if len(run) * FEW_SHARE < len(leaf.keys):
        return _searched(leaf, run, batch)
    return _sorted(leaf, run, batch)


def _appended(leaf: Leaf, run: list[bytes], batch: dict[bytes, bytes]) -> MergedLeaf:
    new: list[Stored] = [batch[key] for key in run]
    size = leaf.size + ENTRY_BYTES * len(run) + sum(map(len, run)) + sum(map(len, new))
    return MergedLeaf(leaf.keys + run, leaf.values + new, size, [], appended=True)


def _searched(leaf: Leaf, run: list[bytes], batch: dict[bytes, bytes]) -> MergedLeaf:
    keys, values, size = leaf.keys.copy(), leaf.values.copy(), leaf.size
    replaced = []
    at = 0
    for key in run:
        value = batch[key]
        at = bisect_left(keys, key, at)
        if at < len(keys) and keys[at] == key:
            old = values[at]
            if type(old) is LargeValue:
                replaced.append(old)
            size += len(value) - len(old)
            values[at] = value
        else:
            size += len(key) + len(value) + ENTRY_BYTES
            keys.insert(at, key)
            values.insert(at, value)
    return MergedLeaf(keys, values, size, replaced, appended=False)


def _sorted(leaf: Leaf, run: list[bytes], batch: dict[bytes, bytes]) -> MergedLeaf:
    entries = dict(zip(leaf.keys, leaf.values, strict=True))
    replaced = [old for key in run if type(old := entries.get(key)) is LargeValue]
    for key in run:
        entries[key] = batch[key]
    keys = sorted(entries)
    values = [entries[key] for key in keys]
    return MergedLeaf(keys, values, size_of(keys, values), replaced, appended=False)
