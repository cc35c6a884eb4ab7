"""Promise: a question that is wrong is an error that shows the place and what may have been meant,
never an answer; and nothing outside of the store can be reached."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest

from strandline.errors import Invalid
from strandline.query.language.errors import QueryError
from strandline.query.sql.sandbox import SHARED
from tests.unit.query.sql.asking import ask
from tests.unit.store.world import World


@pytest.fixture
def store():
    world = World()
    world.store.topic("orders", schema={"price": "f64"}).append(b'{"price": 1.5}', key="k")
    world.store.topic("eu.orders:2026").append(b"x")
    world.store.kv("profiles").put("ada", b"1")
    world.store.metrics("m").write("cpu", {}, {"load": 1.0}, at=1)
    return world.store


@pytest.mark.parametrize(
    ("text", "word", "message", "hint"),
    [
        ("FROM ordesr", "ordesr", "no relation 'ordesr'", "did you mean 'orders'?"),
        ("SELECT 1 FROM zzz", "zzz", "no relation 'zzz'", "relations are: eu.orders:2026, m"),
        ("FROM kvs.profiles", "kvs", "no schema 'kvs'", "did you mean 'kv'?"),
        ("FROM kv.orders", "kv.orders", "'orders' has no kv view", "log.orders has its records"),
        ("FROM kv.profile", "kv.profile", "no relation 'kv.profile'", "did you mean 'profiles'?"),
        ('FROM metrics."m/cpi"', "metrics", "no measurement 'cpi'", "did you mean 'cpu'?"),
        ('FROM log."m/cpu"', "log", "no relation 'log.m/cpu'", ""),
        ("FROM remembered.daily", "remembered", "no relation 'remembered.daily'", ""),
        ("SELECT prise FROM orders", "prise", "no column 'prise'", "did you mean 'price'?"),
        (
            "SELECT seq\nFROM orders o\nWHERE o.zzz = 1",
            "o.zzz",
            "no column 'zzz'",
            "columns are: seq",
        ),
        ("SELECT p.seq FROM orders o", "p.seq", "no relation 'p' in FROM", ""),
        ("SELECT summ(seq) FROM orders", "summ", "no function 'summ'", "did you mean 'sum'?"),
    ],
)
def test_a_name_that_is_not_there_is_shown_with_the_one_that_was_meant(
    store, text, word, message, hint
):
    with pytest.raises(QueryError, match=message) as wrong:
        ask(store, text)

    assert text[wrong.value.at :].startswith(word)
    assert hint in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 'x'::INT FROM orders", "Could not convert string 'x'"),
        ("SELECT sum(tag) FROM orders", "No function matches"),
        ("SELECT key, count(*) FROM orders", "must appear in the GROUP BY"),
        ("SELECT 1 UNION SELECT 1, 2", "same number of"),
        ("SELECT $who", "who"),
    ],
)
def test_other_mistakes_are_one_line_of_ours(store, text, message):
    with pytest.raises(QueryError, match=message) as wrong:
        ask(store, text)

    assert "Error:" not in str(wrong.value)
    assert "__relation" not in str(wrong.value)
    assert "LINE" not in str(wrong.value)


def test_names_with_other_characters_are_quoted(store):
    assert ask(store, 'SELECT count(*) FROM "eu.orders:2026"') == [(1,)]
    assert ask(store, 'SELECT log."eu.orders:2026".seq FROM log."eu.orders:2026"') == [(1,)]


def test_capital_letters_do_not_matter_unless_two_names_differ_by_them_alone(store):
    assert ask(store, "SELECT count(*) FROM ORDERS") == [(1,)]
    store.topic("Orders").append([b"1", b"2"])

    assert ask(store, 'SELECT count(*) FROM "Orders"') == [(2,)]
    assert ask(store, "SELECT count(*) FROM orders") == [(1,)]
    with pytest.raises(QueryError, match="no relation 'ORDERS'"):
        ask(store, "SELECT count(*) FROM ORDERS")
    with pytest.raises(QueryError, match="two topics"):
        ask(store, "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM Orders)")


def test_parameters_have_types(store):
    moment = datetime(2026, 1, 2, tzinfo=UTC)

    found = ask(
        store,
        "SELECT $text, $n + 1, $blob, $when + INTERVAL 1 DAY, $none IS NULL",
        params={"text": "it's", "n": 2, "blob": b"\x00'", "when": moment, "none": None},
    )

    assert found == [("it's", 3, b"\x00'", moment.replace(day=3), True)]
    assert ask(store, "SELECT ? || ?", params=["a", "b"]) == [("ab",)]
    with pytest.raises(Invalid, match="params must be a list"):
        ask(store, "SELECT ?", params="a")


def test_parameters_are_compared_with_columns(store):
    assert ask(store, "SELECT text FROM profiles WHERE key = ?", params=["ada"]) == [("1",)]
    assert ask(store, "SELECT text FROM profiles WHERE key = ?", params=["' OR 1=1"]) == []


def test_a_time_zone_says_how_days_are_cut(store):
    moment = datetime(2026, 1, 1, 23, 30, tzinfo=UTC)
    text = "SELECT ($t::TIMESTAMPTZ)::DATE::VARCHAR"

    assert ask(store, text, params={"t": moment}) == [("2026-01-01",)]
    assert ask(store, text, params={"t": moment}, timezone="Europe/Berlin") == [("2026-01-02",)]
    with pytest.raises(Invalid, match="unknown time zone"):
        ask(store, text, params={"t": moment}, timezone="Mars/Olympus'")


def test_variables_of_the_caller_are_not_seen(store):
    secrets = [{"password": 1}]

    with pytest.raises(QueryError, match="no relation 'secrets'"):
        ask(store, "FROM secrets")
    assert secrets


@pytest.mark.parametrize("path", ["/etc/passwd", "data.csv", "s3://bucket/x.parquet"])
def test_a_file_is_no_relation(store, path):
    with pytest.raises(QueryError, match="no relation"):
        ask(store, f"FROM '{path}'")


def test_a_question_leaves_nothing_behind(store):
    ask(store, "FROM kv.profiles")

    with pytest.raises(QueryError, match="no relation"):
        ask(store, "FROM __relation_0")
    assert ask(store, "SELECT count(*) FROM kv.profiles") == [(1,)]


def test_the_sandbox_itself_has_no_way_out(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("a\n1\n")
    secrets = pa.table({"password": [1]})

    with SHARED.open_database() as room:
        for text in (f"FROM read_csv('{file}')", f"FROM '{file}'", "FROM secrets", "LOAD httpfs"):
            with pytest.raises(duckdb.Error):
                room.query(text, None)
        with pytest.raises(duckdb.Error):
            room.query("SET enable_external_access = true", None)
    assert len(secrets) == 1
