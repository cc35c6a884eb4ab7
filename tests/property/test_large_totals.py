"""Promise: TOTAL and AVG of f64 do not depend on the order of rows or on how partial states were
merged, also where a sum on the way is larger than any double: QUERY and SHOW return the same.

The model adds fractions. A total that no double can hold is infinite, with the sign of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strandline.query.execute import executor
from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.execute.result import Result
from tests.unit.query.materialized.world import Machine

VALUES = st.sampled_from([1e308, -1e308, 0.5e308, -0.5e308, 1.0, 5e-324])
BATCHES = st.lists(st.lists(VALUES, min_size=1, max_size=5), min_size=1, max_size=4)
QUERIES = ("QUERY pay TOTAL amount, AVG amount", "QUERY pay TOTAL amount, AVG amount BY cur")
DOUBLE_MAX = Fraction(1.7976931348623157e308)


def _total(values: Sequence[float]) -> float:
    exact = sum(map(Fraction, values))
    if abs(exact) > DOUBLE_MAX:
        return math.inf if exact > 0 else -math.inf
    return float(exact)


def _check(result: Result, values: Sequence[float]) -> None:
    (row,) = result.rows()
    tolerance = max(map(abs, values)) * 1e-9
    assert math.isclose(row["total_amount"], _total(values), rel_tol=1e-9, abs_tol=tolerance)
    average = row["total_amount"] / len(values)
    assert math.isclose(row["avg_amount"], average, rel_tol=1e-9, abs_tol=tolerance)


@pytest.mark.parametrize("text", QUERIES)
@settings(max_examples=40, deadline=None)
@given(batches=BATCHES)
@example(batches=[[1e308, 1e308], [-1e308, -1e308]])
@example(batches=[[1e308, 1e308, -1e308], [1.0]])
@example(batches=[[1e308, 1e308]])
def test_large_totals_are_the_same_in_query_and_show(text: str, batches: list[list[float]]):
    machine = Machine()
    machine.remember("a", text)
    stored: list[float] = []

    for batch in batches:
        for amount in batch:
            machine.pay(1, amount=amount)
        stored += batch
        _check(machine.fresh(text), stored)
        _check(machine.show("a"), stored)
        _check(machine.show("a"), stored)
    machine.store.close()


@pytest.mark.parametrize("memory_max", [1, 1 << 30])
@pytest.mark.parametrize(
    "text", ["QUERY pay TOTAL amount", "QUERY pay FOLLOWED BY pay COUNT, TOTAL pay.amount"]
)
def test_a_total_that_overflows_on_the_way_is_asked_again(text: str, memory_max: int):
    """Also where rows are streamed, and where the rows are matches of a sequence."""
    machine = Machine()
    for amount in (1e308, 1e308, -1e308, -0.5e308, 1.0):
        machine.table("pay").store("c", {"amount": amount, "cur": "EUR", "n": 1, "user": None})
        machine.world.clock.advance(1.0)
    bound = machine.bound(text)

    result = executor.run(
        bound,
        lambda name: machine.table(name).snapshot(),
        engine=DuckDbEngine(threads=1, memory_max=memory_max),
    )

    assert result.tuples()[0][-1] == 0.5e308
