"""The histogram of syncs: every sync is in one bucket, the one whose bound it does not exceed."""

from __future__ import annotations

import pytest

from strandline.log.wal.stats import SYNC_BUCKETS_US, SyncTimes


@pytest.mark.parametrize(
    ("took_us", "place"), [(0, 0), (50, 0), (51, 1), (100, 1), (5000, 5), (100_000, 8), (10**9, 9)]
)
def test_a_sync_is_in_the_bucket_of_its_bound(took_us, place):
    times = SyncTimes()

    times.begin_sync(0.0)
    times.end_sync(took_us / 1_000_000, synced=True)

    assert [count for count in times.counts if count] == [1]
    assert times.counts.index(1) == place
    assert times.total_us == took_us
    assert len(times.counts) == len(SYNC_BUCKETS_US) + 1
