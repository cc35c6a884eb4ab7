"""Promise: DuckDB looks up no relation that was not found in the text before, and no function runs
that reads anything but its arguments."""

from __future__ import annotations

import itertools

import duckdb
import pyarrow as pa
import pytest

from strandline.query.language.errors import QueryError
from strandline.query.sql import statement
from strandline.query.sql.functions import FUNCTIONS
from strandline.query.sql.sandbox import SHARED

_INTERNAL = ("__internal", "collate_", "icu_collate_", "pg_", "has_", "inet_", "parse_duckdb")
_REFUSED = """
cast_to_type col_description combine combine_aggr constant_or_null create_sort_key
current_catalog current_connection_id current_database current_query current_query_id current_role
current_schema current_schemas current_setting current_transaction_id current_user currval
array_to_string_comma_default bitstring_byte_comparable enum_code finalize format_pg_type
get_block_size get_type getvariable hive_partition_component icu_sort_key in_search_path index_key
invoke is_histogram_other_bin json_copy_strftime_if_date json_copy_strftime_if_timestamp
json_deserialize_sql json_serialize_plan json_serialize_sql make_type map_to_pg_oid
md5_number_lower md5_number_upper nextval normalized_interval obj_description prefix remap_struct
replace_type session_user setseed setval shobj_description sleep_ms st_intersects_extent stats
switch timetz_byte_comparable to_aggregate_state txid_current unpivot_list user
variant_bytes_to_variant variant_comparator variant_group_object variant_normalize
variant_to_parquet_variant vector_type version vertex_extract write_log
"""
_CATALOGUE = ["duckdb_views", "sqlite_master", "pragma_database_list", "pg_class"]


def _read(text: str) -> statement.Statement:
    with SHARED.parser() as connection:
        return statement.read(text, connection)


def _selects() -> list[str]:
    """Texts in which the names a and b are CTEs, relations, or both, at several depths."""
    bodies = ["SELECT 1 AS x", "SELECT x FROM a", "SELECT x FROM b"]
    texts = []
    for one, two, last in itertools.product(bodies, repeat=3):
        texts += [
            f"WITH a AS ({one}), b AS ({two}) {last}",
            f"WITH RECURSIVE a AS ({one} UNION SELECT x FROM a), b AS ({two}) {last}",
            f"WITH RECURSIVE a AS ({one} UNION ALL {two}) {last}",
            f"WITH RECURSIVE b AS (SELECT 1 AS x UNION {one}) SELECT t.x FROM ({last}) t, ({two})",
            f"WITH A AS ({one}) SELECT x FROM (WITH b AS ({two}) {last}) UNION ALL {last}",
            f"WITH a AS MATERIALIZED ({one}) SELECT (WITH b AS ({two}) {last} LIMIT 1) AS x",
            f"({one}) UNION ALL (WITH b AS ({two}) {last})",
            f"WITH a AS (WITH b AS ({one}) {two}) {last}",
        ]
    return texts


def test_duckdb_looks_up_no_relation_that_was_not_found_in_the_text():
    missed = []
    for text in _selects():
        found = {named.name.lower() for named in _read(text).relations}
        with SHARED.open_database() as room:
            for name in ("a", "b"):
                room.add("", name, pa.table({"x" if name in found else "not_found": [1]}))
            try:
                room.query(f"SELECT * FROM ({text}) LIMIT 10", None)
            except duckdb.BinderException as error:
                missed += [text] if "not_found" in str(error) else []

    assert missed == []


@pytest.mark.parametrize("name", _CATALOGUE)
def test_no_cte_opens_the_way_to_a_view_of_the_catalogue(name):
    for text in (
        f"WITH RECURSIVE {name} AS (FROM {name} UNION ALL FROM {name}) FROM {name}",
        f"WITH RECURSIVE {name} AS (SELECT 1 FROM {name} UNION SELECT 1) FROM {name}",
        f"WITH {name} AS (FROM {name}) FROM {name}",
        f"WITH a AS (FROM {name}), {name} AS (SELECT 1) FROM a",
        f"SELECT * FROM (WITH {name} AS (SELECT 1) FROM {name}), {name}",
    ):
        assert name in [named.name for named in _read(text).relations], text


