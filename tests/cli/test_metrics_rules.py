"""Promise: rules of measurements are added, listed and removed, and hold for the store."""

from __future__ import annotations

import pytest

import strandline
from strandline.cli.errors import FAILED, WRONG_USE
from tests.cli.conftest import Command

HOUR_NS = 3_600_000_000_000


@pytest.fixture
def usage(command: Command, data_dir: str) -> Command:
    with strandline.open(data_dir) as store:
        store.metrics("usage").write("cpu", {"host": "a"}, {"load": 1.0}, at=1)
    return command


def test_a_rule_of_retention_is_added_and_changed(usage: Command, data_dir: str):
    usage("metrics", "rule", "keep", "usage", "cpu", "2h")
    told = usage("metrics", "rule", "keep", "usage", "cpu", "30d", "--output", "json").json

    assert told == {"kind": "keep", "measurement": "cpu", "keep_ns": 30 * 24 * HOUR_NS}
    with strandline.open(data_dir, readonly=True) as store:
        (rule,) = store.metrics("usage").rules()
        assert (rule.measurement, rule.keep_ns) == ("cpu", 30 * 24 * HOUR_NS)


def test_a_rule_of_downsampling_is_added(usage: Command):
    options = [
        "--into",
        "cpu_1h",
        "--window",
        "1h",
        "--delay",
        "5m",
        "--by",
        "host",
        "--by",
        "zone",
    ]
    aggregates = ["--aggregate", "avg", "--aggregate", "percentile(95)"]

    told = usage("metrics", "rule", "downsample", "usage", "cpu", *options, *aggregates)

    (found,) = usage("metrics", "rule", "list", "usage", "--output", "json").json
    assert told.code == 0
    assert found == {
        "kind": "downsample",
        "measurement": "cpu_1h",
        "source": "cpu",
        "window_ns": HOUR_NS,
        "aggregates": ["avg", "percentile(95)"],
        "by": ["host", "zone"],
        "delay_ns": HOUR_NS // 12,
    }


@pytest.mark.parametrize(
    ("options", "by", "text"),
    [
        ([], None, "each series"),
        (["--together"], [], "together"),
        (["--by", "host"], ["host"], "by host"),
    ],
)
def test_series_are_by_themselves_unless_it_is_said(usage: Command, options, by, text):
    given = ["--into", "x", "--window", "90s", *options]

    usage("metrics", "rule", "downsample", "usage", "cpu", *given)

    listed = usage("metrics", "rule", "list", "usage")
    assert usage("metrics", "rule", "list", "usage", "--output", "json").json[0]["by"] == by
    assert f"avg of cpu, 90s, {text}" in listed.lines[-1]


def test_a_rule_is_removed_once(usage: Command):
    usage("metrics", "rule", "keep", "usage", "cpu", "1h")
    usage("metrics", "rule", "downsample", "usage", "cpu", "--into", "x", "--window", "1m")

    removed = [usage("metrics", "rule", "remove", "usage", "downsample", "x") for _ in range(2)]

    assert [answer.code for answer in removed] == [0, FAILED]
    assert "metrics rule ls usage" in removed[1].err
    left = usage("metrics", "rule", "list", "usage", "--output", "json").json
    assert [rule["kind"] for rule in left] == ["keep"]
    assert usage("metrics", "rule", "remove", "usage", "keep", "cpu").code == 0
    assert usage("metrics", "rule", "list", "usage", "--output", "json").json == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["keep", "usage", "cpu", "soon"], "not a duration"),
        (["downsample", "usage", "cpu", "--into", "cpu", "--window", "1m"], "from itself: use"),
        (
            ["downsample", "usage", "cpu", "--into", "x", "--window", "1m", "--aggregate", "mean"],
            "mean",
        ),
        (["downsample", "usage", "cpu", "--into", "x"], "window"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(usage: Command, arguments, reason):
    answer = usage("metrics", "rule", *arguments)

    assert answer.code == WRONG_USE
    assert reason in answer.err
    assert usage("metrics", "rule", "list", "usage", "--output", "json").json == []
