"""Promise: a declared pipeline runs when it is due, once, one run at a time, whoever dies."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline
from strandline.assembly import RUNS_KEPT, RUNS_TOPIC
from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.settings import PipelineSettings
from strandline.errors import Corrupt, Invalid
from strandline.pipelines.schedule.history import runs_in
from strandline.pipelines.schedule.registry import RunResult
from strandline.pipelines.schedule.run_state import write_outcome
from strandline.pipelines.schedule.scheduler import (
    ATTEMPTS_MAX,
    PipelineBusy,
    PipelineScheduler,
    UnknownPipeline,
)
from strandline.platform.disk import OsDisk
from tests.unit.pipelines.scheduling import HOUR, MIDNIGHT_US, World

HOURLY = DeclaredPipeline(name="hourly", pipeline="say", arguments={"text": "tea"}, every="1h")
HOUR_US = int(HOUR * 1_000_000)


@pytest.fixture
def world(data_dir: str) -> World:
    return World(data_dir)


def test_nothing_is_due_when_it_is_seen_for_the_first_time(world: World):
    schedule = world.schedule(HOURLY)

    assert schedule.run_due() == []
    assert world.pipelines.said == []


def test_it_runs_when_its_time_has_come_and_not_again_before_the_next(world: World):
    schedule = world.schedule(HOURLY)
    schedule.run_due()

    world.clock.advance(HOUR - 1)
    early = schedule.run_due()
    world.clock.advance(1)
    (run,) = schedule.run_due()
    again = schedule.run_due()

    assert (early, again) == ([], [])
    assert (run.outcome, run.rows, run.due_us) == ("done", 3, MIDNIGHT_US + HOUR_US)
    assert world.pipelines.said == [("tea", "20231115T010000Z")]


def test_at_runs_at_its_time_of_the_day(world: World):
    schedule = world.schedule(DeclaredPipeline(name="nightly", pipeline="say", at="30 3 * * *"))
    schedule.run_due()

    found = []
    for _ in range(48 * 2):
        world.clock.advance(HOUR / 2)
        found += schedule.run_due()

    assert [run.due_us for run in found] == [
        MIDNIGHT_US + day * 24 * HOUR_US + HOUR_US * 7 // 2 for day in range(2)
    ]


def test_missed_runs_are_run_once(world: World):
    world.schedule(HOURLY).run_due()
    world.clock.advance(5 * HOUR + 60)

    (run,) = world.schedule(HOURLY).run_due()

    assert (run.due_us, run.missed) == (MIDNIGHT_US + 5 * HOUR_US, 4)
    assert len(world.pipelines.said) == 1


def test_a_restart_runs_nothing_that_was_run(world: World):
    world.schedule(HOURLY).run_due()
    world.clock.advance(HOUR)
    world.schedule(HOURLY).run_due()

    assert world.schedule(HOURLY).run_due() == []
    assert len(world.pipelines.said) == 1


def test_a_failed_run_waits_for_its_next_time(world: World):
    schedule = world.schedule(DeclaredPipeline(name="bad", pipeline="fail", every="1h"))
    schedule.run_due()
    world.clock.advance(HOUR)

    (run,) = schedule.run_due()

    assert (run.outcome, run.failure) == ("failed", "ValueError: nothing works")
    assert schedule.run_due() == []
    world.clock.advance(HOUR)
    assert [each.number for each in schedule.run_due()] == [2]
    assert schedule.status()[0].failures == 2


def test_no_two_runs_of_one_declaration_overlap_also_of_two_schedulers(world: World):
    held = DeclaredPipeline(name="held", pipeline="hold", every="1h")
    one, other = world.schedule(held), world.schedule(held)
    one.run_due()
    world.clock.advance(HOUR)

    assert len(one.start_due()) == 1
    assert world.pipelines.held.acquire(timeout=30)
    world.clock.advance(HOUR)

    assert one.start_due() == other.start_due() == []
    with pytest.raises(PipelineBusy):
        other.start("held")
    assert other.status()[0].running
    world.pipelines.go.set()
    one.wait()
    assert not other.status()[0].running
    assert [run.due_us for run in other.run_due()] == [MIDNIGHT_US + 2 * HOUR_US]


def test_as_many_runs_as_are_allowed_go_at_once_and_the_others_wait(world: World):
    held = [DeclaredPipeline(name=f"held-{n}", pipeline="hold", every="1h") for n in range(3)]
    schedule = world.schedule(*held, runs_at_once=2)
    schedule.run_due()
    world.clock.advance(HOUR)

    assert [run.name for run in schedule.start_due()] == ["held-0", "held-1"]
    assert schedule.start_due() == []
    world.pipelines.go.set()
    schedule.wait()
    assert [run.name for run in schedule.start_due()] == ["held-2"]
    schedule.wait()


def test_a_run_that_takes_too_long_is_ended(world: World):
    held = DeclaredPipeline(name="held", pipeline="hold", every="1h", timeout="10m")
    schedule = world.schedule(held)
    schedule.run_due()
    world.clock.advance(HOUR)
    schedule.start_due()
    assert world.pipelines.held.acquire(timeout=30)

    world.clock.advance(601)
    schedule.wait()

    (run,) = schedule.run_due()
    assert (run.outcome, run.failure) == ("timeout", "it took longer than 10m")
    assert run.seconds == 601
    assert schedule.run_due() == []


def test_a_run_that_is_stopped_is_run_again_by_the_next_scheduler(world: World):
    held = DeclaredPipeline(name="held", pipeline="hold", every="1h")
    schedule = world.schedule(held)
    schedule.run_due()
    world.clock.advance(HOUR)
    schedule.start_due()
    assert world.pipelines.held.acquire(timeout=30)

    schedule.stop()
    world.pipelines.go.set()
    (again,) = world.schedule(held).run_due()

    assert (again.outcome, again.due_us) == ("done", MIDNIGHT_US + HOUR_US)
    assert [run.outcome for run in world.history()] == ["stopped", "done"]


def test_a_run_whose_scheduler_died_is_told_as_lost_and_run_again(world: World):
    world.schedule(HOURLY).run_due()
    world.clock.advance(HOUR)
    world.begin_and_die(HOURLY)

    (run,) = world.schedule(HOURLY).run_due()

    assert (run.number, run.outcome, run.due_us) == (2, "done", MIDNIGHT_US + HOUR_US)
    assert [each.outcome for each in world.history()] == ["lost", "done"]


def test_a_run_that_ended_although_its_scheduler_died_is_not_run_again(world: World):
    world.schedule(HOURLY).run_due()
    world.clock.advance(HOUR)
    world.begin_and_die(HOURLY)
    write_outcome(OsDisk(), world.ledger.outcome_path("hourly"), 1, RunResult(rows=7))

    assert world.schedule(HOURLY).run_due() == []
    assert [(run.outcome, run.rows) for run in world.history()] == [("done", 7)]
    assert world.pipelines.said == []


def test_what_kills_its_scheduler_again_and_again_waits_for_its_next_time(world: World):
    world.schedule(HOURLY).run_due()
    world.clock.advance(HOUR)
    for _ in range(ATTEMPTS_MAX - 1):
        world.begin_and_die(HOURLY)
        state = world.schedule(HOURLY)._recovered_state(HOURLY)
        assert state.run.outcome == "lost"
    world.begin_and_die(HOURLY)

    assert world.schedule(HOURLY).run_due() == []
    world.clock.advance(HOUR)
    assert len(world.schedule(HOURLY).run_due()) == 1


def test_a_run_that_is_asked_for_serves_no_point(world: World):
    schedule = world.schedule(HOURLY)
    schedule.run_due()

    asked = schedule.start("hourly")
    schedule.wait()
    world.clock.advance(HOUR)
    _, due = schedule.run_due()

    assert (asked.due_us, asked.outcome) == (None, None)
    assert due.due_us == MIDNIGHT_US + HOUR_US
    with pytest.raises(UnknownPipeline, match="'weekly' is declared"):
        schedule.start("weekly")


def test_a_clock_that_is_set_back_runs_nothing_twice(world: World):
    schedule = world.schedule(HOURLY)
    schedule.run_due()
    world.clock.advance(HOUR)
    schedule.run_due()

    world.clock.jump_wall(-10)
    before = schedule.run_due()
    world.clock.advance(10)

    assert before == schedule.run_due() == []
    assert len(world.pipelines.said) == 1


def test_the_status_tells_the_last_run_and_the_next(world: World):
    schedule = world.schedule(HOURLY)
    (fresh,) = schedule.status()
    schedule.run_due()
    world.clock.advance(HOUR)
    (waiting,) = schedule.status()
    schedule.run_due()
    (ran,) = schedule.status()

    assert (fresh.when, fresh.last, fresh.runs) == ("every 1h", None, 0)
    assert fresh.next_us == waiting.next_us == MIDNIGHT_US + HOUR_US
    assert ran.next_us == MIDNIGHT_US + 2 * HOUR_US
    assert (ran.last.outcome, ran.runs, ran.failures) == ("done", 1, 0)
    assert ran.last_success_us == world.clock.now_us()


def test_the_history_has_every_run_once_whoever_has_the_store_open(world: World):
    schedule = world.schedule(HOURLY)
    schedule.run_due()
    world.clock.advance(HOUR)
    schedule.run_due()
    with strandline.open(world.path):  # its inbox takes what is delivered
        world.clock.advance(HOUR)
        schedule.run_due()

    assert [run.number for run in world.history("hourly")] == [1, 2]
    assert world.history("other") == []
    with strandline.open(world.path, readonly=True) as store:
        config = store.topic(RUNS_TOPIC).config
        assert (config.cap_records, config.durability) == (RUNS_KEPT, "fsync")


def test_a_run_that_could_not_be_put_into_the_history_is_put_there_later(world: World):
    schedule = world.schedule(HOURLY)
    schedule.run_due()
    incoming = Path(world.path, "incoming")
    moved = incoming.rename(f"{world.path}-moved") if incoming.exists() else None
    incoming.write_text("in the way")
    world.clock.advance(HOUR)
    schedule.run_due()
    incoming.unlink()
    if moved is not None:
        moved.rename(incoming)

    before = world.history()
    world.clock.advance(31)
    schedule.run_due()

    assert before == []
    assert [run.number for run in world.history()] == [1]


def test_the_history_is_told_backwards_in_pages(world: World):
    schedule = world.schedule(HOURLY)
    schedule.run_due()
    for _ in range(5):
        world.clock.advance(HOUR)
        schedule.run_due()

    with strandline.open(world.path, readonly=True) as store:
        topic = store.topic(RUNS_TOPIC)
        first = runs_in(topic, limit=2)
        rest = runs_in(topic, before=first[-1].seq)

    assert [line.run.number for line in first + rest] == [5, 4, 3, 2, 1]


def test_a_state_that_cannot_be_read_is_told_and_not_guessed(world: World):
    other = DeclaredPipeline(name="other", pipeline="say", every="1h")
    schedule = world.schedule(HOURLY, other)
    schedule.run_due()
    Path(world.path, "schedule", "hourly.json").write_bytes(b"{")
    world.clock.advance(HOUR)

    with pytest.raises(Corrupt, match="'hourly' cannot be read"):
        schedule.run_due()

    assert [run.name for run in world.history()] == ["other"]
    assert "delete the file" in schedule.status()[0].problem


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": "Über"}, "name 'Über' of declared pipeline 1 is not valid"),
        ({"name": "../x"}, "is not valid"),
        (
            {"pipeline": "compress"},
            "'nightly': there is no pipeline 'compress': use one of compact",
        ),
        ({"arguments": {"topic": "x"}}, "'nightly': there is no argument 'topic': use one of top"),
        ({"arguments": {"topics": "x"}}, r"arguments: Expected `array`, got `str` - at `\$.topics"),
        ({"every": ""}, "either every or at"),
        ({"at": "0 0 * * *"}, "either every or at"),
        ({"every": "soon"}, "every is a duration"),
        ({"every": "", "at": "0 0"}, "does not have five fields: minute 0-59"),
        ({"timezone": "Europe/Zurich"}, "timezone is only for at"),
        ({"timeout": "0s"}, "timeout is a duration"),
        ({"master": "local; rm -rf"}, "master is"),
    ],
)
def test_a_declaration_that_is_not_good_is_refused_with_its_name(data_dir, wrong, told):
    good = {"name": "nightly", "pipeline": "compact", "every": "1d"}
    declared = DeclaredPipeline(**{**good, **wrong})

    with pytest.raises(Invalid, match=told):
        PipelineScheduler(data_dir, PipelineSettings(declared=(declared,)))


def test_two_declarations_of_one_name_are_refused(data_dir):
    declared = DeclaredPipeline(name="twice", pipeline="scrub", every="1d")

    with pytest.raises(Invalid, match="two declared pipelines have the name 'twice'"):
        PipelineScheduler(data_dir, PipelineSettings(declared=(declared, declared)))
