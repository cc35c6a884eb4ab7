"""Promise: all relations of a question are seen at one position, of now or of the past; what cannot
be told of the past is refused, never guessed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline
from strandline.errors import Invalid, NotFound
from strandline.query.sql.as_of import pin
from strandline.query.sql.names import RelationNames
from strandline.query.sql.relations.relation import Position
from strandline.query.sql.sandbox import SHARED
from strandline.query.sql.sql import sql
from strandline.query.sql.statement import read
from strandline.testing.sim_clock import WALL_US_START
from tests.unit.query.sql.asking import ask
from tests.unit.store.world import World

START = datetime.fromtimestamp(WALL_US_START // 1_000_000, UTC)
KEYS = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["put", "delete", "plain", "save"])),
    max_size=25,
)
WRITES = 4000
QUESTIONS = 12
MAP = "SELECT key, text FROM m ORDER BY key"


class State(NamedTuple):
    """A map behind one of its records."""

    key: str
    """Which key the record was about."""
    entries: dict[str, str]


def _play(world: World, history: int, steps: list[tuple[str, str]]) -> list[State]:
    """Do these steps with a map; what it was after each of its records."""
    kv = world.store.kv("m", history=history)
    now: dict[str, str] = {}
    states = [State("", {})]
    for number, (key, step) in enumerate(steps):
        value = f"value {number}"
        if step == "save":
            world.store.checkpoint()
            continue
        if step == "delete":
            if not kv.delete(key):
                continue
            del now[key]
        elif step == "plain":
            world.store.topic("m").append(value.encode(), key=key)
            now[key] = value
        else:
            kv.put(key, value.encode())
            now[key] = value
        states.append(State(key, dict(now)))
    return states


def _written_since(states: list[State], seq: int) -> int:
    """How often the key was written behind a seq that was written most often."""
    return max(Counter(state.key for state in states[seq + 1 :]).values(), default=0)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_a_map_is_what_it_was_at_every_seq(steps):
    world = World()
    states = _play(world, 1000, steps)

    found = [dict(ask(world.store, MAP, as_of={"m": seq})) for seq in range(len(states))]

    assert found == [state.entries for state in states]
    assert dict(ask(world.store, MAP)) == states[-1].entries
    world.store.close()


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_a_map_with_a_short_history_tells_the_truth_or_refuses(steps):
    world = World()
    states = _play(world, 2, steps)

    for seq, state in enumerate(states):
        if _written_since(states, seq) < 2:
            assert dict(ask(world.store, MAP, as_of={"m": seq})) == state.entries
        else:
            with pytest.raises(NotFound, match="history"):
                ask(world.store, MAP, as_of={"m": seq})
    world.store.close()


def test_a_map_is_asked_as_of_a_time_with_what_was_over_then():
    world = World()
    kv = world.store.kv("m")
    kv.put("a", b"1", ttl=10)
    world.clock.advance(20)
    kv.put("b", b"2")
    world.clock.advance(20)
    kv.put("a", b"3")

    def at(seconds: int) -> list[tuple[str, str]]:
        return ask(world.store, MAP, as_of=START + timedelta(seconds=seconds))

    assert at(-1) == []
    assert at(5) == [("a", "1")]
    assert at(15) == []
    assert at(20) == [("b", "2")]
    assert at(99) == [("a", "3"), ("b", "2")]


def test_keys_that_were_forgotten_since_make_the_past_of_a_map_unknown():
    world = World()
    kv = world.store.kv("m", grace_ms=1000)
    kv.put("a", b"1")
    kv.put("b", b"2")
    kv.delete("a")
    world.clock.advance(10)
    world.store.checkpoint()
    kv.compact()

    with pytest.raises(NotFound, match="forgotten"):
        ask(world.store, MAP, as_of={"m": 2})

    assert ask(world.store, MAP, as_of={"m": 3}) == [("b", "2")]


def test_topics_tables_and_series_show_what_there_was_up_to_a_seq():
    world = World()
    store = world.store
    store.topic("t").append([b"1", b"2", b"3"])
    table = store.table("e")
    table.define({"n": "i64"})
    table.store_many("u", [{"n": n} for n in range(5)])
    store.series("s").append_many([("bus", at, b"p") for at in range(10)])

    found = ask(
        store,
        "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM e), (SELECT max(tick) FROM s)",
        as_of={"t": 2, "e": 4, "s": 7},
    )

    assert found == [(2, 3, 6)]


def test_a_time_counts_records_of_that_very_moment():
    world = World()
    topic = world.store.topic("t")
    topic.append(b"1")
    first = topic.read().records[0].ts
    world.clock.advance(1)
    topic.append(b"2")

    moment = datetime.fromtimestamp(first / 1_000_000, UTC)
    found = [
        ask(world.store, "SELECT count(*) FROM t", as_of=as_of)[0][0]
        for as_of in (moment - timedelta(microseconds=1), moment, moment.isoformat())
    ]

    assert found == [0, 1, 1]


def test_a_position_as_text_is_of_one_store_and_one_life():
    world = World()
    topic = world.store.topic("t")
    topic.append([b"1", b"2"])
    text = '{"store": "%s", "topics": {"t": {"epoch": %d, "seq": 1}}}'
    right = text % (world.store.id, topic.epoch)

    assert ask(world.store, "SELECT count(*) FROM t", as_of=right) == [(1,)]
    with pytest.raises(Invalid, match="another epoch"):
        ask(world.store, "FROM t", as_of=text % (world.store.id, topic.epoch + 1))
    with pytest.raises(Invalid, match="position of store"):
        ask(world.store, "FROM t", as_of=text % ("0" * 32, topic.epoch))
    with pytest.raises(Invalid, match="not a position"):
        ask(world.store, "FROM t", as_of='{"store": 5}')


@pytest.mark.parametrize(
    ("as_of", "why"),
    [
        ({}, "has no seq of t"),
        ({"t": 99}, "has no seq 99"),
        ({"t": -1}, "a whole number"),
        ({"t": "2"}, "a whole number"),
        ("yesterday", "not a time"),
        (object(), "as_of must be a time"),
        (True, "as_of must be a time"),
    ],
)
def test_a_position_that_cannot_be_is_refused(as_of, why):
    world = World()
    world.store.topic("t").append(b"1")

    with pytest.raises(Invalid, match=why):
        ask(world.store, "FROM t", as_of=as_of)


def test_queues_and_metrics_have_no_past_and_say_so():
    world = World()
    world.store.queue("jobs").put(b"1")
    world.store.metrics("m").write("cpu", {}, {"load": 1.0}, at=1)

    for name in ("jobs", "m"):
        with pytest.raises(Invalid, match=f"{name!r} cannot be queried as of the past"):
            ask(world.store, f"FROM {name}", as_of=START)
    assert ask(world.store, "SELECT count(*) FROM log.jobs", as_of=START) == [(1,)]


def test_points_that_retention_took_since_make_the_past_of_a_series_unknown():
    world = World()
    series = world.store.series("s")
    series.append_many([("bus", at, b"") for at in range(10)])
    series.run_retention(5)

    with pytest.raises(NotFound, match="forgotten points"):
        ask(world.store, "FROM s", as_of={"s": 8})

    assert ask(world.store, "SELECT min(tick) FROM s") == [(5,)]


def _write(store: strandline.Store, kind: str, number: int) -> None:
    """One record, and one row more."""
    if kind == "kv":
        store.kv("x").put(f"key {number}", b"value")
    elif kind == "queue":
        store.queue("x").put(b"job")
    elif kind == "series":
        store.series("x").append(number % 7, number, b"point")
    elif kind == "metrics":
        store.metrics("x").write("cpu", {}, {"load": 1.0}, at=number)
    else:
        store.table("x").store("u", {"n": number})


@pytest.mark.parametrize("kind", ["kv", "queue", "series", "metrics", "tables"])
def test_a_view_and_its_log_are_seen_at_one_moment_while_others_write(kind):
    world = World()
    store = world.store
    if kind == "tables":
        store.table("x").define({"n": "i64"})
    _write(store, kind, 0)
    before = 1 if kind == "tables" else 0  # the record of the definition
    allowed = threading.Semaphore(0)

    def write() -> None:
        for number in range(1, WRITES):
            allowed.acquire()  # so that there is something left to write for every question
            _write(store, kind, number)

    def asked() -> tuple[int, int]:
        allowed.release(WRITES // QUESTIONS)
        text = f"SELECT (SELECT count(*) FROM {kind}.x), (SELECT count(*) FROM log.x)"
        return ask(store, text)[0]

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [asked() for _ in range(QUESTIONS)]
    finally:
        allowed.release(WRITES)
        writer.join()

    assert len(set(found)) > 1, "nobody wrote meanwhile"
    assert [rows for rows, _ in found] == [records - before for _, records in found]


class Interrupted:
    """A topic to which somebody appends just before or behind the first look at its head."""

    def __init__(self, topic: strandline.Topic, append: Callable[[], object], when: str) -> None:
        self.name = topic.name
        self._topic = topic
        self._append: list[Callable[[], object]] = [append]
        self._when = when

    @property
    def head_seq(self) -> int:
        before = self._topic.head_seq
        while self._append:
            self._append.pop()()
            if self._when == "behind":
                return before
        return self._topic.head_seq


class Noted:
    """A source that keeps the position that it was given."""

    held = ()

    def __init__(self, *topics: object) -> None:
        self.topics = topics

    def at(self, position: Position) -> Position:
        return position


def test_heads_that_were_not_there_at_one_moment_are_read_again():
    store = World().store
    second, first = store.topic("second"), store.topic("first")

    def append() -> None:
        first.append(b"x")
        second.append(b"x")

    (position,) = pin(store, [Noted(Interrupted(second, append, "behind"), first)], None)

    assert position.heads == {"second": 1, "first": 1}


def test_a_view_is_folded_up_to_the_heads_that_are_read():
    store = World().store
    store.queue("jobs").put(b"one")
    jobs = store.existing_topic("jobs")
    with SHARED.parser() as connection:
        statement = read("FROM jobs", connection)
    queue = RelationNames(store, statement, None, copied=False).find(statement.relations[0])
    plain = Noted(Interrupted(jobs, lambda: jobs.append(b"two"), "before"))

    relation, position = pin(store, [queue, plain], None)

    rows = [row for batch in relation.batches(["seq"], None) for row in batch.to_pylist()]
    assert [row["seq"] for row in rows] == list(range(1, position.heads["jobs"] + 1)) == [1, 2]


def test_topics_that_are_written_in_turn_are_never_seen_out_of_turn():
    world = World()
    store = world.store
    first, second = store.topic("first"), store.topic("second")
    stop = threading.Event()

    def write() -> None:
        for _ in range(WRITES):
            first.append(b"x")
            second.append(b"x")
            if stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        # The one that is written last is named first: heads that are read one by one would lag.
        text = "SELECT (SELECT count(*) FROM second), (SELECT count(*) FROM first)"
        found = [ask(store, text)[0] for _ in range(15)]
    finally:
        stop.set()
        writer.join()

    assert len(set(found)) > 1, "nobody wrote meanwhile"
    assert {ahead - behind for behind, ahead in found} <= {0, 1}


def test_a_key_that_is_written_while_a_large_map_is_read_shows_what_it_was():
    world = World()
    kv = world.store.kv("m", history=4)
    kv.put_many({f"key {n:05}": b"old" for n in range(5000)})
    text = "SELECT count(*), count(DISTINCT text), min(text) FROM m"

    with SHARED.parser() as connection:
        statement = read(text, connection)
    names = RelationNames(world.store, statement, None, copied=False)
    (relation,) = pin(world.store, [names.find(statement.relations[0])], None)
    batches = relation.batches(["key", "text"], None)
    found = [next(batches)]
    for name in ("key 00000", "key 04000", "key 04001"):
        kv.put(name, b"new")
    kv.delete("key 04001")
    kv.delete("key 04500")
    kv.delete("key 04600")
    kv.put("key 04600", b"again")
    kv.put("key 04601 and a half", b"new")

    found += batches

    rows = [tuple(row.values()) for batch in found for row in batch.to_pylist()]
    assert sorted(rows) == [(f"key {n:05}", "old") for n in range(5000)]
    assert len(sql(world.store, "FROM m")) == 4999
