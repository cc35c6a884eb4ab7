"""Promise: every row is in one half of a condition, and one row is judged as many are."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth
from strandline.views.table.evaluate import mask, matches

TEXTS = ["", "a", "b", "B", "ü", "\U0001f600", "\uffff", None]
BIG = [0, 1, 5, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, None]
WHOLE = [-(2**63), -1, 0, 1, 5, 2**53 + 1, 2**63 - 1, None]
FLOATS = [-1.5, -0.0, 0.0, 1.0, 2.0**53, 1e300, None]
TIMES = [-62_135_596_800_000_000, -1, 0, 1, 1_767_323_045_123_456, None]
DAYS = [-1, 0, 1, 20_455, None]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "seq": (pa.uint64(), [1, 2, 3, 2**64 - 1]),
    "ts": (pa.timestamp("us", tz="UTC"), TIMES[:-1]),
    "context": (pa.string(), TEXTS[:-1]),
    "s": (pa.string(), TEXTS),
    "e": (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    "u": (pa.uint64(), BIG),
    "i": (pa.int64(), WHOLE),
    "f": (pa.float64(), FLOATS),
    "b": (pa.bool_(), [True, False, None]),
    "at": (pa.timestamp("us", tz="UTC"), TIMES),
    "day": (pa.date32(), DAYS),
}
LITERALS: dict[str, list[Any]] = {
    **{name: values for name, (_, values) in COLUMNS.items()},
    "seq": [0, 2, 3, -1, 2**64, 2**70, None],
    "u": [*BIG, -1, -(2**70), 2**64, 2**70, 4.5, 5.0],
    "i": [*WHOLE, 2**63, -(2**63) - 1, 0.5, -1.5, 1e300, -1e300],
    "f": [*FLOATS, 1, 0, 2**53 + 1, -(10**400), 10**400],
}
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]


def table_of(columns: dict[str, list[Any]]) -> pa.Table:
    return pa.table({name: pa.array(columns[name], COLUMNS[name][0]) for name in columns})


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows in chunks, whose dictionaries differ; some are slices."""
    chunks = []
    for count in draw(st.lists(st.integers(0, 6), max_size=3)):
        chunk = table_of(
            {
                name: draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))
                for name, (_, values) in COLUMNS.items()
            }
        )
        chunks.append(chunk.slice(draw(st.integers(0, count))))
    return pa.concat_tables(chunks) if chunks else table_of({name: [] for name in COLUMNS})


