"""Promise: KEEP bounds what is shown exactly, and what is stored before long."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from tests.unit.query.materialized.world import Machine

HOUR_US = 3_600_000_000


@pytest.fixture
def machine() -> Machine:
    return Machine()


def numbers(machine: Machine) -> list[int]:
    return [row["n"] for row in machine.show("a")]


def test_the_newest_rows_are_kept(machine: Machine):
    machine.pay(*range(1, 10))
    machine.remember("a", "QUERY pay RETURN [n] WHERE n != 7", rows_max=3)
    first = numbers(machine)

    machine.pay(10)

    assert first == [6, 8, 9]
    assert numbers(machine) == [8, 9, 10]


def test_rows_that_are_not_kept_leave_the_store_and_are_counted(machine: Machine):
    machine.remember("a", "QUERY pay RETURN [n]", rows_max=5)

    for n in range(100):
        machine.pay(n)
        machine.show("a")

    told = machine.remembered.describe("a")
    assert numbers(machine) == [95, 96, 97, 98, 99]
    assert told.rows < 20
    assert told.counters.rows_dropped + told.rows == 100
    assert machine.store.topic("remembered:a").statistics().count < 30


def test_rows_that_are_too_old_are_gone_at_that_moment(machine: Machine):
    machine.pay(1)
    machine.remember("a", "QUERY pay RETURN [n]", age_max_us=HOUR_US)
    machine.world.clock.advance(1800.0)
    machine.pay(2)
    before = numbers(machine)

    machine.world.clock.advance(1801.0)

    assert before == [1, 2]
    assert numbers(machine) == [2]


def test_runs_that_are_too_old_leave_with_the_next_news(machine: Machine):
    machine.pay(*range(1, 10))
    machine.remember("a", "QUERY pay RETURN [n]", age_max_us=HOUR_US)
    machine.world.clock.advance(7200.0)

    machine.pay(10)
    machine.show("a")

    assert machine.remembered.describe("a").rows == 1
    assert numbers(machine) == [10]


def test_runs_that_are_young_enough_stay_whatever_news_come(machine: Machine):
    machine.pay(1)
    machine.remember("a", "QUERY pay RETURN [n]", age_max_us=HOUR_US)

    for n in (2, 3):
        machine.world.clock.advance(600.0)
        machine.pay(n)
        machine.show("a")

    assert numbers(machine) == [1, 2, 3]


def test_order_and_limit_are_over_what_is_kept(machine: Machine):
    machine.pay(*range(9, 0, -1))
    machine.remember("a", "QUERY pay RETURN [n] ORDER BY n DESC LIMIT 2", rows_max=4)

    machine.pay(0)

    assert numbers(machine) == [3, 2]


def test_periods_stay_that_reach_into_the_time_that_is_kept(machine: Machine):
    machine.pay(1)
    machine.remember("a", "QUERY pay COUNT PER HOUR", age_max_us=2 * HOUR_US)
    for n in range(2, 8):
        machine.world.clock.advance(3600.0)
        machine.pay(n)

    shown = machine.show("a")

    assert len(shown) == 3
    assert machine.remembered.describe("a").rows <= 7


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("QUERY pay COUNT BY cur", {"rows_max": 3}),
        ("QUERY pay COUNT BY cur", {"age_max_us": HOUR_US}),
        ("QUERY pay FOLLOWED BY view", {"rows_max": 3}),
        ("QUERY pay", {"rows_max": 0}),
    ],
)
def test_keep_that_says_nothing_about_a_query_is_refused(machine: Machine, text: str, keep):
    with pytest.raises(Invalid, match="KEEP"):
        machine.remember("a", text, **keep)

    assert machine.store.topics("remembered:") == []
