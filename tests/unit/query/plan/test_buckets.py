"""Promise: SQL puts a moment into the period that ``periods.py`` puts it into, where people live,
on both sides of every change of their clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from strandline.query.language.periods import Calendar, Period, start
from tests.unit.query.asking import Tables, table

ZONES = [
    "UTC",
    "Europe/Amsterdam",
    "America/Sao_Paulo",  # until 2019 clocks changed at midnight
    "Atlantic/Azores",  # an hour after midnight, back to midnight
    "Asia/Kathmandu",
    "Pacific/Apia",  # a day was left out
    "Africa/Casablanca",
    "America/New_York",
]
CHANGES = [
    datetime(1937, 6, 30, 23, 40, 28, tzinfo=UTC),
    datetime(2011, 12, 30, 10, tzinfo=UTC),
    datetime(2017, 10, 15, 3, tzinfo=UTC),
    datetime(2018, 2, 18, 2, tzinfo=UTC),
    datetime(2024, 3, 10, 3, tzinfo=UTC),
    datetime(2024, 3, 10, 7, tzinfo=UTC),
    datetime(2024, 10, 27, 1, tzinfo=UTC),
    datetime(2024, 12, 31, 23, tzinfo=UTC),
    datetime(2026, 3, 29, 1, tzinfo=UTC),
]
EDGES = [timedelta(hours=hours, microseconds=more) for hours in range(-26, 27) for more in (-1, 0)]
MOMENTS = [change + edge for change in CHANGES for edge in EDGES]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("period", get_args(Period))
@pytest.mark.parametrize("zone", ZONES)
def test_a_moment_is_in_the_same_period_as_in_python(zone, period):
    calendar = Calendar(zone, "wednesday")
    rows = [{"when": each} for each in MOMENTS]
    tables = Tables(table("t", {"when": "datetime"}, rows), calendar=calendar)

    found = tables.ask(f"QUERY t COUNT BY when PER {period} USING when")

    micros = {each: (each - EPOCH) // timedelta(microseconds=1) for each in MOMENTS}
    wanted = {
        each: EPOCH + timedelta(microseconds=start(at, period, calendar))
        for each, at in micros.items()
    }
    assert {row["when"]: row["bucket"] for row in found} == wanted
