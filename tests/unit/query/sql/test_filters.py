"""Promise: what is read of a filter is never narrower than the filter: every row for which it holds
is within the bounds and values that were read; and filters as DuckDB makes them are understood."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from strandline.query.sql.filters import (
    AllOf,
    AnyOf,
    ColumnBounds,
    Comparison,
    bounds,
    filter_columns,
    read,
    values,
)

TIME = pa.timestamp("us", tz="UTC")
TEXTS = st.text(alphabet="ab\",\n \\'é()[]{}", max_size=6)


def _one_of(field: str, chosen: list) -> pc.Expression:
    """As DuckDB writes IN."""
    listed = pc.field(field).isin(pa.array(chosen))
    return pc.if_else(pc.is_valid(pc.field(field)), listed, pa.scalar(None, pa.bool_()))


LEAVES = st.one_of(
    st.builds(
        lambda op, value: op(pc.field("n"), pa.scalar(value, pa.int64())),
        st.sampled_from([pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater]),
        st.integers(0, 9),
    ),
    st.builds(lambda value: pc.field("s") >= value, TEXTS),
    st.builds(lambda value: pc.field("s") == value, TEXTS),
    st.lists(st.integers(0, 9), min_size=1, max_size=30).map(lambda some: _one_of("n", some)),
    st.lists(TEXTS, min_size=1, max_size=30).map(lambda some: _one_of("s", some)),
    st.just(pc.field("n").is_null()),
    st.just(pc.field("s").is_valid()),
    st.just(~(pc.field("n") == 3)),
    st.just(pc.starts_with(pc.field("s"), "a")),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner), st.builds(lambda a, b: a | b, inner, inner)
    ),
    max_leaves=6,
)
ROWS = st.lists(st.tuples(st.none() | st.integers(0, 9), st.none() | TEXTS), max_size=20)


@given(FILTERS, ROWS)
def test_every_row_that_a_filter_takes_is_within_what_was_read_of_it(expression, rows):
    columns = list(zip(*rows, strict=True)) or [[], []]
    table = pa.table(
        {"n": pa.array(columns[0], pa.int64()), "s": pa.array(columns[1], pa.string())}
    )

    where = read(expression)

    for row in table.filter(expression).to_pylist():
        for field, value in row.items():
            low, high = bounds(where, field)
            only = values(where, field)
            assert low is None or (value is not None and value >= low)
            assert high is None or (value is not None and value <= high)
            assert only is None or value in only


def test_comparisons_lists_and_nulls_are_understood():
    both = ((pc.field("seq") > 3) & (pc.field("s") == 'x" and (y')) & _one_of("n", [5, 2, 9])

    where = read(both)

    assert bounds(where, "seq") == ColumnBounds(4, None)
    assert values(where, "s") == {'x" and (y'}
    assert bounds(where, "n") == ColumnBounds(2, 9)
    assert read(pc.field("n").is_null()) == Comparison("n", "null", None)
    assert read((pc.field("n") == 1) | (pc.field("n") == 2)) == AnyOf(
        (Comparison("n", "=", 1), Comparison("n", "=", 2))
    )


def test_moments_are_microseconds_and_days_are_days():
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    days = pa.scalar(20_455, pa.date32())

    where = read((pc.field("ts") >= pa.scalar(moment, TIME)) & (pc.field("day") == days))

    assert where == AllOf(
        (Comparison("ts", ">=", 1_767_323_045_678_901), Comparison("day", "=", 20_455))
    )


def test_a_part_that_is_not_understood_stands_for_nothing():
    known, unknown = pc.field("n") > 3, pc.starts_with(pc.field("s"), "a")

    assert read(known & unknown) == Comparison("n", ">", 3)
    assert read(known | unknown) is None
    assert read(~known) is None
    assert read(None) is None


def test_columns_that_a_filter_looks_at_are_among_those_mentioned():
    schema = pa.schema([("a", pa.int64()), ("b c", pa.int64()), ("other", pa.int64())])

    assert set(filter_columns((pc.field("a") > 1) & (pc.field("b c") < 2), schema)) >= {"a", "b c"}
    assert "other" not in filter_columns(pc.field("a") > 1, schema)
    assert filter_columns(None, schema) == []
