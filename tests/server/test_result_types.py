"""Promise: a value of every type that DuckDB has, its extremes and infinity included, is in the
answer in every format."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import msgspec
import pyarrow as pa
import pytest

from strandline.cli.query.sql import print_result
from strandline.query.execute.result import Result
from strandline.server.serializers.result_formats import arrow_chunks, json_chunks, ndjson_chunks
from tests.server.running import running

_SMALL = 2_000_000
"""Types whose extremes are larger than this are left out of the sweep: they say nothing more."""
_TIMES = ["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"]
_NESTED = [
    "[{0}]",
    "{{'a': {0}}}",
    "MAP {{{0}: 1}}",
    "MAP {{1: {0}}}",
    "[[{0}]]",
    "[{{'a': [{0}]}}]",
]


def _all_types() -> pa.Table:
    """Every type of this DuckDB, each with its lowest, its highest and NULL."""
    table = duckdb.sql("FROM test_all_types()").to_arrow_table()
    return table.select([name for name in table.column_names if table[name].nbytes < _SMALL])


def _infinite(kind: str) -> pa.Table:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    values = [f"'infinity'::{kind}", f"'-infinity'::{kind}"]
    columns = [*values, *(shape.format(value) for shape in _NESTED for value in values)]
    named = ", ".join(f"{column} AS c{place}" for place, column in enumerate(columns))
    return connection.sql(f"SELECT {named}").to_arrow_table()


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


@pytest.mark.parametrize("name", _all_types().column_names)
def test_every_type_is_in_an_answer_of_every_format(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    column = _all_types().select([name])
    result = Result(column)
    nulls = [value.is_valid for value in column[name]]

    (rows,) = (msgspec.json.decode(b"".join(json_chunks(result)))["rows"],)
    lines = b"".join(ndjson_chunks(column.schema, result.batches())).splitlines()
    arrow = pa.ipc.open_stream(b"".join(arrow_chunks(result))).read_all()

    assert [row[0] is not None for row in rows] == nulls
    assert msgspec.json.decode(lines[1])["rows"] == rows
    assert msgspec.json.decode(lines[-1])["row_count"] == len(nulls)
    assert arrow.num_rows == len(nulls)
    assert [row[0] is not None for row in result.tuples()] == nulls
    for shape in ("csv", "jsonl", "json", "table"):
        print_result(result, shape)
        assert len(capsys.readouterr().out.splitlines()) >= len(nulls)


@pytest.mark.parametrize("kind", _TIMES)
def test_infinity_is_infinity_in_every_format(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(_infinite(kind))

    (row,) = msgspec.json.decode(b"".join(json_chunks(result)))["rows"]
    print_result(result, "csv")
    csv = capsys.readouterr().out.splitlines()[1]
    (values,) = result.tuples()
    ends = {date.max, date.min} if kind == "DATE" else {datetime.max, datetime.min}
    ends |= {end.replace(tzinfo=UTC) for end in ends if isinstance(end, datetime)}

    assert [leaf for leaf in _leaves(row) if leaf != 1] == ["infinity", "-infinity"] * 7
    assert csv.count("infinity") == 14
    assert csv.count("-infinity") == 7
    assert {leaf for leaf in _leaves(values) if leaf != 1} <= ends


def test_a_query_for_infinity_is_answered_over_http(tmp_path: Path) -> None:
    ask = {"sql": "SELECT 'infinity'::DATE AS a, '-infinity'::TIMESTAMP_S AS b, 1 AS c"}
    wanted = ["infinity", "-infinity", 1]
    with running(tmp_path) as server:
        found = {
            accept: httpx2.post(f"{server.url}/v0/sql", json=ask, headers={"accept": accept})
            for accept in (
                "application/json",
                "application/x-ndjson",
                "application/vnd.apache.arrow.stream",
            )
        }
    json, ndjson, arrow = (answer.content for answer in found.values())

    assert msgspec.json.decode(json)["rows"] == [wanted]
    assert [msgspec.json.decode(line)["type"] for line in ndjson.splitlines()] == [
        "schema",
        "batch",
        "end",
    ]
    assert msgspec.json.decode(ndjson.splitlines()[1])["rows"] == [wanted]
    table = pa.ipc.open_stream(arrow).read_all()
    assert (table["a"].cast(pa.int32())[0].as_py(), table.num_rows) == (2**31 - 1, 1)
