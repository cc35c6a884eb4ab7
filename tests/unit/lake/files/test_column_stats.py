"""Promise: bounds of a typed column rule out no file with a row, and old types mislead nobody.

A column of an older file is read as the newest type, or as null: never as another value.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from strandline.lake.files import column_stats
from strandline.lake.files.typed_columns import typed_columns_of
from strandline.lake.manifest.file_entry import ColumnStats
from strandline.schema import Schema, parse_type
from tests.unit.lake.cold_files import write

TYPES = ["string", "u64", "i64", "f64", "bool", "datetime", "date", '["a","b"]', '["a","b","c"]']
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(
        [2**53 - 1, 2**53, 2**53 + 1, 2**60 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]
    ),
    st.floats(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "a", "b", "c", "ü" * 40, "\U0010ffff" * 9, "x" * 5000]),
    st.sampled_from(["2026-01-02", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]),
    st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
)


def rows_of(values: list[Any]) -> list[tuple]:
    data = [json.dumps({"x": value}).encode() for value in values]
    return [(seq, seq, None, None, None, None, each) for seq, each in enumerate(data, 1)]


def derived(kind: str, values: list[Any]) -> pa.Array:
    data = pa.chunked_array([pa.array([row[-1] for row in rows_of(values)], pa.binary())])
    return typed_columns_of(Schema(1, {"x": kind})).derive(data)[0]


def as_dataset(written: str | None, newest: str, values: list[Any], folder: str) -> ds.Dataset:
    """One file, as a dataset of the newest type that relies on the file's entry alone."""
    schema = Schema(1, {} if written is None else {"x": written})
    file = write(rows_of(values), zone_rows=3, schema=schema)
    path = f"{folder}/{file.entry.content}.parquet"
    with open(path, "wb") as out:
        out.write(file.content)
    new = typed_columns_of(Schema(2, {"x": newest}))
    (*some, last) = [
        pc.scalar(True),
        *column_stats.FileGuarantees(typed_columns_of(schema), new).of(file.entry),
    ]
    for each in some:
        last = last & each
    return ds.FileSystemDataset.from_paths(
        [path],
        schema=new.columns,
        format=ds.ParquetFileFormat(),
        filesystem=pa.fs.LocalFileSystem(),
        partitions=[last],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("files"))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(TYPES), st.lists(VALUES, min_size=1, max_size=8), st.data())
def test_a_filter_finds_every_row_that_it_should(folder, kind, values, data):
    column = derived(kind, values)
    wanted = data.draw(st.sampled_from(values)) if values else None
    probe = derived(kind, [wanted])[0]
    assume(probe.is_valid)
    rows = as_dataset(kind, kind, values, folder)
    compare = data.draw(st.sampled_from(["equal", "less", "greater", "less_equal", "not_equal"]))

    found = rows.to_table(filter=getattr(pc, compare)(pc.field("x"), probe))["seq"].to_pylist()
    nulls = rows.to_table(filter=pc.field("x").is_null())["seq"].to_pylist()

    fits = pc.fill_null(getattr(pc, compare)(column, probe), False).to_pylist()
    assert found == [seq for seq, fit in enumerate(fits, 1) if fit]
    assert nulls == [seq for seq, value in enumerate(column.to_pylist(), 1) if value is None]


@settings(max_examples=600, deadline=None)
@given(st.sampled_from([*TYPES, None]), st.sampled_from(TYPES), st.lists(VALUES, max_size=8))
@example("i64", "f64", [2**60 + 1, 1])
@example("i64", "f64", [2**53, -(2**53)])
@example("u64", "i64", [2**64 - 1])
@example("string", "f64", ["12", "a"])
def test_an_old_column_is_what_the_newest_type_would_give_or_null(folder, written, newest, values):
    assume(values)
    expected = derived(newest, values).to_pylist()

    found = as_dataset(written, newest, values, folder).to_table()["x"].to_pylist()

    assert [
        one for one, other in zip(found, expected, strict=True) if one not in (None, other)
    ] == []


@pytest.mark.parametrize(
    ("written", "newest", "values", "shown"),
    [
        ("i64", "f64", [1, -7], True),
        ("i64", "f64", [2**53, -(2**53)], True),
        ("i64", "f64", [1, 2**53 + 1], False),
        ("u64", "i64", [0, 2**63 - 1], True),
        ("u64", "i64", [0, 2**63], False),
        ("i64", "u64", [0, 5], True),
        ("i64", "u64", [-1, 5], False),
        ("f64", "i64", [1, 2], False),
        ('["a","b"]', '["b","c","a"]', ["a", "b"], True),
        ('["a","b"]', '["a"]', ["a"], False),
        ('["a","b"]', "string", ["a"], True),
        ("string", '["a","b"]', ["a"], False),
        ("string", "datetime", ["2026-01-02"], False),
        ("date", "datetime", ["2026-01-02"], False),
        ("i64 | null", "i64", [3], True),
    ],
)
def test_a_column_is_shown_as_a_type_that_holds_it(written, newest, values, shown, folder):
    found = as_dataset(written, newest, values, folder).to_table()["x"].to_pylist()

    assert found == (values if shown else [None] * len(values))


@pytest.mark.parametrize(
    ("kind", "values", "low", "high"),
    [
        ("u64", [2**64 - 1, 9, 10], "9", "18446744073709551615"),
        ("i64", [-10, -9, 1], "-10", "1"),
        ("f64", [1e300, 0.1, -5], "-5.0", "1e+300"),
        ("bool", [True, False], "false", "true"),
        (
            "datetime",
            [0, "0987-01-02"],
            "0987-01-02T00:00:00.000000Z",
            "1970-01-01T00:00:00.000000Z",
        ),
        ("date", ["2026-10-02", "2026-09-30"], "2026-09-30", "2026-10-02"),
        ("string", ["b" * 40, "a"], "a", "b" * 31 + "c"),
        ('["a","b"]', ["b", "a"], "a", "b"),
    ],
)
def test_bounds_are_text_in_the_order_of_what_they_stand_for(kind, values, low, high):
    file = write(rows_of([*values, None]), zone_rows=2, schema=Schema(1, {"x": kind}))

    stats = file.entry.column_stats()["x"]

    assert stats == ColumnStats(low, high, 1)
    told = parse_type(kind, "x")
    assert column_stats.value_of(told, low) < column_stats.value_of(told, high)


def test_a_bound_comes_back_as_the_value_it_stands_for():
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)

    assert (
        column_stats.value_of(parse_type("datetime", "x"), "2026-01-02T03:04:05.000006Z") == moment
    )
    assert column_stats.value_of(parse_type("date", "x"), "2026-01-02") == date(2026, 1, 2)


def test_only_the_first_fields_have_bounds():
    fields = {f"f{number}": "i64" for number in range(40)}

    file = write(rows_of([1]), schema=Schema(1, fields))

    known = [name for name in file.entry.column_stats() if name.startswith("f")]
    assert known == list(fields)[: column_stats.STATED_MAX]
