"""Promise: Spark writes to maps, tables, series, metrics and queues what the view would take.

Exactly once, whatever runs twice, and rows that do not fit go where the write says. The data source
is asked as Spark asks it, tasks pickled as for executors; no Spark runs.
"""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import strandline
from strandline.errors import Invalid, NotFound, UnknownTopic
from strandline.spark.read.schema import of_arrow
from strandline.spark.source.source import StrandlineSource
from strandline.spark.source.writers import StagedRows, StreamWriter
from strandline.store import Store
from tests.spark.viewing import START, open_views
from tests.spark.writing import nothing_is_left

FIELDS = {"n": "i64", "cur": ["EUR", "USD"], "at": "datetime | null", "day": "date | null"}
FIELDS |= {"id": "u64 | null"}


@pytest.fixture
def store(data_dir: str):
    with open_views(data_dir) as opened:
        opened.table("pay").define(FIELDS)
        opened.topic("misfits")
        yield opened


def writer(path: str, table: pa.Table, topic: str, **options: str) -> Any:
    """What Spark asks for before a batch write."""
    source = StrandlineSource({"path": path, "topic": topic, **options})
    return source.writer(of_arrow(table.schema), overwrite=False)


def stage(made: Any, table: pa.Table) -> Any:
    """One task, in a worker of its own."""
    copy = pickle.loads(pickle.dumps(made))
    return pickle.loads(pickle.dumps(copy.write(iter(table.to_batches(max_chunksize=4)))))


def write(path: str, table: pa.Table, topic: str, **options: str) -> list[StagedRows]:
    """A batch write of two tasks."""
    made = writer(path, table, topic, **options)
    middle = len(table) // 2
    messages = [stage(made, table.slice(0, middle)), stage(made, table.slice(middle))]
    made.commit(messages)
    return messages


