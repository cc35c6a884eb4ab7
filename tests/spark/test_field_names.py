"""Promise: Spark reads, streams, queries and writes an event table whose fields have the names of
system columns and words of other scripts, as the store itself does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import strandline
from strandline.errors import Invalid
from strandline.spark import frame, run, sql, table
from strandline.store import Store
from tests.spark.viewing import batch, drain

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

FIELDS = {"seq": "u64", "key": "string", "lost": "i64", "tick": "i64", "Version": "u64"}
FIELDS |= {"größe": "f64", "मूल्य": ["ए", "बी"]}
LATER = {"context": "string | null", "topic": "bool | null"}
NAMES = ["__seq", "ts", "__context", *FIELDS, *LATER]
LARGE = 2**64 - 1


def _event(n: int) -> dict[str, Any]:
    values = {"seq": LARGE - n, "key": f"k{n}", "lost": n, "tick": -n, "Version": LARGE}
    return values | {"größe": n / 2, "मूल्य": "बी" if n % 2 else "ए"}


@pytest.fixture
def store(data_dir: str) -> Iterator[Store]:
    """Rows in files of two versions, and in memory."""
    with strandline.open(data_dir) as opened:
        odd = opened.table("odd", flush_rows=1000, zone_rows=256)
        odd.define(FIELDS)
        for n in range(5):
            odd.store(f"c{n}", _event(n))
        odd.flush()
        odd.define(FIELDS | LATER)
        for n in range(5, 8):
            odd.store(f"c{n}", _event(n) | {"context": "mine", "topic": True})
        odd.flush()
        for n in range(8, 10):
            odd.store(f"c{n}", _event(n))
        opened.run("DELETE odd WHERE lost = 3")
        yield opened


def _rows(found: DataFrame) -> list[tuple[Any, ...]]:
    names = [name for name in NAMES if name != "ts"]
    rows = found.select(*(f"`{name}`" for name in names)).collect()
    plain = [tuple(int(v) if type(v).__name__ == "Decimal" else v for v in row) for row in rows]
    return sorted(plain)


def _wanted(store: Store) -> list[tuple[Any, ...]]:
    return [tuple(v for n, v in row.items() if n != "ts") for row in store.run("QUERY odd")]


def test_every_way_to_read_has_the_rows_of_the_store(spark: SparkSession, store, data_dir):
    wanted = _wanted(store)
    assert len(wanted) == 9
    formatted = spark.read.format("strandline").option("topic", "odd").option("view", "table")
    ways = {
        "frame": frame(spark, store, "QUERY odd"),
        "table": table(spark, store, "odd", view="table"),
        "format": formatted.load(data_dir),
    }

    for way, found in ways.items():
        assert found.columns == NAMES, way
        assert _rows(found) == wanted, way
    assert run(spark, store, "QUERY odd").tuples() == store.run("QUERY odd").tuples()
    some = table(spark, store, "odd", view="table", columns=["seq", "__seq", "मूल्य"])
    assert some.columns == ["seq", "__seq", "मूल्य"]


@pytest.mark.parametrize(
    "command",
    [
        "QUERY odd WHERE seq > 5 AND मूल्य = बी RETURN [__seq, seq, größe] ORDER BY seq LIMIT 3",
        "QUERY odd COUNT, TOTAL seq, MAX __seq BY मूल्य, context",
        "QUERY odd FOLLOWED BY odd LINKED BY मूल्य RETURN [odd.__seq, odd2.seq]",
        "REPLAY FOR c1",
    ],
)
def test_commands_have_the_answers_of_the_store(spark: SparkSession, store, command):
    assert run(spark, store, command).rows() == store.run(command).rows()


def test_sql_has_the_answer_of_the_store(spark: SparkSession, store):
    text = 'select __seq, seq, context, __context, "मूल्य" from odd where lost < 7 order by __seq'

    assert sql(spark, store, text).rows() == store.sql(text).rows()


def test_a_stream_has_the_rows_and_refuses_a_column_for_losses(store, data_dir):
    found = [row for part in drain(data_dir, "odd", view="table") for row in part]

    names = ["__seq", "__context", "seq", "key", "मूल्य", "context"]
    streamed = [tuple(row[name] for name in names) for row in found if row["lost"] != 3]
    wanted = [tuple(row[name] for name in names) for row in store.run("QUERY odd")]
    assert sorted(streamed) == wanted
    with pytest.raises(Invalid, match="a field of that name"):
        drain(data_dir, "odd", view="table", onLoss="report")


def test_a_write_takes_the_context_from_the_system_column(spark: SparkSession, store, data_dir):
    source = [("c20", 5, "k", 1, 2, 3, 0.5, "ए", "mine")]
    names = ["__context", "seq", "key", "lost", "tick", "Version", "größe", "मूल्य", "context"]
    rows = spark.createDataFrame(source, names)
    saving = rows.write.format("strandline").mode("append")
    saving.option("topic", "odd").option("view", "table").save(data_dir)

    (found,) = store.run("QUERY odd FOR c20 RETURN [seq, context, __context, मूल्य]").tuples()
    assert found == (5, "mine", "c20", "ए")
    assert len(batch(data_dir, "odd", view="table", columns="__context")) == 10
