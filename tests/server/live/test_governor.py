"""Promise: pressure climbs a ladder and comes down again, and appends are refused only at its top.

Deferring has hysteresis: it begins above 0.8 and ends below 0.6.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.api.errors import Refused
from strandline.server.live.load_shedding import (
    COALESCE_S_MAX,
    INGEST_FULL,
    LAG_S_RANGE,
    LATENCY_S_FULL,
    READY_FULL,
    WINDOW_S_RANGE,
    LoadSample,
    LoadShedder,
)

FULL = LoadSample(ready=READY_FULL, latency_s=LATENCY_S_FULL, busy=1.0, ingest=INGEST_FULL)


def pressed(load: LoadSample, samples: int = 50) -> LoadShedder:
    governor = LoadShedder()
    for _ in range(samples):
        governor.sample(load)
    return governor


def test_without_load_nothing_waits():
    governor = pressed(LoadSample())

    governor.admit()

    assert governor.pressure == 0.0
    assert governor.coalesce_s == 0.0
    assert governor.window_s == 0.0
    assert not governor.is_deferring


def test_a_little_pressure_coalesces_and_no_more():
    governor = pressed(LoadSample(latency_s=0.3 * LATENCY_S_FULL))

    governor.admit()

    assert 0 < governor.coalesce_s < COALESCE_S_MAX
    assert governor.window_s == 0.0


def test_more_pressure_widens_the_group_commit():
    governor = pressed(LoadSample(latency_s=0.5 * LATENCY_S_FULL))

    governor.admit()

    assert WINDOW_S_RANGE[0] < governor.window_s < WINDOW_S_RANGE[1]
    assert not governor.is_deferring


def test_one_moment_of_full_load_defers_nobody():
    governor = pressed(FULL, samples=1)

    governor.admit()

    assert not governor.is_deferring


def test_deferring_begins_above_point_eight_and_ends_below_point_six():
    governor = pressed(LoadSample(latency_s=0.85 * LATENCY_S_FULL))
    seen = [governor.is_deferring]
    for share in (0.7, 0.5):
        for _ in range(50):
            governor.sample(LoadSample(latency_s=share * LATENCY_S_FULL))
        seen.append(governor.is_deferring)

    assert seen == [True, True, False]


def test_at_the_limit_appends_are_told_when_to_come_again():
    governor = pressed(FULL)

    with pytest.raises(Refused) as caught:
        governor.admit()

    problem = caught.value.wire_error
    assert (problem.status, problem.code) == (429, "throttled")
    assert problem.retry_after_s
    assert problem.detail["retry_after_ms"] > 0


def test_refusing_ends_when_half_of_the_line_is_gone():
    governor = pressed(FULL)
    seen = [governor.is_rejecting]
    for ingest in (INGEST_FULL - 1, INGEST_FULL // 2, INGEST_FULL // 2 - 1, INGEST_FULL - 1):
        governor.sample(FULL._replace(ingest=ingest))
        seen.append(governor.is_rejecting)

    assert seen == [True, True, True, False, False]


def test_refusing_goes_on_above_point_nine_and_ends_below():
    governor = pressed(FULL)
    seen = []
    for share in (0.93, 0.85):
        for _ in range(50):
            governor.sample(LoadSample(ingest=int(share * INGEST_FULL)))
        seen.append(governor.is_rejecting)

    assert seen == [True, False]


def test_who_may_bypass_is_let_in_at_the_limit():
    governor = pressed(FULL)

    governor.admit(bypass=True)


def test_full_pressure_alone_refuses_nobody_while_appends_are_synced_in_time():
    governor = pressed(FULL._replace(ingest=0))

    governor.admit()

    assert governor.is_deferring


def test_a_late_loop_alone_defers_and_refuses_nobody():
    late = pressed(LoadSample(lag_s=LAG_S_RANGE[1]))
    in_time = pressed(LoadSample(lag_s=LAG_S_RANGE[0]))

    late.admit()

    assert late.is_deferring
    assert in_time.pressure == 0.0


def test_busy_threads_alone_defer_nobody():
    governor = pressed(LoadSample(busy=1.0))

    governor.admit()

    assert not governor.is_deferring


@given(st.lists(st.builds(LoadSample, st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 1),
                          st.integers(0, 100_000), st.floats(0, 10)), max_size=50))  # fmt: skip
def test_whatever_was_seen_pressure_is_a_share_and_falls_to_nothing_when_it_is_quiet(loads):
    governor = LoadShedder()
    for load in loads:
        governor.sample(load)
        assert 0.0 <= governor.pressure <= 1.0

    for _ in range(100):
        governor.sample(LoadSample())

    assert governor.pressure == 0.0
    governor.admit()