def misfits(store: Store) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What is told of rows that did not fit, and the rows."""
    return [
        (msgspec.json.decode(record.meta), msgspec.json.decode(record.data))
        for record in store.topic("misfits").read().records
    ]


def test_puts_and_deletes_of_a_map(store: Store):
    until = datetime(2100, 1, 1, tzinfo=UTC)
    rows = pa.table(
        {
            "key": ["new", "bob", "eve"],
            "value": [b"1", None, b"2"],
            "expires": pa.array([None, None, until], pa.timestamp("us", "UTC")),
        }
    )

    write(store.path, rows, "profiles", view="kv")

    kv = store.kv("profiles")
    assert (kv.get("new"), kv.get("bob"), kv.get("eve")) == (b"1", None, b"2")
    assert kv.entry("new").version == 7, "versions are seqs"
    assert kv.entry("eve").expires_us == int(until.timestamp() * 1e6)
    store.close()  # its inbox removes what was staged a moment after it took the rows
    assert nothing_is_left(store.path)


def test_rows_of_a_table_by_columns_and_as_json(store: Store):
    rows = pa.table(
        {
            "context": ["ada", "bob"],
            "n": pa.array([1, 2], pa.int32()),
            "cur": ["EUR", "USD"],
            "at": pa.array([START, None], pa.timestamp("us", "UTC")),
            "day": pa.array([None, date(2026, 1, 2)], pa.date32()),
            "id": pa.array([Decimal(2**64 - 1), None], pa.decimal128(20, 0)),
        }
    )
    events = pa.table({"context": ["eve"], "event": ['{"n": 3, "cur": "EUR"}']})

    write(store.path, rows, "pay", view="table")
    write(store.path, events, "pay", view="table")

    found = store.sql('select context, n, cur, "at", day, id from tables.pay order by n').tuples()
    assert found == [
        ("ada", 1, "EUR", datetime(2026, 1, 1, tzinfo=UTC), None, 2**64 - 1),
        ("bob", 2, "USD", None, date(2026, 1, 2), None),
        ("eve", 3, "EUR", None, None, None),
    ]
    assert store.table("pay").statistics().misfits == 0


def test_points_of_a_series_by_number_and_by_time(store: Store):
    rows = pa.table({"source": ["bus-7"] * 3, "at": [30, 10, 20], "payload": ["c", "a", "b"]})
    timed = pa.table(
        {
            "source": [b"bus-8"],
            "time": pa.array([START], pa.timestamp("us", "UTC")),
            "payload": [b"x"],
            "version": pa.array([3], pa.int32()),
        }
    )

    write(store.path, rows, "gps", view="series")
    write(store.path, timed, "gps", view="series")

    series = store.series("gps")
    assert [point.payload for point in series.range("bus-7")] == [b"a", b"b", b"c"]
    (point,) = series.range("bus-8")
    assert (point.at, point.version) == (START, 3)


def test_points_of_a_measurement(store: Store):
    rows = pa.table(
        {
            "ns": [1, 2],
            "host": ["web-7", "web-8"],
            "load": [0.5, None],
            "jobs": [3, 4],
        }
    )

    write(store.path, rows, "telemetry", view="metrics", measurement="cpu", tags="host")

    found = store.sql(
        """select host, load, jobs from metrics."telemetry/cpu" where ns < 10 order by ns"""
    ).tuples()
    assert found == [("web-7", 0.5, 3), ("web-8", None, 4)]


def test_jobs_of_a_queue(store: Store):
    write(store.path, pa.table({"data": [b"fold", b"pack"]}), "jobs", view="queue")

    assert [job.data for job in store.queue("jobs").claim(10)] == [
        b"dry",
        b"iron",
        b"fold",
        b"pack",
    ]


GOOD_EVENT = '{"n": 1, "cur": "EUR"}'
BAD_EVENTS = pa.table(
    {
        "context": ["ada", "bob", None, "eve", "dan"],
        "event": [
            '{"n": 1, "cur": "EUR"}',
            '{"n": "x", "cur": "EUR"}',
            '{"n": 2, "cur": "EUR"}',
            "{",
            None,
        ],
    }
)


def test_one_row_that_does_not_fit_fails_the_write_and_nothing_is_written(store: Store):
    before = store.topic("pay").head_seq
    made = writer(store.path, BAD_EVENTS, "pay", view="table")
    good = stage(made, BAD_EVENTS.slice(0, 1))

    with pytest.raises(Invalid, match=r"view=table of topic 'pay': pay\.n.*Nothing was written"):
        stage(made, BAD_EVENTS.slice(1))
    made.abort([good, None])

    assert store.topic("pay").head_seq == before
    store.close()  # its inbox removes what was staged a moment after it took the rows
    assert nothing_is_left(store.path)


def test_rows_that_do_not_fit_go_to_the_topic_that_is_named(store: Store, caplog):
    write(store.path, BAD_EVENTS, "pay", view="table", onInvalid="misfits")

    assert store.sql("select context from tables.pay").tuples() == [("ada",)]
    told = misfits(store)
    assert [row["context"] for _, row in told] == ["bob", None, "eve", "dan"]
    assert {(each["topic"], each["view"]) for each, _ in told} == {("pay", "table")}
    assert [each["reason"][:24] for each, _ in told][:2] == [
        "pay.n: expected a whole ",
        "column 'context' is null",
    ]
    assert "4 rows did not fit view=table of topic 'pay'" in caplog.text
    store.close()  # its inbox removes what was staged a moment after it took the rows
    assert nothing_is_left(store.path)


@pytest.mark.parametrize(
    ("topic", "options", "rows", "reason"),
    [
        ("profiles", {"view": "kv"}, {"key": [b"k" * 70_000], "value": [b"v"]}, "key of 70000"),
        ("profiles", {"view": "kv"}, {"key": [""], "value": [b"v"]}, "at least one byte"),
        ("gps", {"view": "series"}, {"source": ["a"], "at": [None], "payload": ["x"]}, "'at'"),
        ("gps", {"view": "series"}, {"source": [""], "at": [1], "payload": ["x"]}, "not a name"),
        (
            "telemetry",
            {"view": "metrics", "measurement": "cpu", "tags": "host"},
            {"ns": [1], "host": ["a"], "load": [float("inf")]},
            "not finite",
        ),
        (
            "telemetry",
            {"view": "metrics", "measurement": "cpu", "tags": "host"},
            {"ns": [1], "host": ["a"], "jobs": [1.5]},
            "'jobs' of 'cpu' is int",
        ),
        ("jobs", {"view": "queue"}, {"data": [None]}, "'data' is null"),
    ],
)
def test_every_view_says_why_a_row_does_not_fit(store: Store, topic, options, rows, reason):
    kinds = {"at": pa.int64(), "data": pa.binary()}
    table = pa.table({name: pa.array(rows[name], kinds.get(name)) for name in rows})

    write(store.path, table, topic, onInvalid="misfits", **options)

    ((told, _),) = misfits(store)
    assert reason in told["reason"]


def test_a_point_that_retention_has_forgotten_does_not_fit(store: Store):
    store.series("gps").run_retention(START)
    rows = pa.table({"source": ["a", "a"], "at": [START - 1, START + 1], "payload": ["x", "y"]})

    write(store.path, rows, "gps", view="series", onInvalid="misfits")

    assert [point.payload for point in store.series("gps").range("a")] == [b"y"]
    assert "before the floor" in misfits(store)[0][0]["reason"]


@pytest.mark.parametrize("died", ["before the commit", "between", "after the commit"])
def test_a_batch_that_is_repeated_is_written_once(store: Store, monkeypatch, died: str):
    """A task dies, the driver dies at some moment of its commit, and Spark runs the batch again."""
    source = StrandlineSource(
        {"path": store.path, "topic": "pay", "view": "table", "onInvalid": "misfits"}
    )
    made = source.streamWriter(of_arrow(BAD_EVENTS.schema), overwrite=False)
    assert isinstance(made, StreamWriter)

    def attempt() -> list[StagedRows]:
        monkeypatch.setattr("strandline.spark.source.writers._property", lambda name: "7")
        stage(made, BAD_EVENTS.slice(0, 2))  # killed when it had staged its rows
        return [stage(made, BAD_EVENTS.slice(0, 2)), stage(made, BAD_EVENTS.slice(2))]

    first = attempt()
    if died == "between":
        with_misfits_only = [StagedRows((), rows.query, rows.misfits) for rows in first]
        made.commit(with_misfits_only, 7)
    elif died == "after the commit":
        made.commit(first, 7)
    made.commit(attempt(), 7)
    made.commit(attempt(), 7)

    assert store.sql("select context from tables.pay").tuples() == [("ada",)]
    assert len(misfits(store)) == 4


TEXT, LONG, INT = StringType(), LongType(), IntegerType()


@pytest.mark.parametrize(
    ("topic", "options", "columns", "error", "told"),
    [
        ("profiles", {"view": "map"}, [], Invalid, "view is one of log, table, kv"),
        ("profiles", {"view": "kv_history"}, [], Invalid, "view is one of"),
        ("nobody", {"view": "kv"}, [], UnknownTopic, "nobody"),
        ("plain", {"view": "kv"}, [], NotFound, r"no kv view: create it with store\.kv"),
        ("profiles", {"view": "kv", "createTopic": "true"}, [], Invalid, "create the view first"),
        ("profiles", {"view": "kv", "onInvalid": "nobody"}, [], UnknownTopic, "nobody"),
        ("profiles", {"view": "kv", "onInvalid": "profiles"}, [], Invalid, "itself"),
        ("profiles", {"onInvalid": "misfits"}, [], Invalid, "through a view"),
        ("profiles", {"view": "kv"}, [("key", TEXT)], Invalid, "'value' is missing"),
        (
            "profiles",
            {"view": "kv"},
            [("key", TEXT), ("value", INT)],
            Invalid,
            "'value' is int, not binary or string",
        ),
        (
            "profiles",
            {"view": "kv"},
            [("key", TEXT), ("value", TEXT), ("op", TEXT)],
            Invalid,
            "'op' .*takes key, value, expires",
        ),
        ("pay", {"view": "table"}, [("context", TEXT), ("n", LONG)], Invalid, "'cur' is missing"),
        (
            "pay",
            {"view": "table"},
            [("context", TEXT), ("n", DoubleType()), ("cur", TEXT)],
            Invalid,
            "'n' is double.*bigint",
        ),
        ("gps", {"view": "series"}, [("source", TEXT), ("at", TEXT)], Invalid, "'at' is string"),
        ("telemetry", {"view": "metrics"}, [], Invalid, "measurement"),
        (
            "telemetry",
            {"view": "metrics", "measurement": "cpu"},
            [("time", TimestampType()), ("host", TEXT)],
            Invalid,
            "'host' is string.*double",
        ),
        (
            "telemetry",
            {"view": "metrics", "measurement": "cpu", "tags": "host"},
            [("time", TimestampType()), ("load", BooleanType())],
            Invalid,
            "'host' is missing",
        ),
        ("jobs", {"view": "queue"}, [("data", ArrayType(TEXT))], Invalid, "'data' is array"),
    ],
)
def test_what_cannot_be_written_is_told_before_anything_is(
    store: Store, topic, options, columns, error, told
):
    schema = StructType([StructField(name, kind) for name, kind in columns or [("key", TEXT)]])

    with pytest.raises(error, match=told):
        StrandlineSource({"path": store.path, "topic": topic, **options}).writer(
            schema, overwrite=False
        )


def test_writes_need_the_folder_of_a_store():
    with pytest.raises(Invalid, match="folder of a store"):
        StrandlineSource({"store": "s3://bucket/lake", "topic": "t"}).writer(
            StructType([StructField("data", TEXT)]), overwrite=False
        )


def test_a_store_that_nobody_has_open_takes_the_rows_too(data_dir: str):
    with strandline.open(data_dir) as store:
        store.kv("profiles")

    write(data_dir, pa.table({"key": ["a"], "value": [b"1"]}), "profiles", view="kv")

    with strandline.open(data_dir) as store:
        assert store.kv("profiles").get("a") == b"1"
