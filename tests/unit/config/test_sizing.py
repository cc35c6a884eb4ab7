"""Promise: buffers and caches together fit into the memory budget, and grow no larger by it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.config.memory_budget import Budget
from strandline.config.memory_limits import within_budget
from strandline.config.settings import (
    GIB,
    MIB,
    LakeSettings,
    SegmentSettings,
    Settings,
    ViewSettings,
    WalSettings,
)

CHANGED = {
    "wal": {"file_size_max"},
    "segment": {"checkpoint_bytes", "seal_bytes", "cache_bytes"},
    "lake": {"cache_bytes", "zone_bytes", "file_bytes"},
}
sizes = st.integers(0, 4 * GIB)


def _settings(memory_bytes: int, size: int) -> Settings:
    return Settings(
        views=ViewSettings(memory_bytes=memory_bytes),
        wal=WalSettings(file_size_max=size),
        segment=SegmentSettings(checkpoint_bytes=size, seal_bytes=size, cache_bytes=size),
        lake=LakeSettings(cache_bytes=size, zone_bytes=size, file_bytes=size),
    )


def test_the_default_budget_lets_the_default_buffers_be():
    found = within_budget(Settings())

    assert found.wal == Settings().wal
    assert found.segment == Settings().segment
    assert found.lake.zone_bytes == Settings().lake.zone_bytes
    assert found.lake.file_bytes == Settings().lake.file_bytes


@given(st.integers(32 * MIB, 64 * GIB), sizes)
def test_what_is_in_memory_at_once_fits_into_its_share(memory_bytes, size):
    budget = Budget(memory_bytes)

    found = within_budget(_settings(memory_bytes, size))

    read_and_copied = 2 * found.wal.file_size_max + found.segment.checkpoint_bytes
    assert read_and_copied <= budget.share("log").limit
    assert 4 * found.segment.seal_bytes <= budget.share("log").limit
    caches = found.segment.cache_bytes + found.lake.cache_bytes
    assert caches <= budget.share("cache").limit
    assert found.lake.zone_bytes <= max(MIB, budget.share("io").limit // 8)


@given(st.integers(32, 64 * GIB), sizes)
def test_nothing_becomes_larger_than_it_was_set(memory_bytes, size):
    settings = _settings(memory_bytes, size)

    found = within_budget(settings)

    for group, names in CHANGED.items():
        for name in names:
            assert getattr(getattr(found, group), name) <= size


@given(st.integers(32, 64 * GIB), sizes)
def test_nothing_else_is_changed(memory_bytes, size):
    settings = _settings(memory_bytes, size)

    before, found = map(msgspec.to_builtins, (settings, within_budget(settings)))

    for group, names in CHANGED.items():
        for name in names:
            del before[group][name], found[group][name]
    assert found == before


@pytest.mark.parametrize("memory_bytes", [32, MIB, 8 * MIB])
def test_a_budget_that_is_far_too_small_leaves_buffers_that_work(memory_bytes):
    found = within_budget(Settings(views=ViewSettings(memory_bytes=memory_bytes)))

    assert found.wal.file_size_max == found.segment.checkpoint_bytes == MIB
    assert found.segment.seal_bytes == found.lake.zone_bytes == MIB
