"""Promise: a relation shows what its topic or view shows to those who ask it directly."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from strandline.testing.sim_clock import WALL_US_START
from tests.unit.query.sql.asking import ask
from tests.unit.store.world import World, read_all

START = datetime.fromtimestamp(WALL_US_START // 1_000_000, UTC)


@pytest.fixture
def world() -> World:
    return World()


def test_a_topic_shows_its_records(world):
    orders = world.store.topic("orders")
    orders.append(b"one", key=b"k", tag="eu", node="n1", meta=b"m")
    orders.append(b"\xff\x00")

    found = ask(
        world.store, "SELECT seq, key, tag, node, meta, data, text FROM orders ORDER BY seq"
    )

    told = [(r.seq, r.key, r.tag, r.node, r.meta, r.data) for r in read_all(orders)]
    assert [row[:-1] for row in found] == told
    assert [row[-1] for row in found] == ["one", None]


def test_times_are_moments_in_utc(world):
    world.store.topic("orders").append(b"one")

    assert ask(world.store, "SELECT ts FROM orders") == [(START,)]


def test_a_schema_gives_typed_columns_and_misfits_are_null(world):
    orders = world.store.topic("orders", schema={"price": "f64", "on": "date", "text": "string"})
    orders.append(b'{"price": 1.5, "on": "2026-02-03", "text": "mine"}')
    orders.append(b'{"price": "cheap"}')

    found = ask(world.store, 'SELECT price, "on"::VARCHAR, text FROM orders ORDER BY seq')

    assert found == [(1.5, "2026-02-03", "mine"), (None, None, None)]


def test_deleted_records_are_not_shown(world):
    orders = world.store.topic("orders")
    orders.append_many([b"a", b"b", b"c"], tags=["x", "y", "x"])
    orders.delete(match="x")

    assert ask(world.store, "SELECT data FROM orders") == [(b"b",)]


def test_a_bare_name_is_the_view_and_log_has_the_records(world):
    profiles = world.store.kv("profiles")
    profiles.put("ada", b"1")
    profiles.put("ada", b"2")

    assert ask(world.store, "SELECT key, text, version FROM profiles") == [("ada", "2", 2)]
    assert ask(world.store, "SELECT seq, data FROM log.profiles ORDER BY seq") == [
        (1, b"1"),
        (2, b"2"),
    ]


def test_a_table_comes_before_other_views_in_a_bare_name(world):
    world.store.kv("signup")
    world.store.table("signup").define({"plan": "string"})
    world.store.table("signup").store("u1", {"plan": "pro"})

    assert ask(world.store, "SELECT context, plan FROM signup") == [("u1", "pro")]
    assert ask(world.store, "SELECT key FROM kv.signup") == [("u1",)]


def test_a_map_shows_its_entries_and_leaves_out_what_is_over(world):
    store = world.store
    profiles = store.kv("profiles")
    profiles.put("ada", b"x" * 100_000)
    profiles.put(b"\xff\xfe", b"\xfd")
    profiles.put("gone", b"...")
    profiles.put("soon", b"...", ttl=10)
    profiles.put("over", b"...", ttl=5)
    profiles.delete("gone")
    world.clock.advance(6)

    found = ask(store, "SELECT key, key_bytes, value, text, version, ts, expires FROM profiles")

    entries = {entry.key: entry for entry in profiles.scan()}
    assert {row[1] for row in found} == {b"ada", b"\xff\xfe", b"soon"} == set(entries)
    for key, plain, value, text, version, ts, expires in found:
        entry = entries[plain]
        assert (value, version) == (entry.value, entry.version)
        assert _micros(ts) == entry.ts
        assert (expires and _micros(expires)) == entry.expires_us
        assert key == (None if plain == b"\xff\xfe" else plain.decode())
        assert text == (None if value == b"\xfd" else value.decode())


def test_the_versions_of_a_map_include_deletes(world):
    profiles = world.store.kv("profiles")
    profiles.put("ada", b"1", ttl=100)
    profiles.delete("ada")
    profiles.put("ada", b"3")

    found = ask(
        world.store,
        "SELECT version, value, deleted, expires IS NULL FROM kv_history.profiles ORDER BY version",
    )

    assert found == [(1, b"1", False, False), (2, None, True, True), (3, b"3", False, True)]
    assert [each.version for each in profiles.history("ada")] == [3, 2, 1]


def test_records_of_other_views_are_no_versions_of_a_map(world):
    world.store.kv("both").put("ada", b"1")
    world.store.series("both").append("bus", 5, b"point")

    assert ask(world.store, "SELECT key FROM kv_history.both") == [("ada",)]
    assert ask(world.store, "SELECT key FROM kv.both") == [("ada",)]
    assert ask(world.store, "SELECT source FROM series.both ORDER BY 1") == [("ada",), ("bus",)]


def test_a_queue_shows_where_each_job_is(world):
    store = world.store
    jobs = store.queue("jobs", deliveries_max=1)
    jobs.put(b"waits")
    jobs.put(b"later", delay=100)
    jobs.put_many([b"first", b"second"], groups=["g", "g"])
    jobs.put(b"claimed", priority=1, key="k", tag="t")
    jobs.claim(1, worker="w1", lease=60)
    jobs.put(b"lapsed", priority=2)
    jobs.claim(1, worker="w2", lease=1)
    world.clock.advance(2)

    found = ask(store, "SELECT text, state, priority, attempts, worker FROM jobs ORDER BY seq")

    assert found == [
        ("waits", "waiting", 100, 0, None),
        ("later", "delayed", 100, 0, None),
        ("first", "waiting", 100, 0, None),
        ("second", "blocked", 100, 0, None),
        ("claimed", "claimed", 1, 1, "w1"),
        ("lapsed", "lapsed", 2, 1, "w2"),
    ]
    assert ask(store, "SELECT key, tag FROM jobs WHERE state = 'claimed'") == [("k", "t")]
    assert ask(store, "SELECT seq, epoch_us(due) FROM jobs WHERE due IS NOT NULL") == [
        (2, WALL_US_START + 100_000_000)
    ]


def test_jobs_that_are_done_are_gone(world):
    jobs = world.store.queue("jobs")
    jobs.put_many([b"a", b"b"])
    jobs.claim(1)[0].ack()

    assert ask(world.store, "SELECT seq, data FROM jobs") == [(2, b"b")]


def test_dead_letters_in_a_topic_that_is_shared_are_those_of_the_queue(world):
    for name in ("calls", "mails"):
        queue = world.store.queue(name, deliveries_max=1, dead_letter="failed")
        queue.put(name.encode())
        queue.claim(1)[0].nack()
        queue.claim(1)

    assert ask(world.store, "SELECT text FROM dead.calls") == [("calls",)]
    assert ask(world.store, "SELECT text FROM dead.mails") == [("mails",)]


def test_dead_letters_tell_what_they_were(world):
    jobs = world.store.queue("jobs", deliveries_max=1)
    assert ask(world.store, "FROM dead.jobs") == []
    jobs.put(b"bad", key="k")
    jobs.claim(1)[0].nack()
    assert jobs.claim(1) == []

    found = ask(world.store, "SELECT job_seq, attempts, reason, key, text FROM dead.jobs")

    assert found == [(1, 1, "deliveries", "k", "bad")]
    assert [letter.job_seq for letter in jobs.dead.letters()] == [1]


def test_a_series_shows_its_points_from_wherever_their_payloads_are(world):
    gps = world.store.series("gps", inline_bytes=8)
    points = [("bus", at, b"small" if at % 2 else b"large" * 10) for at in range(5000)]
    gps.append_many(points, version=3)
    gps.append("tram", -7, b"late")

    found = ask(world.store, "SELECT source, tick, payload, version, seq FROM gps ORDER BY 1, 2")

    every = [point for some in gps.range_all().values() for point in some]
    assert found == [(p.source.decode(), p.at, p.payload, p.version, p.seq) for p in every]
    assert len(found) == 5001


@pytest.mark.parametrize(
    ("unit", "at"), [("s", 60), ("ms", 60_000), ("us", 60_000_000), ("ns", 60_000_000_999)]
)
def test_the_time_of_a_point_follows_its_unit(world, unit, at):
    world.store.series("gps", unit=unit).append("bus", at, b"")

    assert ask(world.store, "SELECT time FROM gps") == [(datetime(1970, 1, 1, 0, 1, tzinfo=UTC),)]


def test_a_point_of_no_known_time_has_none(world):
    world.store.series("steps", unit="step").append("bus", 1, b"")
    world.store.series("far", unit="s").append("bus", 2**62, b"")

    assert ask(world.store, "SELECT time FROM steps") == [(None,)]
    assert ask(world.store, "SELECT time FROM far") == [(None,)]


def test_metrics_show_every_point(world):
    metrics = world.store.metrics("m")
    metrics.write("cpu", {"host": "a"}, {"load": 0.5, "jobs": 2**60 + 1}, at=1_000_000_001)
    metrics.write("cpu", {"host": "a"}, {"load": 0.75}, at=1_000_000_001)
    metrics.write("door", {}, {"open": True}, at=5)

    found = ask(
        world.store, "SELECT measurement, tags['host'], field, ns, value, whole FROM m ORDER BY ALL"
    )

    assert found == [
        ("cpu", "a", "jobs", 1_000_000_001, float(2**60), 2**60 + 1),
        ("cpu", "a", "load", 1_000_000_001, 0.75, None),
        ("door", None, "open", 5, 1.0, 1),
    ]


def test_a_measurement_has_its_tags_and_fields_as_columns(world):
    metrics = world.store.metrics("m")
    metrics.write("cpu", {"host": "a", "time": "rack"}, {"load": 0.5, "jobs": 3}, at=7)
    metrics.write("cpu", {"host": "b"}, {"load": 0.25, "Load": 1}, at=7)
    metrics.write("cpu", {"host": "b"}, {"jobs": 4}, at=8)

    found = ask(
        world.store,
        'SELECT ns, host, tag_time, load, jobs, field_load FROM metrics."m/cpu" ORDER BY ns, host',
    )

    assert found == [
        (7, "a", "rack", None, 3, 0.5),
        (7, "b", None, 1, None, 0.25),
        (8, "b", None, None, 4, None),
    ]


def test_a_table_shows_its_rows_in_memory_and_in_files(world):
    table = world.store.table("signup")
    table.define({"plan": ["pro", "free"], "n": "i64", "note": "string | null"})
    table.store_many("u1", [{"plan": "pro", "n": n} for n in range(100)])
    table.flush()
    table.store_many("u2", [{"plan": "free", "n": n, "note": "x"} for n in range(50)])

    found = ask(
        world.store,
        "SELECT context, plan, count(*), sum(n), count(note) FROM signup GROUP BY ALL ORDER BY ALL",
    )

    assert found == [("u1", "pro", 100, 4950, 0), ("u2", "free", 50, 1225, 50)]


def test_a_hook_gives_relations_that_the_store_does_not_have(world):
    daily = pa.table({"day": ["mon", "tue"], "count": [1, 2]})

    def extra(schema: str, name: str) -> pa.Table | None:
        return daily if (schema, name) == ("remembered", "daily") else None

    assert ask(world.store, "SELECT sum(count) FROM remembered.daily", extra=extra) == [(3,)]


def test_kinds_of_relations_are_joined(world):
    world.store.kv("profiles").put_many({"u1": b"Ada", "u2": b"Bob"})
    orders = world.store.topic("orders", schema={"price": "f64"})
    orders.append_many([b'{"price": 2}', b'{"price": 3}', b'{"price": 5}'], keys=["u1", "u2", "u1"])

    found = ask(
        world.store,
        "SELECT profiles.text, sum(price) FROM orders JOIN profiles ON orders.key = key_bytes "
        "GROUP BY 1 ORDER BY 1",
    )

    assert found == [("Ada", 7.0), ("Bob", 3.0)]


def test_a_store_that_is_open_read_only_answers_the_same(world):
    store = world.store
    store.kv("profiles").put("ada", b"1")
    store.queue("jobs").put(b"a")
    store.series("gps").append("bus", 1, b"p")
    store.metrics("m").write("cpu", {}, {"load": 1.0}, at=1)
    store.table("signup").define({"n": "i64"})
    store.table("signup").store("u", {"n": 1})
    text = "SELECT * FROM {}"
    names = ("profiles", "jobs", "gps", "m", 'metrics."m/cpu"', "signup", "log.signup", "dead.jobs")
    told = {name: ask(store, text.format(name)) for name in names}
    store.checkpoint()

    with world.open(readonly=True) as reader:
        assert {name: ask(reader, text.format(name)) for name in names} == told


def _micros(moment: datetime) -> int:
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
