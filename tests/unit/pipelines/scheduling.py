"""A schedule on simulated time, with pipelines that do what a test wants."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

import strandline
from strandline.api.pipelines import PipelineRun
from strandline.assembly import RUNS_TOPIC
from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.settings import PipelineSettings
from strandline.pipelines.schedule.history import runs_in
from strandline.pipelines.schedule.registry import Arguments, Pipeline, RunContext, RunResult
from strandline.pipelines.schedule.run_state import PipelineStateStore
from strandline.pipelines.schedule.runner import InlineRunner
from strandline.pipelines.schedule.scheduler import PipelineScheduler
from strandline.platform.disk import OsDisk
from strandline.testing.sim_clock import SimClock

HOUR = 3600.0
MIDNIGHT_US = 1_700_006_400_000_000
"""A full hour, and a midnight UTC."""


class Said(Arguments, frozen=True, kw_only=True):
    """What a test pipeline is told."""

    text: str = ""


class Pipelines:
    """Pipelines of a test: ``say`` notes when it ran, ``fail`` fails, ``hold`` waits."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.said: list[tuple[str, str]] = []
        self.held = threading.Semaphore(0)
        self.go = threading.Event()
        self.known = {
            "say": Pipeline("says", Said, self._say),
            "fail": Pipeline("fails", Said, self._fail),
            "hold": Pipeline("holds", Said, self._hold),
        }

    def _say(self, given: Said, work: RunContext) -> RunResult:
        self.said.append((given.text, work.due))
        return RunResult(rows=3)

    def _fail(self, given: Said, work: RunContext) -> RunResult:
        raise ValueError("nothing works")

    def _hold(self, given: Said, work: RunContext) -> RunResult:
        self.held.release()
        while not self.go.wait(0.01):
            work.progress("hold", 0, 1)
        return self._say(given, work)


class World:
    """A store's folder, a clock that stands still, and schedules over them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.clock = SimClock(wall_us=MIDNIGHT_US)
        self.pipelines = Pipelines(self.clock)
        self.ledger = PipelineStateStore(path, OsDisk())
        with strandline.open(path):
            pass

    def schedule(self, *declared: DeclaredPipeline, **settings: Any) -> PipelineScheduler:
        return PipelineScheduler(
            self.path,
            PipelineSettings(declared=declared, **settings),
            clock=self.clock,
            runner=InlineRunner(self.path, "", self.clock, self.pipelines.known),
            known=self.pipelines.known,
        )

    def history(self, name: str | None = None) -> list[PipelineRun]:
        """What the topic has, the oldest first."""
        with strandline.open(self.path, readonly=True) as store:
            if RUNS_TOPIC not in store.topics(RUNS_TOPIC):
                return []
            return [line.run for line in runs_in(store.topic(RUNS_TOPIC), name=name)][::-1]

    def begin_and_die(self, declared: DeclaredPipeline) -> None:
        """Leave the files as a scheduler does that is killed in the middle of a run."""
        state = self.ledger.load(declared.name)
        assert state is not None
        schedule = self.schedule(declared)
        due_us = schedule._due(declared, state)
        assert due_us is not None
        schedule._record_start(declared, msgspec.structs.replace(state), due_us)
