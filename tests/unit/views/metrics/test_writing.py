"""Promise: what is written is there when the call returns, all of it or nothing; what is wrong with
it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest

from strandline.config.settings import LimitSettings, ViewSettings
from strandline.errors import Invalid, TooLarge
from tests.unit.store.world import World
from tests.unit.views.metrics.metrics_world import NAME, SECOND, digest, open_metrics, rebuild


@pytest.fixture
def world():
    made = World(views=ViewSettings(memory_bytes=32 << 20))
    yield made
    made.store.close()


@pytest.fixture
def metrics(world):
    return open_metrics(world.store)


MOMENT = 1_767_323_045_123_456_000
"""2026-01-02T03:04:05.123456Z"""


def rows(answer) -> list[tuple]:
    return [(row.tags, row.at, row.value) for row in answer]


@pytest.mark.parametrize(
    "moment",
    [
        MOMENT,
        np.int64(MOMENT),
        np.uint64(MOMENT),
        datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
        datetime(2026, 1, 2, 5, 4, 5, 123456, tzinfo=timezone(timedelta(hours=2))),
        datetime(2026, 1, 2, 3, 4, 5, 123456),  # without a zone it is UTC
        np.datetime64("2026-01-02T03:04:05.123456"),
        np.datetime64(MOMENT, "ns"),
    ],
)
def test_a_time_is_a_number_or_a_datetime_of_python_or_numpy(metrics, moment):
    metrics.write("cpu", {}, {"load": 1.0}, at=moment)

    assert metrics.read("cpu").at.tolist() == [MOMENT]
    assert len(metrics.read("cpu", first=moment)) == 1
    assert len(metrics.read("cpu", next=moment)) == 0
    assert metrics.aggregate("cpu", "count", first=moment).values.tolist() == [1]


@pytest.mark.parametrize(
    "unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]
)
def test_a_numpy_datetime_is_taken_by_its_unit(metrics, unit):
    metrics.write("cpu", {}, {"load": 1.0}, at=np.datetime64("1970-01-01", unit))

    assert metrics.read("cpu").at.tolist() == [0]


def test_a_time_before_1970_with_a_fraction_is_exact(metrics):
    metrics.write("cpu", {}, {"load": 1.0}, at=np.datetime64(-1, "ns"))
    metrics.write("cpu", {}, {"load": 1.0}, at=datetime.fromtimestamp(-0.5, UTC))

    metrics.write("cpu", {}, {"load": 1.0}, at=np.datetime64("1969-12"))

    assert metrics.read("cpu").at.tolist() == [-31 * 86_400 * SECOND, -500_000_000, -1]


@pytest.mark.parametrize("moment", [1.5, "now", None, True])
def test_what_is_no_time_is_refused_by_a_question(metrics, moment):
    metrics.write("cpu", {}, {"load": 1.0}, at=1)

    with pytest.raises(Invalid, match="is not a time"):
        metrics.read("cpu", first=moment)
    with pytest.raises(Invalid, match="is not a time"):
        metrics.aggregate("cpu", "count", next=moment)


def test_a_point_is_there_when_its_write_returns(metrics):
    metrics.write("cpu", {"host": "a"}, {"load": 0.5, "jobs": 3, "up": True}, at=12)

    assert rows(metrics.read("cpu", "load")) == [({"host": "a"}, 12, 0.5)]
    assert rows(metrics.read("cpu", "jobs")) == [({"host": "a"}, 12, 3)]
    assert rows(metrics.read("cpu", "up")) == [({"host": "a"}, 12, True)]
    assert metrics.fields("cpu") == {"jobs": "int64", "load": "float64", "up": "bool"}


def test_numbers_of_numpy_are_numbers(metrics):
    metrics.write(
        "m", {}, {"a": np.float32(0.5), "b": np.int16(7), "c": np.bool_(True)}, np.int64(9)
    )

    assert metrics.fields("m") == {"a": "float64", "b": "int64", "c": "bool"}
    assert metrics.read("m", "b").at.tolist() == [9]


def test_without_a_time_it_is_now(world, metrics):
    metrics.write("cpu", {}, {"load": 1.0})

    assert metrics.read("cpu").at.tolist() == [world.clock.now_us() * 1000]


def test_a_later_point_of_the_same_time_replaces_the_one_before(metrics):
    metrics.write("cpu", {"host": "a"}, {"load": 1.0, "jobs": 1}, at=5)
    metrics.write("cpu", {"host": "a"}, {"load": 2.0}, at=5)

    assert metrics.read("cpu", "load").values.tolist() == [2.0]
    assert metrics.read("cpu", "jobs").values.tolist() == [1]


def test_in_one_text_the_last_line_counts_whatever_fields_lines_have(metrics):
    metrics.write_lines("cpu v=1,w=1 5\ncpu v=2 5\ncpu v=3,w=2 5\ncpu w=9 5")

    assert metrics.read("cpu", "v").values.tolist() == [3.0]
    assert metrics.read("cpu", "w").values.tolist() == [9.0]


def test_a_write_is_one_record(world, metrics):
    head = world.store.topic(NAME).head_seq

    metrics.write_lines("\n".join(f"cpu,host=h{n} v=1 {n}" for n in range(500)))

    assert world.store.topic(NAME).head_seq == head + 1


def test_a_large_write_is_several_records_in_one_batch(world, metrics):
    count = 200_000
    chance = np.random.default_rng(1)
    table = {"at": np.arange(count), "v": chance.normal(size=count)}

    appended = metrics.write_table("noise", table)

    assert appended.last_seq > appended.first_seq
    assert len(metrics.read("noise")) == count
    before = digest(world.store)
    rebuild(world.store)
    assert digest(world.store) == before


def test_the_last_line_counts_in_a_write_of_several_records_too(world, metrics):
    lines = []
    for n in range(30_000):
        both = [f"m,host=a-long-name-{n % 50} v={value} {n % 100}" for value in (f"{n},w=1", -n)]
        lines += both if n % 2 else reversed(both)

    appended = metrics.write_lines("\n".join(lines))

    assert appended.last_seq > appended.first_seq
    found = sorted(metrics.read("m", "v").values.tolist())
    assert found == sorted(float(-n if n % 2 else n) for n in range(29_900, 30_000))


def test_a_write_over_the_limits_of_the_store_leaves_nothing():
    world = World(
        views=ViewSettings(memory_bytes=32 << 20), limits=LimitSettings(batch_bytes_max=100_000)
    )
    metrics = open_metrics(world.store)
    table = {"at": np.arange(50_000), "v": np.random.default_rng(1).normal(size=50_000)}

    with pytest.raises(TooLarge):
        metrics.write_table("noise", table)

    assert metrics.measurements() == []
    world.store.close()


def test_a_bad_line_leaves_nothing_of_its_text(metrics):
    with pytest.raises(Invalid, match="line 2, column 7"):
        metrics.write_lines("cpu v=1 5\ncpu v=1x 6\ncpu v=1 7")

    assert metrics.measurements() == []


def test_no_line_is_no_write(metrics):
    assert metrics.write_lines("# nothing\n") is None


def test_a_field_keeps_the_kind_of_its_first_point(metrics):
    metrics.write("cpu", {}, {"load": 1.5}, at=1)

    with pytest.raises(Invalid, match="'load' of 'cpu' is float64, not bool; nothing was written"):
        metrics.write("cpu", {"host": "b"}, {"load": True, "other": 1}, at=2)
    with pytest.raises(Invalid, match="float64, not int64"):
        metrics.write_lines("cpu load=2i 3")

    assert len(metrics.series("cpu")) == 1
    assert metrics.fields("cpu") == {"load": "float64"}
    assert metrics.statistics().refused_writes == 2


def test_a_whole_number_goes_into_a_field_of_floats(metrics):
    metrics.write("cpu", {}, {"load": 1.5}, at=1)
    metrics.write("cpu", {}, {"load": 2}, at=2)
    metrics.write_table("cpu", {"at": [3], "load": [3]})

    assert metrics.read("cpu").values.tolist() == [1.5, 2.0, 3.0]
    with pytest.raises(Invalid, match="float64, not int64"):
        metrics.write("cpu", {}, {"load": 2**53 + 1}, at=4)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("", {}, {"v": 1}), "a measurement"),
        (("cpu", {"": "x"}, {"v": 1}), "a tag"),
        (("cpu", {"a": ""}, {"v": 1}), "the value of tag 'a'"),
        (("cpu", {}, {}), "at least one field"),
        (("cpu", {}, {"": 1}), "a field"),
        (("cpu", {}, {"v": "text"}), "an int, a float or a bool"),
        (("cpu", {}, {"v": None}), "an int, a float or a bool"),
        (("cpu", {}, {"v": float("nan")}), "not finite"),
        (("cpu", {}, {"v": 2**63}), "64 bits"),
        (("cpu", {}, {"v": 1}, 2**63), "is not a time"),
        (("cpu", {}, {"v": 1}, 1.5), "is not a time"),
        (("cpu", {}, {"v": 1}, True), "is not a time"),
        (("cpu", {}, {"v": 1}, "2026-01-02"), "is not a time"),
        (("cpu", {}, {"v": 1}, np.float64(5)), "is not a time"),
        (("cpu", {}, {"v": 1}, np.uint64(2**63)), "from 1677 to 2262"),
        (("cpu", {}, {"v": 1}, np.datetime64("NaT")), "is not a time"),
        (("cpu", {}, {"v": 1}, np.datetime64("2300-01-01")), "from 1677 to 2262"),
        (("cpu", {}, {"v": 1}, np.datetime64(10**18, "Y")), "from 1677 to 2262"),
        (("cpu", {}, {"v": 1}, np.datetime64(-(10**18), "M")), "from 1677 to 2262"),
        (("cpu", {}, {"v": 1}, np.datetime64(10**15, "D")), "from 1677 to 2262"),
        (("cpu", {}, {"v": 1}, datetime(1600, 1, 1, tzinfo=UTC)), "from 1677 to 2262"),
    ],
)
def test_a_point_that_cannot_be_is_refused(metrics, arguments, reason):
    with pytest.raises(Invalid, match=reason):
        metrics.write(*arguments)

    assert metrics.measurements() == []


def test_a_table_has_times_tags_and_fields(metrics):
    table = pa.table(
        {
            "at": pa.array([1, 2, 3], pa.timestamp("ms")),
            "host": pa.array(["a", None, "a"]).dictionary_encode(),
            "zone": ["x", "", "y"],
            "load": pa.array([1, None, 3], pa.float32()),
            "up": [True, False, None],
            "jobs": pa.array([7, 8, 9], pa.uint8()),
        }
    )

    metrics.write_table("cpu", table, tags=["zone", "host"])

    assert rows(metrics.read("cpu", "load")) == [
        ({"host": "a", "zone": "x"}, 1_000_000, 1.0),
        ({"host": "a", "zone": "y"}, 3_000_000, 3.0),
    ]
    assert rows(metrics.read("cpu", "jobs")) == [
        ({}, 2_000_000, 8),
        ({"host": "a", "zone": "x"}, 1_000_000, 7),
        ({"host": "a", "zone": "y"}, 3_000_000, 9),
    ]
    assert metrics.read("cpu", "up").values.tolist() == [False, True]


def test_record_batches_and_dicts_of_arrays_are_tables(metrics):
    batch = pa.record_batch({"time": [1, 2], "v": [0.5, 1.5]})

    metrics.write_table("a", batch, at="time")
    metrics.write_table("b", {"at": np.array([1, 2]), "v": np.array([3, 4])})

    assert metrics.read("a").values.tolist() == [0.5, 1.5]
    assert metrics.read("b").values.tolist() == [3, 4]


def test_rows_of_one_table_replace_each_other_in_order(metrics):
    metrics.write_table("m", {"at": [5, 5, 5], "v": [1, 2, None], "w": [7, 8, 9]})

    assert metrics.read("m", "v").values.tolist() == [2]
    assert metrics.read("m", "w").values.tolist() == [9]


def test_a_table_without_values_is_no_write(metrics):
    assert metrics.write_table("m", pa.table({"at": [1], "v": pa.nulls(1)})) is None
    assert (
        metrics.write_table("m", {"at": pa.array([], pa.int64()), "v": pa.array([], pa.int64())})
        is None
    )


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"v": [1]}, "no column 'at'"),
        ({"at": [1], "v": [1]}, "no column 'host'"),
        ({"at": [1], "host": ["a"]}, "left for a field"),
        ({"at": [1, None], "host": ["a", "b"], "v": [1, 2]}, "without a time"),
        ({"at": [1.5], "host": ["a"], "v": [1]}, "times are integers"),
        ({"at": [1], "host": [5], "v": [1]}, "tags are strings"),
        ({"at": [1], "host": ["a"], "v": ["x"]}, "fields are integers"),
        ({"at": [1], "host": ["a"], "v": [float("inf")]}, "not finite"),
        ({"at": [1], "host": ["a\n"], "v": [1]}, "control character"),
        ({"at": [1], "host": ["a"], "v": pa.array([2**63], pa.uint64())}, "do not fit"),
        ({"at": [2**63 - 1], "host": ["a"], "v": [1]}, "do not fit"),
        ({"at": [1, 2], "host": ["a"], "v": [1]}, "equal length"),
        (7, "not a table"),
    ],
)
def test_a_table_that_cannot_be_is_refused(metrics, table, reason):
    with pytest.raises(Invalid, match=reason):
        metrics.write_table("m", table, tags=["host"])

    assert metrics.measurements() == []


def test_plain_records_of_line_protocol_are_points(world, metrics):
    topic = world.store.topic(NAME)

    topic.append(b"cpu,host=a load=1 5\ncpu,host=b load=2 5")
    topic.append(b"cpu,host=a load=3")

    (record,) = topic.read(1, 1).records
    assert rows(metrics.read("cpu")) == [
        ({"host": "a"}, 5, 1.0),
        ({"host": "a"}, record.ts * 1000, 3.0),
        ({"host": "b"}, 5, 2.0),
    ]


def test_other_records_are_counted_and_passed_over(world, metrics):
    topic = world.store.topic(NAME)
    for data, meta in ((b"\xff\x00", None), (b"{}", b"mine"), (b"", None), (b"x", b"\x00mxp")):
        topic.append(data, meta=meta)
    metrics.write("cpu", {}, {"load": 1.0}, at=1)
    topic.append(b"cpu load=t 2\ncpu other=1 2")

    assert metrics.statistics().ignored_records == 4
    assert metrics.statistics().other_kind_points == 1
    assert metrics.fields("cpu") == {"load": "float64", "other": "float64"}


def test_measurements_series_and_fields_are_listed(metrics):
    metrics.write("mem", {}, {"used": 1}, at=1)
    metrics.write("cpu", {"host": "b"}, {"load": 1.0}, at=1)
    metrics.write("cpu", {"host": "a", "zone": "x"}, {"load": 1.0}, at=1)

    assert metrics.measurements() == ["cpu", "mem"]
    assert metrics.series("cpu") == [{"host": "a", "zone": "x"}, {"host": "b"}]
    assert metrics.series("cpu", {"zone": "x"}) == [{"host": "a", "zone": "x"}]
    assert metrics.series("gpu") == []
    assert metrics.fields("gpu") == {}


def test_the_cardinality_report_tells_what_makes_series_many(metrics):
    for n in range(30):
        metrics.write("cpu", {"host": f"h{n}", "zone": f"z{n % 3}"}, {"load": 1.0, "jobs": 1}, at=n)
    metrics.write("mem", {}, {"used": 1}, at=1)

    report = metrics.cardinality()

    assert report.series == 31
    cpu = report.measurements["cpu"]
    assert (cpu.series, cpu.fields, cpu.tags) == (30, 2, {"host": 30, "zone": 3})
    assert report.measurements["mem"].tags == {}


def test_a_read_has_at_most_so_many_points_of_each_series(metrics):
    for n in range(20):
        metrics.write("cpu", {"host": f"h{n % 2}"}, {"load": float(n)}, at=n)

    answer = metrics.read("cpu", limit=2)

    assert answer.values.tolist() == [0.0, 2.0, 1.0, 3.0]


def test_a_string_where_tags_are_listed_is_refused(metrics):
    metrics.write("cpu", {"host": "a"}, {"load": 1.0}, at=1)

    with pytest.raises(Invalid, match="give a list of tags"):
        metrics.aggregate("cpu", "avg", by="host")


def test_an_unknown_aggregate_is_refused(metrics):
    metrics.write("cpu", {"host": "a"}, {"load": 1.0}, at=1)

    for name in ("median", "percentile", "percentile(x)", "percentile(101)"):
        with pytest.raises(Invalid, match="percentile"):
            metrics.aggregate("cpu", name)


def test_a_hundred_thousand_series_are_written_asked_and_counted():
    world = World()
    metrics = open_metrics(world.store, tail=1 << 16, block_points=4096)
    hosts = [f"h{n}" for n in range(100_000)]
    for step in range(2):
        table = {
            "at": np.full(100_000, step * SECOND),
            "host": hosts,
            "v": np.arange(100_000) + step,
        }
        metrics.write_table("cpu", table, tags=["host"])

    assert metrics.cardinality().measurements["cpu"].tags == {"host": 100_000}
    assert metrics.read("cpu", tags={"host": "h77777"}).values.tolist() == [77777, 77778]
    found = metrics.aggregate("cpu", "sum", by=["host"])
    assert (len(found), int(found.values.sum())) == (100_000, 10**10)
    assert metrics.query('cpu{host=~"^h9999.$"} | max').values.tolist() == [100_000]
    world.store.close()
