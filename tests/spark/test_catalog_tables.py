"""Promise: in Spark SQL a store is read through temporary views; a table of Spark's catalog, which
could never be read, is refused with the ways that work, before a row is written."""

from __future__ import annotations

import pytest

import strandline
from strandline.errors import Invalid
from strandline.spark import mount, plain_errors, position

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]
WAYS = r"strandline\.spark\.mount.*TEMPORARY VIEW.*\.save\("


@pytest.fixture
def path(data_dir):
    with strandline.open(data_dir) as store:
        store.topic("eu-orders").append_many([b"tea", b"cake"], tags=["x", None])
        pay = store.table("pay")
        pay.define({"n": "i64", "cur": ["EUR", "USD"]})
        pay.store_many("ada", [{"n": n, "cur": "EUR"} for n in range(5)])
        store.kv("people").put("ada", b"pro")
        store.queue("work").put(b"job")
        store.series("load").append("host", 7, b"1")
        store.metrics("cpu").write("cpu", {"host": "a"}, {"busy": 0.5}, at=10**9)
    return data_dir


def rows_of(path: str) -> int:
    with strandline.open(path, readonly=True) as store:
        return store.topic("eu-orders").head_seq


def test_a_table_of_the_catalog_is_refused_before_a_row_is_written(spark, path):
    options = f"options (store '{path}', topic 'eu-orders')"
    rows = spark.createDataFrame([("new",)], "data string")
    writer = rows.write.option("store", path).option("topic", "eu-orders")
    given = {"store": path, "topic": "eu-orders"}
    ways = {
        "sql": lambda: spark.sql(f"create table a using strandline {options}"),
        "select": lambda: spark.sql(
            f"create table b using strandline {options} as select 'x' data"
        ),
        "saveAsTable": lambda: writer.format("strandline").mode("append").saveAsTable("c"),
        "its format": lambda: writer.saveAsTable("d", format="Strandline", mode="append"),
        "writeTo": lambda: rows.writeTo("e").using("strandline").options(**given).create(),
        "catalog": lambda: spark.catalog.createTable("f", source="strandline", **given),
    }

    before = spark.catalog.listTables()
    for way, make in ways.items():
        with pytest.raises(Invalid, match=WAYS), plain_errors():
            make()
        assert spark.catalog.listTables() == before, way

    assert rows_of(path) == 2
    rows.write.mode("overwrite").format("parquet").saveAsTable("other")  # as ever
    spark.sql("drop table other")


def test_a_table_that_was_made_with_columns_says_what_to_use_instead(spark, path):
    """Spark makes such a table without a word to its source."""
    spark.sql(
        f"create table made (data binary) using strandline options (store '{path}', topic 'x')"
    )
    try:
        for statement in ("select * from made", "insert into made select cast('x' as binary)"):
            with pytest.raises(Invalid, match=WAYS), plain_errors():
                spark.sql(statement).collect()
    finally:
        spark.sql("drop table made")
    assert rows_of(path) == 2


def test_every_topic_and_view_is_mounted_with_the_rows_that_the_store_has(spark, path):
    names = mount(spark, path)

    assert {"eu-orders", "log_eu-orders", "pay", "tables_pay", "log_pay"} <= set(names)
    assert {"kv_people", "queue_work", "series_load", "metrics_cpu"} <= set(names)
    counted = [
        "pay",
        "eu-orders",
        "log_pay",
        "kv_people",
        "queue_work",
        "series_load",
        "metrics_cpu",
    ]
    texts = [f"select '{name}' as name, count(*) as c from `{name}`" for name in counted]
    found = dict(map(tuple, spark.sql(" union all ".join(texts)).collect()))
    with strandline.open(path, readonly=True) as store:
        for name in counted:
            schema, _, topic = name.partition("_")
            relation = f'{schema}."{topic}"' if topic else f'"{name}"'
            assert [(found[name],)] == store.sql(f"select count(*) as c from {relation}").tuples()
        text = "select cur, sum(n) as s, count(*) as c from pay group by cur"
        assert [tuple(row) for row in spark.sql(text).collect()] == store.sql(text).tuples()


def test_a_mounted_view_reads_what_is_there_now_or_at_its_position(spark, path):
    then = position(path)
    with strandline.open(path) as store:
        store.topic("eu-orders").append(b"later")
        store.kv("people").put("bob", b"free")
        store.topic("new").append(b"x")
    count = "select (select count(*) from `eu-orders`) as o, (select count(*) from kv_people) as p"

    mount(spark, path)
    assert tuple(spark.sql(count).first()) == (3, 2)
    names = mount(spark, path, as_of=then)

    assert tuple(spark.sql(count).first()) == (2, 1)
    assert not {"new", "queue_work", "metrics_cpu", "cpu_metrics"} & set(names)
    assert "work" in names  # its records


def test_names_that_would_mean_two_things_are_refused(spark, path):
    with strandline.open(path) as store:
        store.topic("KV_people")

    with pytest.raises(Invalid, match="two views would be named 'kv_people'"):
        mount(spark, path)
    assert mount(spark, path, ["people"]) == ["people", "log_people", "kv_people"]
