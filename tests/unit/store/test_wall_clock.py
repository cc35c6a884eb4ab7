"""Promise (T1, T2): whatever the wall clock does, stamps never go back, and ages stay true enough.

Nothing is taken before its time has passed on some clock, nothing stays much longer than twice its
time, and no job runs more or less often. Jumps of a year stand for a bad battery, an operator or a
wrong time server; steps of milliseconds for NTP.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import strandline
from strandline.config.settings import SegmentSettings
from strandline.testing.sim_clock import SimClock
from tests.unit.store.world import World, payloads, read_all

YEAR_S = 365 * 24 * 3600
TTL_S = 3600
DEADLINE_S = 30

JUMPS = [-YEAR_S, YEAR_S, -3600, 3600, -0.05, 0.05, -0.000001, 0.000001]
STEPS = st.one_of(
    st.tuples(st.just("jump"), st.sampled_from(JUMPS)),
    st.tuples(st.just("pass"), st.sampled_from([0.01, 1, 600, 4000])),
    st.tuples(st.sampled_from(["one", "many", "both", "look", "reopen", "kill"]), st.just(0)),
)


class Walk:
    """A store under a clock that jumps, and the latest time that a topic may stamp."""

    def __init__(self) -> None:
        self.world = World()
        self.appended = 0
        self.peak_us = 0
        self.seen: dict[int, tuple[int, float]] = {}
        """By seq: the stamp, and when it was seen first."""

    @property
    def kept(self) -> strandline.Topic:
        return self.world.store.topic("kept")

    @property
    def limited(self) -> strandline.Topic:
        return self.world.store.topic("limited", ttl_ms=TTL_S * 1000)

    def take(self, step: str, seconds: float) -> None:
        clock, topics = self.world.clock, (self.kept, self.limited)
        if step == "jump":
            clock.jump_wall(seconds)
        elif step == "pass":
            clock.advance(seconds)
            self.peak_us += round(seconds * 1_000_000)  # stamps go on from the latest time
        elif step in ("reopen", "kill"):
            getattr(self.world, step)()
        elif step == "look":
            self.limited.enforce_retention()
        else:
            for topic in topics:
                topic.append(b"x") if step != "many" else topic.append_many([b"x", b"y"])
            self.appended += 2 if step == "many" else 1
            if step == "both":
                self.world.store.checkpoint()
        self.peak_us = max(self.peak_us, clock.now_us())
        for record in read_all(self.limited):
            self.seen.setdefault(record.seq, (record.ts, clock.monotonic()))

    def was_due(self, seq: int) -> bool:
        """Whether a record's time was over, truly or on a clock that somebody believed."""
        ts, since_s = self.seen[seq]
        true_age_s = self.world.clock.monotonic() - since_s
        return true_age_s > TTL_S or ts + TTL_S * 1_000_000 < self.peak_us


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=1, max_size=25))
@example([("one", 0), ("jump", TTL_S), ("one", 0), ("jump", -YEAR_S), ("pass", 0.01)])
def test_stamps_and_cursors_never_go_back_and_nothing_is_taken_that_was_not_due(steps):
    walk = Walk()

    for step, seconds in steps:
        walk.take(step, seconds)

    stamps = [record.ts for record in read_all(walk.kept)]
    assert len(stamps) == walk.appended
    assert stamps == sorted(stamps)
    cursors = [walk.kept.cursor_at(ts) for ts in stamps]
    assert cursors == sorted(cursors)
    assert all(walk.kept.read(cursor, 1).records[0].ts in stamps for cursor in cursors)
    left = {record.seq for record in read_all(walk.limited)}
    assert all(seq in left or walk.was_due(seq) for seq in walk.seen)


def test_stamps_do_not_go_back_while_the_clock_is_stepped_under_appends():
    world = World()
    topic = world.store.topic("t")
    done = threading.Event()

    def step_the_clock() -> None:
        for seconds in itertools.cycle([0.002, -0.001, 3600, -3600.5, YEAR_S, -YEAR_S]):
            world.clock.jump_wall(seconds)
            if done.is_set():
                return

    stepper = threading.Thread(target=step_the_clock)
    stepper.start()
    try:
        for _ in range(1000):
            topic.append(b"x")
            topic.append_many([b"y"])
    finally:
        done.set()
        stepper.join()

    stamps = [record.ts for record in read_all(topic)]
    assert len(stamps) == 2000
    assert stamps == sorted(stamps)


def _restart(world: World, how: str) -> None:
    """End the process if asked to; the next one counts its monotonic time from zero."""
    if how != "goes on":
        world.clock = SimClock(wall_us=world.clock.now_us())
        getattr(world, how)()