FIELDS = st.sampled_from([*COLUMNS])
LEAVES = st.one_of(
    FIELDS.flatmap(
        lambda name: st.builds(
            Compare, st.just(name), st.sampled_from(OPERATORS), st.sampled_from(LITERALS[name])
        )
    ),
    FIELDS.flatmap(
        lambda name: st.builds(
            In, st.just(name), st.lists(st.sampled_from(LITERALS[name]), max_size=4).map(tuple)
        )
    ),
    st.just(Truth("b")),
)
CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=6,
)


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Times as the numbers that conditions have."""
    for name in ("ts", "at"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int64()))
    day = table["day"].cast(pa.int32())
    return table.set_column(table.column_names.index("day"), "day", day).to_pylist()


def plainly(value: Any, op: str, literal: Any) -> bool:
    """One comparison, said in full."""
    if op == "!=":
        return not plainly(value, "=", literal)
    if value is None or literal is None:
        return op == "=" and value is None and literal is None
    if isinstance(value, float) and isinstance(literal, int) and abs(literal) < 2**1000:
        literal = float(literal)
    answers = {"=": value == literal, "<": value < literal, ">": value > literal}
    return answers[op[0]] or (len(op) == 2 and value == literal)


@pytest.mark.parametrize("name", [*COLUMNS])
def test_every_value_is_compared_with_every_literal(name):
    kind, values = COLUMNS[name]
    table = pa.table({name: pa.array(values, kind)})
    for op in OPERATORS:
        for literal in LITERALS[name]:
            expected = [plainly(value, op, literal) for value in values]

            assert mask(Compare(name, op, literal), table).tolist() == expected, (op, literal)
            assert [matches(Compare(name, op, literal), {name: value}) for value in values] == (
                expected
            ), (op, literal)


@pytest.mark.parametrize("name", [*COLUMNS])
def test_one_of_several_is_equal_to_one_of_them(name):
    kind, values = COLUMNS[name]
    table = pa.table({name: pa.array(values, kind)})
    for first, second in itertools.product(LITERALS[name], repeat=2):
        expected = [plainly(value, "=", first) or plainly(value, "=", second) for value in values]

        assert mask(In(name, (first, second)), table).tolist() == expected, (first, second)
        assert [matches(In(name, (first, second)), {name: value}) for value in values] == expected


@settings(max_examples=500, deadline=None)
@given(tables(), CONDITIONS)
def test_many_rows_are_judged_as_each_is(table, condition):
    found = mask(condition, table)

    assert found.dtype == np.bool_
    assert found.tolist() == [matches(condition, row) for row in plain_rows(table)]


@settings(max_examples=100, deadline=None)
@given(tables(), CONDITIONS)
def test_times_may_be_themselves(table, condition):
    assert mask(condition, table).tolist() == [matches(condition, row) for row in table.to_pylist()]


@settings(max_examples=100, deadline=None)
@given(tables(), CONDITIONS)
def test_no_row_is_in_neither_half(table, condition):
    assert (mask(condition, table) ^ mask(Not(condition), table)).all()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Compare("x", "=", 5), [False, True, False]),
        (Compare("x", "!=", 5), [True, False, True]),
        (Compare("x", "<", 5), [True, False, False]),
        (Compare("x", "<=", 5), [True, True, False]),
        (Compare("x", ">", 4), [False, True, False]),
        (Compare("x", ">=", 6), [False, False, False]),
        (Not(Compare("x", "<", 5)), [False, True, True]),
        (Compare("x", "=", None), [False, False, True]),
        (Compare("x", "!=", None), [True, True, False]),
        (Compare("x", "<", None), [False, False, False]),
        (Compare("x", ">", -1), [True, True, False]),
        (Compare("x", "<", -1), [False, False, False]),
        (Compare("x", "!=", -1), [True, True, True]),
        (Compare("x", "<", 2**70), [True, True, False]),
        (Compare("x", ">=", 2**70), [False, False, False]),
        (In("x", (0, 5, -1)), [True, True, False]),
        (In("x", (5, None)), [False, True, True]),
        (In("x", ()), [False, False, False]),
        (Not(In("x", (5,))), [True, False, True]),
        (And(()), [True, True, True]),
        (Or(()), [False, False, False]),
        (Or((Compare("x", "=", 0), Compare("x", "=", None))), [True, False, True]),
        (And((Compare("x", ">", 0), Compare("x", "<", 9))), [False, True, False]),
    ],
)
def test_a_comparison_with_what_is_missing_is_false_and_not_turns_it_around(condition, expected):
    values = [0, 5, None]

    assert mask(condition, pa.table({"x": pa.array(values, pa.uint64())})).tolist() == expected
    assert [matches(condition, {"x": value}) for value in values] == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Truth("b"), [True, False, False]),
        (Not(Truth("b")), [False, True, True]),
        (Compare("b", "=", False), [False, True, False]),
        (Compare("b", "!=", True), [False, True, True]),
    ],
)
def test_a_bool_that_is_missing_is_neither_true_nor_false(condition, expected):
    values = [True, False, None]

    assert mask(condition, pa.table({"b": values})).tolist() == expected
    assert [matches(condition, {"b": value}) for value in values] == expected


def test_a_field_that_a_row_lacks_is_null():
    assert matches(Compare("x", "=", None), {})
    assert not matches(Compare("x", "<", 5), {})


def test_a_dictionary_may_have_null_among_its_values():
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None], pa.int32()), pa.array(["a", None])
    )
    table = pa.table({"x": column})

    assert mask(Compare("x", "=", None), table).tolist() == [False, True, True]
    assert mask(Compare("x", "!=", "a"), table).tolist() == [False, True, True]
