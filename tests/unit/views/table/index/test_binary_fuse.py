"""Promise: a filter has every key that it was made of, and few others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.views.table.index import binary_fuse
from strandline.views.table.index.binary_fuse import Filters, FilterShard, OneFilter


def _keys(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype="<u8")


def _has(shard: FilterShard, keys: np.ndarray) -> np.ndarray:
    return Filters(*Filters.of([shard])).may_have(keys, np.zeros(len(keys), "<i8"))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100, 1000, 30_000])
def test_every_key_is_found(count):
    keys = _keys(count)

    shard = binary_fuse.build(keys)

    assert _has(shard, keys).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=300))
def test_every_key_is_found_however_keys_look(given_keys):
    keys = np.array(given_keys, "<u8")

    shard = binary_fuse.build(keys)

    assert _has(shard, keys).all()


def test_every_key_is_found_whatever_the_seed_meets():
    """Two keys with the same places make a seed fail: among many small filters some meet that."""
    several = [_keys(6, seed=seed) for seed in range(3000)]

    shards = [binary_fuse.build(keys) for keys in several]

    assert all(_has(*each).all() for each in zip(shards, several, strict=True))
    assert max(shard.seed for shard in shards) > 0


def test_a_key_may_come_twice():
    keys = np.repeat(_keys(500), 3)

    shard = binary_fuse.build(keys)

    assert _has(shard, keys).all()


def test_one_other_key_in_256_is_found():
    shard = binary_fuse.build(_keys(10_000))

    found = _has(shard, _keys(200_000, seed=2)).mean()

    assert 0.8 / 256 < found < 1.25 / 256


def test_a_large_filter_takes_nine_bits_and_a_little_for_each_key():
    shard = binary_fuse.build(_keys(200_000))

    assert len(shard.table) < 200_000 * 1.2


def test_filters_that_share_a_table_keep_their_keys_apart():
    several = [_keys(count, seed=count) for count in (700, 1, 5000)]
    filters = Filters(*Filters.of([binary_fuse.build(keys) for keys in several]))

    for shard, keys in enumerate(several):
        own = filters.may_have(keys, np.full(len(keys), shard))
        other = filters.may_have(keys, np.full(len(keys), (shard + 2) % 3))

        assert own.all()
        assert other.mean() < 0.1 or len(keys) == 1


def test_one_key_is_asked_as_many_are():
    shard = binary_fuse.build(_keys(2000))
    one = OneFilter(shard.seed, shard.bits, shard.segments, shard.table.tobytes())
    asked = np.concatenate([_keys(2000), _keys(3000, seed=2)])

    answers = [one.may_have(key) for key in asked.tolist()]

    assert answers == _has(shard, asked).tolist()


def test_a_filter_of_nothing_has_next_to_nothing():
    assert _has(binary_fuse.build(_keys(0)), _keys(1000)).mean() < 0.02