@pytest.mark.parametrize("how", ["goes on", "reopen", "kill"])
def test_a_record_from_the_future_expires_when_it_is_old_and_not_before(how):
    world = World()
    topic = world.store.topic("t", ttl_ms=TTL_S * 1000)
    world.clock.jump_wall(YEAR_S)
    topic.append(b"from the future")
    world.clock.jump_wall(-YEAR_S)
    _restart(world, how)
    topic = world.store.topic("t")
    topic.append(b"behind it")

    world.clock.advance(TTL_S)
    young = payloads(topic)
    world.clock.advance(TTL_S + 1)

    assert young == [b"from the future", b"behind it"]
    assert payloads(topic) == []


def test_a_step_back_is_made_up_for_and_leaves_no_offset():
    world = World()
    topic = world.store.topic("t")
    topic.append(b"x")
    world.clock.jump_wall(-1)
    stamps = []

    for _ in range(5):
        world.clock.advance(0.5)
        topic.append(b"x")
        stamps.append(read_all(topic)[-1].ts)

    assert stamps == sorted(set(stamps))
    assert stamps[-1] == world.clock.now_us()


@pytest.mark.parametrize("how", ["goes on", "reopen", "kill"])
def test_records_of_today_stay_when_another_topic_got_one_from_the_future(how):
    world = World()
    quiet, other = world.store.topic("quiet", ttl_ms=TTL_S * 1000), world.store.topic("other")
    quiet.append(b"of today")
    world.clock.jump_wall(YEAR_S)
    other.append(b"from the future")
    world.clock.jump_wall(-YEAR_S)

    _restart(world, how)
    world.store.topic("quiet").enforce_retention()

    assert payloads(world.store.topic("quiet")) == [b"of today"]


@pytest.mark.parametrize("how", ["goes on", "reopen", "kill"])
@pytest.mark.parametrize("jump_s", [-YEAR_S, -1])
def test_a_key_is_known_for_its_window_and_not_forever_after_a_step_back(jump_s, how):
    world = World()
    world.store.topic("t", idempotency_window_ms=60_000).append(b"x", idempotency_key="first")
    world.clock.jump_wall(jump_s)
    _restart(world, how)
    topic = world.store.topic("t")
    topic.append(b"y", idempotency_key="second")

    world.clock.advance(59)
    known = [topic.append(b"?", idempotency_key=key).deduped for key in ("first", "second")]
    world.clock.advance(62)
    again = topic.append(b"z", idempotency_key="third").deduped
    remembered = set(topic._state.idempotency or ())

    assert (known, again) == ([True, True], False)
    assert remembered == {b"third"}


@pytest.mark.parametrize("jump_s", [-YEAR_S, YEAR_S])
def test_a_topic_is_sealed_by_age_once_wherever_the_clock_went(jump_s):
    world = World(segment=SegmentSettings(seal_idle_s=600, own_bytes_min=1))
    topic = world.store.topic("t")
    topic.append(b"x")
    world.store.checkpoint()
    world.clock.jump_wall(jump_s)

    world.store.checkpoint()
    sealed = world.files("segments")
    for _ in range(3):
        world.clock.jump_wall(-jump_s)
        world.store.checkpoint()

    assert any("/shared/" not in path for path in sealed)
    assert [path for path in world.files("segments") if "/shared/" not in path] == [
        path for path in sealed if "/shared/" not in path
    ]
    assert payloads(topic) == [b"x"]


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(DEADLINE_S * 1000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never happened")


def test_no_job_spins_or_stalls_when_the_clock_jumps():
    world = World(start_jobs=True)
    store, clock = world.store, world.clock
    topic = store.topic("t", ttl_ms=TTL_S * 1000)

    def runs() -> dict[str, int]:
        return {job.name: job.runs for job in store.health().jobs}

    def at_rest() -> bool:
        kicked = any(job.kick.is_set() for job in store._jobs)
        return clock.waiting == len(store._jobs) and not kicked

    for jump_s in (YEAR_S, -YEAR_S, -YEAR_S, YEAR_S):
        _until(at_rest)
        before = runs()
        clock.jump_wall(jump_s)
        threading.Event().wait(0.02)
        assert runs() == before

        topic.append(b"x")
        lsn = store._shards[0].writer.end_lsn
        clock.advance(world.settings.lake.interval_s)  # the longest of all
        _until(lambda before=before: all(runs()[name] > before[name] for name in before))
        _until(at_rest)
        assert all(runs()[name] - count <= 3 for name, count in before.items())
        assert store._shards[0].committer.synced >= lsn

    assert store.health().status == "green"
    store.close()
