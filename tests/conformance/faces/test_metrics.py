"""Promise: measurements of a server are what those of an open store are."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from strandline import AppendResult, Invalid, NotFound, StrandlineError
from strandline.views.metrics.query.result import MetricsResult
from strandline.views.metrics.report import Cardinality, MetricsStatistics
from strandline.views.metrics.rules import DownsamplingRule, RetentionRule

S = 1_000_000_000


@pytest.fixture
def metrics(store, name):
    return store.metrics(name)


@pytest.fixture
def cpu(metrics):
    for second in range(10):
        metrics.write("cpu", {"host": "a"}, {"load": second / 2, "n": second}, at=second * S)
    metrics.write("cpu", {"host": "b", "zone": "eu"}, {"load": 1.0, "up": True}, at=3 * S)
    return metrics


def test_a_point_is_written_and_read(metrics):
    appended = metrics.write("cpu", {"host": "ä"}, {"load": 0.5}, at=7)

    answer = metrics.read("cpu")

    assert isinstance(appended, AppendResult)
    assert isinstance(answer, MetricsResult)
    assert [tuple(row) for row in answer] == [({"host": "ä"}, 7, 0.5)]
    assert answer.values.dtype == np.float64
    assert answer.at.dtype == np.int64


def test_a_point_without_a_time_is_of_now(metrics):
    metrics.write("cpu", {}, {"load": np.float64(1.5)})

    (row,) = metrics.read("cpu").rows()

    assert abs(row.at / S - datetime.now(UTC).timestamp()) < 3600


@pytest.mark.parametrize(
    ("field", "kind", "value"), [("load", np.float64, 1.5), ("n", np.int64, 3), ("up", bool, True)]
)
def test_values_keep_their_kind(cpu, field, kind, value):
    answer = cpu.read("cpu", field)

    assert answer.values.dtype == kind
    assert value in answer.values.tolist()


def test_points_are_read_by_tag_and_time(cpu):
    some = cpu.read("cpu", "load", tags={"host": "a"}, first=2 * S, next=5 * S)
    first = cpu.read("cpu", "load", limit=1)
    by_date = cpu.read("cpu", "n", next=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC))

    assert some.values.tolist() == [1.0, 1.5, 2.0]
    assert [row.at for row in first] == [0, 3 * S]
    assert by_date.values.tolist() == [0, 1]
    assert [series.tags for series in first.series()] == [
        {"host": "a"},
        {"host": "b", "zone": "eu"},
    ]
    assert first.arrow().column_names == ["host", "zone", "at", "value"]
    with pytest.raises(NotFound):
        cpu.read("nothing", "load")


@pytest.mark.parametrize("window", [None, "5s", 5 * S])
def test_values_are_aggregated(cpu, window):
    answer = cpu.aggregate("cpu", "sum", "n", window=window)

    assert answer.values.tolist() == ([45] if window is None else [10, 35])


def test_values_are_aggregated_by_tag(cpu):
    by_host = cpu.aggregate("cpu", "max", "load", by=["host"])
    each = cpu.aggregate("cpu", "percentile(50)", "load", by="*", tags={"host": "b"})

    assert by_host.rows()[0].value == 4.5
    assert [row.tags for row in by_host] == [{"host": "a"}, {"host": "b"}]
    assert [row.tags for row in each] == [{"host": "b", "zone": "eu"}]


def test_a_question_in_the_language(cpu):
    answer = cpu.query('cpu{host="a"} | field(load) | window(5s) | avg')

    assert answer.values.tolist() == [1.0, 3.5]


def test_lines_are_written(metrics):
    appended = metrics.write_lines("cpu,host=a load=1.5 7\nmem used=3i 8", precision="s")

    assert isinstance(appended, AppendResult)
    assert metrics.measurements() == ["cpu", "mem"]
    assert metrics.read("cpu").at.tolist() == [7 * S]
    assert metrics.write_lines(b"") is None
    assert metrics.write_lines("# nothing\n") is None


def test_columns_are_written(metrics):
    table = pa.table({"t": [1, 2], "host": ["a", None], "load": [1.0, None], "n": [1, 2]})

    appended = metrics.write_table("cpu", table, at="t", tags=["host"])

    assert isinstance(appended, AppendResult)
    assert metrics.read("cpu", "n").values.tolist() in ([1, 2], [2, 1])
    assert metrics.read("cpu", "load").values.tolist() == [1.0]
    assert metrics.write_table("cpu", {"at": [], "load": []}) is None


def test_what_there_is(cpu):
    assert cpu.measurements() == ["cpu"]
    assert set(cpu.fields("cpu")) == {"load", "n", "up"}
    assert cpu.fields("nothing") == {}
    assert cpu.series("cpu") == [{"host": "a"}, {"host": "b", "zone": "eu"}]
    assert cpu.series("cpu", {"host": "b"}) == [{"host": "b", "zone": "eu"}]
    assert cpu.series("nothing") == []
    told = cpu.cardinality()
    assert isinstance(told, Cardinality)
    assert (told.series, told.measurements["cpu"].tags) == (2, {"host": 2, "zone": 1})
    numbers = cpu.statistics()
    assert isinstance(numbers, MetricsStatistics)
    assert (numbers.points, numbers.refused_writes) == (22, 0)


def test_rules_are_kept_and_applied(cpu):
    cpu.keep("old", "1h")
    cpu.downsample("cpu", into="cpu_5s", window="5s", aggregates=["avg", "max"], by=["host"])
    cpu.run_once()

    made, kept = cpu.rules()
    assert kept == RetentionRule(measurement="old", keep_ns=3600 * S)
    assert made == DownsamplingRule(
        source="cpu", into="cpu_5s", window_ns=5 * S, aggregates=("avg", "max"), by=("host",)
    )
    assert "load_avg" in cpu.fields("cpu_5s")
    cpu.keep_all("old")
    cpu.stop_downsampling("cpu_5s")
    assert cpu.rules() == []


REFUSED = {
    "other kind": lambda metrics: metrics.write("cpu", {}, {"load": "text"}),
    "no fields": lambda metrics: metrics.write("cpu", {}, {}),
    "no name": lambda metrics: metrics.write("", {}, {"load": 1.0}),
    "at as text": lambda metrics: metrics.write("cpu", {}, {"load": 1.0}, at="now"),
    "bad line": lambda metrics: metrics.write_lines("cpu load="),
    "lines of numbers": lambda metrics: metrics.write_lines(5),
    "no column": lambda metrics: metrics.write_table("cpu", {"load": [1.0]}),
    "no columns": lambda metrics: metrics.write_table("cpu", 5),
    "unknown aggregate": lambda metrics: metrics.aggregate("cpu", "mode"),
    "bad window": lambda metrics: metrics.aggregate("cpu", "avg", window="5 minutes"),
    "by is text": lambda metrics: metrics.aggregate("cpu", "avg", by="host"),
    "not finite": lambda metrics: metrics.write_table("x", {"at": [1], "v": [float("nan")]}),
    "bad question": lambda metrics: metrics.query("cpu | fly"),
    "keep for nothing": lambda metrics: metrics.keep("cpu", 0),
    "no aggregates": lambda metrics: metrics.downsample(
        "cpu", into="x", window="1s", aggregates=[]
    ),
    "in a circle": lambda metrics: metrics.downsample("cpu", into="cpu", window="1s"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_alike(metrics, what):
    with pytest.raises(StrandlineError) as refused:
        REFUSED[what](metrics)

    assert refused.type is Invalid


def test_a_field_keeps_its_kind(cpu):
    with pytest.raises(Invalid):
        cpu.write("cpu", {}, {"up": 1.5}, at=1)

    assert cpu.statistics().refused_writes == 1
