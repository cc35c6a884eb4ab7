"""Promise: an answer gives plain Python values, in every form, as often as one asks."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from strandline.errors import NotInstalled
from strandline.query.execute.result import Result

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
TABLE = pa.table(
    {
        "seq": pa.array([2**64 - 1, 2], pa.uint64()),
        "at": pa.array([MOMENT, None], pa.timestamp("us", tz="UTC")),
        "day": pa.array([date(1, 1, 1), None], pa.date32()),
        "total": pa.array([Decimal(10**30), None], pa.decimal128(38, 0)),
        "share": [0.5, None],
        "name": ["é", None],
        "paid": [True, None],
    }
)


def test_rows_are_plain_values():
    first, second = Result(TABLE).rows()

    assert first == {
        "seq": 2**64 - 1,
        "at": MOMENT,
        "day": date(1, 1, 1),
        "total": 10**30,
        "share": 0.5,
        "name": "é",
        "paid": True,
    }
    assert [type(value) for value in first.values()] == [
        int, datetime, date, int, float, str, bool,
    ]  # fmt: skip
    assert list(second.values()) == [2, None, None, None, None, None, None]


def test_times_are_aware_and_in_utc():
    at = Result(TABLE).rows()[0]["at"]

    assert at.tzinfo is UTC


@pytest.mark.parametrize("year", [1, 1677, 9999])
def test_times_of_every_year_can_be_told(year):
    at = datetime(year, 6, 1, 12, 0, 0, 1, UTC)
    table = pa.table({"at": pa.array([at], pa.timestamp("us", tz="UTC"))})

    assert Result(table).tuples() == [(at,)]


def test_it_can_be_gone_through_many_times():
    result = Result(TABLE)

    assert list(result) == list(result) == result.rows()
    assert len(result) == 2


def test_batches_have_no_more_rows_than_asked_for():
    sizes = [batch.num_rows for batch in Result(pa.table({"n": list(range(10))})).batches(4)]

    assert sizes == [4, 4, 2]


def test_an_empty_answer_says_so_and_has_its_columns():
    result = Result(TABLE.slice(0, 0))

    assert result.message == "No matching events found"
    assert result.columns == TABLE.column_names
    assert result.rows() == []


def test_an_answer_says_how_many_rows_it_has():
    assert Result(TABLE).message == "2 rows"
    assert Result(TABLE.slice(1)).message == "1 row"


def test_it_can_be_a_dataframe_of_pandas():
    frame = Result(TABLE.select(["seq", "at"])).df()

    assert list(frame["seq"]) == [2**64 - 1, 2]
    assert frame["at"][0].to_pydatetime() == MOMENT


def test_it_can_be_a_dataframe_of_polars():
    frame = Result(TABLE.select(["seq", "name"])).pl()

    assert frame.rows() == [(2**64 - 1, "é"), (2, None)]


@pytest.mark.parametrize(("way", "library"), [("df", "pandas"), ("pl", "polars")])
def test_a_library_that_is_missing_is_named(monkeypatch, way, library):
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(NotInstalled, match=f"pip install {library}"):
        getattr(Result(TABLE), way)()
