"""Promise: a field may have the name of a system column, and be a word of any script. It keeps its
name in QUERY, SHOW, REPLAY and SQL, where the system column is ``__seq``; in files the system
column keeps its name, and the field is ``__data_seq``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import strandline
from strandline.lake.external_reader import dataset
from strandline.lake.files.record_columns import SCHEMA
from strandline.query.language.ast import Define, Query
from strandline.query.language.errors import QueryError
from strandline.query.language.parser import parse
from strandline.store import Store
from tests.unit.lake.small_lake import BATCH, open_small

EVENT = {
    "seq": 7,
    "ts": "2020-01-02T03:04:05Z",
    "context": "mine",
    "key": "k",
    "tag": "t",
    "data": "d",
    "meta": "m",
    "node": "n",
    "topic": "o",
    "lost": "l",
    "event": "e",
    "größe": 1.5,
    "मूल्य": 12,
    "価格": True,
    "by": "b",
}
TYPES = {"seq": "u64", "ts": "datetime", "größe": "f64", "मूल्य": "i64", "価格": "bool"}
FIELDS = {name: TYPES.get(name, "string") for name in EVENT}
SYSTEM = ["__seq", "__ts", "__context"]
VALUES = EVENT | {"ts": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)}


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with strandline.open(str(tmp_path / "data")) as opened:
        opened.run(f"DEFINE odd FIELDS {json.dumps(FIELDS, ensure_ascii=False)}")
        for context in ("c1", "c2"):
            opened.run(f"STORE odd FOR {context} PAYLOAD {json.dumps(EVENT)}")
        opened.run("REMEMBER QUERY odd AS kept")
        if request.param == "files":
            opened.run("FLUSH")
        yield opened


def test_a_query_has_every_field_by_its_name_and_the_system_columns_besides(store: Store):
    for text in ("QUERY odd", "SHOW kept"):
        result = store.run(text)

        assert result.columns == [*SYSTEM, *FIELDS]
        rows = result.rows()
        assert [(row["__seq"], row["__context"]) for row in rows] == [(2, "c1"), (3, "c2")]
        assert [{name: row[name] for name in FIELDS} for row in rows] == [VALUES, VALUES]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("seq = 7", 2),
        ("__seq = 2", 1),
        ('context = "mine"', 2),
        ('__context = "c2"', 1),
        ('ts < "2021-01-01"', 2),
        ('__ts < "2021-01-01"', 0),
        ("key = k AND tag = t AND data = d AND meta = m AND node = n", 2),
        ("topic = o AND lost = l AND event = e AND `by` = b", 2),
        ("größe > 1 AND मूल्य = 12 AND 価格", 2),
        ("NOT मूल्य = 12", 0),
    ],
)
def test_conditions_find_the_field_and_the_system_column(store: Store, condition: str, rows: int):
    assert len(store.run(f"QUERY odd WHERE {condition}")) == rows
    sql = condition.replace('"', "'").replace("`by` = b", "true")
    sql = re.sub(r"= ([a-z])\b", r"= '\1'", sql)
    sql = re.sub("__ts < '(.*)'", r"__ts < timestamptz '\1 00:00:00+00'", sql)
    sql = re.sub("(?<!_)ts < '(.*)'", r"ts < timestamptz '\1 00:00:00+00'", sql)
    assert len(store.sql(f"select * from odd where {sql}")) == rows
    assert store.run(f"DELETE odd WHERE {condition}").rows() == [{"deleted": rows}]
    assert len(store.run("QUERY odd")) == len(store.run("SHOW kept")) == 2 - rows


def test_for_and_the_order_of_rows_go_by_the_system_columns(store: Store):
    assert store.run("QUERY odd FOR c2 RETURN [__seq]").rows() == [{"__seq": 3}]
    assert [row["__seq"] for row in store.run("QUERY odd RETURN [__seq]")] == [2, 3]
    ordered = store.run("QUERY odd RETURN [__context, seq] ORDER BY __seq DESC LIMIT 1")
    assert ordered.rows() == [{"__context": "c2", "seq": 7}]
    pairs = store.run("QUERY odd FOLLOWED BY odd LINKED BY मूल्य RETURN [odd.__seq, odd2.__seq]")
    assert pairs.tuples() == [(2, 3)]
    assert len(store.run("QUERY odd FOLLOWED BY odd")) == 0  # no two of one context


def test_figures_and_charts_have_such_groups(store: Store):
    store.run("REMEMBER QUERY odd COUNT, TOTAL seq, MAX मूल्य BY context, __context AS figures")
    store.run(f"STORE odd FOR c1 PAYLOAD {json.dumps(EVENT)}")
    store.run("DEFINE bar FIELDS {bucket: string}")
    store.run('STORE bar FOR c PAYLOAD {"bucket": "x"}')

    assert store.run("SHOW figures").tuples() == [
        ("mine", "c1", 2, 14, 12),
        ("mine", "c2", 1, 7, 12),
    ]
    (point,) = store.run("PLOT COUNT OF bar BREAKDOWN BY bucket").rows()
    assert (point["group"], point["value"]) == ("x", 1)


def test_sql_has_the_columns_of_a_query(store: Store):
    result = store.sql("select * from odd order by __seq")

    assert result.columns == [*SYSTEM, *FIELDS]
    assert [{name: row[name] for name in FIELDS} for row in result] == [VALUES, VALUES]
    assert store.sql('select "मूल्य" as m, seq, __seq from odd where __seq > 2').tuples() == [
        (12, 7, 3)
    ]


def test_a_replay_has_such_fields_in_its_payload(store: Store):
    store.run("DEFINE other FIELDS {page: string}")
    row = store.run("REPLAY FOR c1").rows()[0]

    assert (row["event"], row["seq"]) == ("odd", 2)
    assert json.loads(row["payload"]) == EVENT
    assert store.run("REPLAY odd FOR c1 RETURN [seq, __seq]").tuples() == [(7, 2)]
    (some,) = store.run("REPLAY FOR c1 RETURN [seq]").rows()
    assert json.loads(some["payload"]) == {"seq": 7}


def test_files_keep_the_names_of_system_columns(store: Store, tmp_path: Path):
    store.run("FLUSH")

    (file,) = tmp_path.rglob("*.parquet")

    stored = ["__data_seq", "__data_ts", "__data_context"]
    assert pq.read_schema(file).names == ["seq", "ts", "context", *stored, *list(FIELDS)[3:]]


def test_a_later_version_may_add_a_field_with_the_name_of_a_system_column(tmp_path: Path):
    with strandline.open(str(tmp_path / "data")) as store:
        store.run("DEFINE pay FIELDS {n: u64}")
        store.run("REMEMBER QUERY pay RETURN [seq, n] AS kept")
        store.run('STORE pay FOR c PAYLOAD {"n": 1}')
        store.run("FLUSH")
        assert store.run("QUERY pay").columns == ["seq", "ts", "context", "n"]

        store.run('DEFINE pay FIELDS {n: u64, seq: "u64 | null"}')
        store.run('STORE pay FOR c PAYLOAD {"n": 2, "seq": 9}')

        assert store.run("QUERY pay").columns == ["__seq", "ts", "context", "n", "seq"]
        assert store.run("QUERY pay RETURN [__seq, seq]").tuples() == [(2, None), (4, 9)]
        assert store.run("SHOW kept").tuples() == [(None, 1), (9, 2)]
        store.run("FLUSH")
        store.table("pay").compact()
        assert store.run("QUERY pay RETURN [__seq, seq]").tuples() == [(2, None), (4, 9)]
        assert store.sql("select __seq, seq from pay order by 1").tuples() == [(2, None), (4, 9)]


def test_a_link_is_the_same_column_in_every_event(tmp_path: Path):
    with strandline.open(str(tmp_path / "data")) as store:
        store.run("DEFINE a FIELDS {context: string}")
        store.run("DEFINE b FIELDS {n: u64}")

        with pytest.raises(
            QueryError, match="a field of some events and a system column of others"
        ):
            store.run("QUERY a FOLLOWED BY b LINKED BY context")
        assert len(store.run("QUERY a FOLLOWED BY b")) == 0
        assert len(store.run("QUERY a FOLLOWED BY b LINKED BY __context WHERE __context = x")) == 0


def test_typed_columns_of_the_lake_keep_the_names_of_record_columns(tmp_path: Path):
    schema = {"key": "i64", "data": "string", "context": "string", "価格": "f64"}
    event = {"key": 5, "data": "d", "context": "c", "価格": 0.5}
    with open_small(str(tmp_path / "data")) as store:
        topic = store.topic("orders", schema=schema)
        for _ in range(3):
            topic.append_many([json.dumps(event).encode()] * BATCH, keys=["k"] * BATCH)
            store.checkpoint()
        store.relocate()
        rows = store.sql(
            'select key, __data_key, __data_data, context, "価格" from log.orders limit 1'
        )

    assert rows.tuples() == [(b"k", 5, "d", "c", 0.5)]
    (folder,) = {path.parents[3] for path in tmp_path.rglob("*.parquet")}
    found = dataset(f"file://{folder}", "orders")
    names = [*SCHEMA.names, "__data_key", "__data_data", "context", "価格"]
    assert found.schema.names == names
    assert found.to_table(columns=["__data_key", "価格"]).slice(0, 1).to_pylist() == [
        {"__data_key": 5, "価格": 0.5}
    ]


def test_every_letter_that_a_name_may_have_is_read_without_quotes():
    letters = [chr(code) for code in range(0x80, 0x110000) if ("a" + chr(code)).isidentifier()]
    marks = [letter for letter in letters if not re.match(r"\w", letter)]
    names = [f"a{letter}" for letter in (*marks, *letters[::500])]

    for first in range(0, len(names), 500):
        some = names[first : first + 500]
        query = parse(f"QUERY pay RETURN [{', '.join(some)}]")
        defined = parse(f"DEFINE pay FIELDS {{{', '.join(f'{name}: f64' for name in some)}}}")

        assert isinstance(query, Query)
        assert isinstance(defined, Define)
        assert [name.text for name in query.returning or ()] == some
        assert list(defined.fields) == some