def test_only_letters_of_ascii_are_the_same_in_both_cases():
    """The Kelvin sign is K in small letters to Python, and another letter to DuckDB."""
    text = 'WITH "duc\u212adb_views" AS (SELECT 1) FROM duckdb_views'

    assert [named.name for named in _read(text).relations] == ["duckdb_views"]


@pytest.mark.parametrize("schema", ["information_schema", "pg_catalog", "main", "temp", "system"])
def test_a_schema_of_the_catalogue_is_a_relation_to_look_up(schema):
    text = f"WITH tables AS (SELECT 1) FROM {schema}.tables"

    assert _read(text).relations[0][:2] == (schema, "tables")


@pytest.mark.parametrize(
    "call",
    [
        "json_serialize_plan('SELECT * FROM orders')",
        "json_serialize_sql('SELECT 1')",
        "json_deserialize_sql('{}')",
        "current_setting('memory_limit')",
        "getvariable('x')",
        "nextval('x')",
        "version()",
        "current_query()",
        "pg_get_viewdef(1)",
        "has_table_privilege('orders', 'select')",
        "sleep_ms(1000)",
        "write_log('x')",
        "pg_catalog.pg_typeof(1)",
        "system.main.lower('X')",
        "READ_TEXT('/etc/passwd')",
        "lowerr('X')",
    ],
)
def test_a_function_that_is_not_listed_is_refused_wherever_it_stands(call):
    name = call.partition("(")[0]
    for text in (
        f"SELECT {call}",
        f"SELECT 1 FROM orders WHERE 1 = length({call})",
        f"SELECT list_transform([1], x -> {call})",
        f"SELECT * FROM unnest([{call}])",
        f"SELECT 1 ORDER BY {call}",
        f"SELECT count(*) FILTER (WHERE {call} IS NULL) OVER (PARTITION BY {call})",
    ):
        with pytest.raises(QueryError, match="no function") as refused:
            _read(text)

        assert text[refused.value.at :].startswith(name)


def test_every_function_of_duckdb_is_allowed_or_refused_by_name():
    """A function that a later DuckDB brings is refused; this test asks for the decision."""
    found = {
        name.lower()
        for (name,) in duckdb.connect()
        .execute(
            "SELECT function_name FROM duckdb_functions() "
            "WHERE function_type IN ('scalar', 'aggregate', 'macro', 'window')"
        )
        .fetchall()
    }
    undecided = {
        name
        for name in found - FUNCTIONS - set(_REFUSED.split())
        if not name.startswith(_INTERNAL)
        and name not in ("is distinct from", "is not distinct from")
    }

    assert undecided == set()
    assert set(_REFUSED.split()) & FUNCTIONS == set()
    assert set(_REFUSED.split()) <= found


@pytest.mark.parametrize(
    "expression",
    [
        "count(*), sum(1) FILTER (WHERE true), list(1 ORDER BY 1), row_number() OVER ()",
        "[1, 2][1], {'a': 1}.a, map {'a': 1}, (1, 2), [x + 1 for x in [1]], [1, 2][1:2]",
        "'a' LIKE 'b', 'a' NOT ILIKE 'b' ESCAPE 'x', 'a' SIMILAR TO 'b', 'a' GLOB 'b'",
        "extract(year FROM date '2020-01-01'), now() AT TIME ZONE 'UTC', INTERVAL 1 DAY",
        "current_date, current_timestamp, 1 BETWEEN 0 AND 2",
        "coalesce(NULL, 1), ifnull(1, 2), nullif(1, 2), TRY(1 / 0), CASE WHEN true THEN 1 END",
        "position('a' IN 'b'), substring('abc' FROM 1 FOR 2), trim(BOTH 'a' FROM 'aba'), 5!",
        "ARRAY(SELECT 1), EXISTS (SELECT 1), 1 = ANY (SELECT 1), 1 IS DISTINCT FROM 2, 2 ** 3, -1",
        "unnest([1]), generate_series(1, 2), 'a' COLLATE nocase, x'aa', DATE '2020-01-01'",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY 1), '{\"a\": 1}'::JSON -> 'a'",
    ],
)
def test_the_syntax_of_expressions_needs_no_function_that_is_not_listed(expression):
    assert _read(f"SELECT {expression}").relations == []
