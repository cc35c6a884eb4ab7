"""Promise: SQL is one query to the store; what else a text may be is refused, and says where."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.query.language.errors import QueryError
from strandline.query.sql import statement
from strandline.query.sql.sandbox import SHARED

REFUSED = [
    "COPY orders TO 'stolen.csv'",
    "ATTACH 'other.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET threads = 1",
    "CREATE TABLE copied AS FROM orders",
    "INSERT INTO orders VALUES (1)",
    "DELETE FROM orders",
    "DROP VIEW orders",
    "CALL range(3)",
    "EXPLAIN SELECT 1",
    "PREPARE question AS SELECT 1",
    "SHOW TABLES",
    "WITH gone AS (DELETE FROM orders RETURNING *) FROM gone",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY orders TO 'stolen.csv'",
    "",
    "-- nothing but a comment",
]
OUTSIDE = [
    "read_csv('/etc/passwd')",
    "read_parquet('*.parquet')",
    "read_json('x')",
    "read_text('/etc/passwd')",
    "read_blob('/etc/passwd')",
    "glob('/etc/*')",
    "sniff_csv('x')",
    "parquet_metadata('x')",
    "duckdb_settings()",
    "query('SELECT 1')",
    "query_table('orders')",
]


def _read(text: str) -> statement.Statement:
    with SHARED.parser() as connection:
        return statement.read(text, connection)


def _names(text: str) -> list[tuple[str, str]]:
    return [(named.schema, named.name) for named in _read(text).relations]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_single_question_is_refused(text):
    with pytest.raises(QueryError, match="one query"):
        _read(text)


@pytest.mark.parametrize("call", OUTSIDE)
def test_a_function_that_looks_outside_is_refused_wherever_it_stands(call):
    for text in (
        f"FROM {call}",
        f"SELECT * FROM orders JOIN {call} ON true",
        f"SELECT (SELECT count(*) FROM {call})",
        f"WITH outside AS (FROM {call}) FROM outside",
    ):
        with pytest.raises(QueryError, match="no files") as refused:
            _read(text)

        assert text[refused.value.at :].startswith(call.partition("(")[0])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "VALUES (1), (2)",
        "FROM orders",
        "TABLE orders",
        "SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 3",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 9) FROM n",
        "SELECT * FROM range(3), unnest([1, 2]) AS u(x), generate_series(1, 2) AS g(y)",
        "DESCRIBE orders",
        "SELECT 1;",
    ],
)
def test_every_way_to_ask_one_question_is_allowed(text):
    assert _read(text).text == text


def test_relations_are_found_wherever_they_are_named():
    text = """
        WITH recent AS (SELECT * FROM log.orders)
        SELECT k.key, (SELECT max(seq) FROM queue."the jobs")
        FROM kv.profiles k JOIN recent ON true
        WHERE EXISTS (SELECT 1 FROM series.gps) AND 1 IN (SELECT seq FROM plain)
    """

    assert sorted(_names(text)) == [
        ("", "plain"),
        ("kv", "profiles"),
        ("log", "orders"),
        ("queue", "the jobs"),
        ("series", "gps"),
    ]


def test_a_cte_shadows_a_relation_where_sql_says_so():
    assert _names("WITH orders AS (SELECT 1) FROM orders") == []
    assert _names("WITH ORDERS AS (SELECT 1) SELECT (SELECT 1 FROM Orders)") == []
    assert _names("WITH orders AS (FROM orders) FROM orders") == [("", "orders")]
    assert _names("WITH a AS (FROM b), b AS (SELECT 1) FROM a, b") == [("", "b")]
    assert _names("SELECT * FROM (WITH a AS (SELECT 1) FROM a) x, a") == [("", "a")]
    assert _names("WITH orders AS (SELECT 1) FROM log.orders") == [("log", "orders")]


def test_a_text_that_cannot_be_read_is_told_with_line_and_caret():
    with pytest.raises(QueryError) as wrong:
        _read("SELECT seq,\n  'ü', FRM\nFROM orders WHERE WHERE")

    assert (wrong.value.line, wrong.value.column) == (3, 19)
    assert str(wrong.value).splitlines()[-2:] == [
        "  FROM orders WHERE WHERE",
        "                    ^",
    ]


def test_places_count_characters():
    (named,) = _read("SELECT 'äöü€' FROM orders").relations

    assert "SELECT 'äöü€' FROM orders"[named.at :] == "orders"


def test_a_name_of_three_parts_is_refused():
    with pytest.raises(QueryError, match="too many parts"):
        _read("FROM a.b.c")


def test_a_text_must_be_text():
    with pytest.raises(Invalid, match="SQL is text"):
        _read(b"SELECT 1")  # type: ignore[arg-type]


def test_half_of_a_surrogate_pair_is_a_mistake_at_its_place():
    with SHARED.parser() as connection, pytest.raises(QueryError, match="surrogate") as met:
        statement.read("SELECT '\udcc3'", connection)

    assert met.value.at == 8
