"""Runs declared pipelines when they are due. The store need not be open here.

    look      whose point in time has come, and who has a run that nobody watches any more?
    lease     one run of a declaration at a time, in all processes (``run_state.py``)
    begin     noted before anything is done, with the point that it serves
    run       on a thread that waits for the run's process (``runner.py``)
    end       noted, then put into the history (``history.py``), then the lease goes

Killed at any point, the next scheduler finds out. A run whose process came to its end all the same
is noted as it ended. One that is gone is ``lost``, and run again: pipelines go on where they were.
After ``ATTEMPTS_MAX`` losses in a row it waits for its next point, so that what kills a machine
does not do so for ever.

A point that came while nobody was there is made up for, once for all that were missed. A failed run
waits for its next point. A run that somebody asks for serves no point.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Mapping

import msgspec

from strandline.api.pipelines import Outcome, Run, Scheduled
from strandline.config.pipeline_config import Declared
from strandline.config.settings import PipelineSettings
from strandline.errors import Conflict, Corrupt, NotFound, StrandlineError, Unavailable
from strandline.pipelines.schedule import cron
from strandline.pipelines.schedule.history import History
from strandline.pipelines.schedule.registry import PIPELINES, Done, Pipeline
from strandline.pipelines.schedule.run_state import Ledger, State
from strandline.pipelines.schedule.runner import Ended, Processes, Runner
from strandline.pipelines.schedule.validation import check_declared, points_of, when_told
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk, Lock, OsDisk
from strandline.platform.thread_pool import start

ATTEMPTS_MAX = 3
FAILURE_MAX = 2_000
"""Characters of a failure that are kept."""
_PATIENCE_S = 10.0
_LOOK_S = 0.05
_AGAIN_S = 30.0  # between attempts to put a run into the history
_FAILURES: tuple[Outcome, ...] = ("failed", "timeout", "lost")


class UnknownPipeline(NotFound):
    """No pipeline of this name is declared."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no pipeline {name!r} is declared: declare it in the store's settings")


class PipelineBusy(Conflict):
    """The pipeline is running already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"pipeline {name!r} is running: wait until it has ended")


class Schedule:
    """The declared pipelines of a store. ``look`` is for one thread, all else safe from many."""

    def __init__(
        self,
        store: str,
        settings: PipelineSettings,
        *,
        lake: str = "",
        views: str = "",
        clock: Clock | None = None,
        disk: Disk | None = None,
        runner: Runner | None = None,
        history: History | None = None,
        known: Mapping[str, Pipeline] = PIPELINES,
    ) -> None:
        """Invalid when a declaration is not good. ``lake`` and ``views`` are urls."""
        check_declared(settings, known)
        self._clock = clock or SystemClock()
        self._declared = {each.name: each for each in settings.declared}
        self._points = {each.name: points_of(each) for each in settings.declared}
        self._ledger = Ledger(store, disk or OsDisk())
        self._runner = runner or Processes(store, lake, views, self._ledger, self._clock)
        self._history = history or History(store, lake)
        self._places = settings.runs_at_once
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._running: dict[str, threading.Thread] = {}
        self._ended: list[Run] = []
        self._again_s: dict[str, float] = {}

    def look(self, names: Collection[str] | None = None) -> list[Run]:
        """Begin what is due, of these or all, as far as there is room; what has begun.

        When something stands in the way of one, the others begin all the same; when there is
        nothing to begin any more, it is raised.
        """
        begun, failures = list[Run](), list[Exception]()
        for declared in self._declared.values():
            try:
                meant = names is None or declared.name in names
                if meant and not self._stopping.is_set() and self._needs_a_look(declared):
                    run = self._begin(declared, asked=False)
                    begun += [] if run is None else [run]
            except (OSError, StrandlineError) as error:  # the others must not wait for this one
                failures.append(error)
        if failures and not begun:
            raise failures[0]
        return begun

    def start(self, name: str) -> Run:
        """Run a declared pipeline now, due or not."""
        if name not in self._declared:
            raise UnknownPipeline(name)
        deadline = self._clock.monotonic() + _PATIENCE_S
        while True:
            run = self._begin(self._declared[name], asked=True)
            if run is not None:
                return run
            state = self._ledger.load(name)
            running = state is None or state.is_unfinished
            if running or self._clock.monotonic() > deadline:
                raise PipelineBusy(name)
            # It has ended, and is being put into the history.
            self._clock.wait(self._stopping, _LOOK_S)

    def once(self) -> list[Run]:
        """Run all that is due now, each once, and wait; what was run."""
        left = set(self._declared)
        while begun := self.look(left):
            left -= {run.name for run in begun}
            self.wait()
        return self.ended()

    def ended(self) -> list[Run]:
        """Runs that were begun here and have ended since the last call."""
        with self._guard:
            ended, self._ended = self._ended, []
        return ended

    def wait(self) -> None:
        """Return when nothing that was begun here runs any more."""
        for thread in list(self._running.values()):
            thread.join()

    def stop(self) -> None:
        """End what runs here, begin nothing any more; returns when it is over."""
        self.stop_soon()
        self.wait()

    def stop_soon(self) -> None:
        """The same without waiting, as a signal may do it."""
        self._stopping.set()

    def status(self) -> list[Scheduled]:
        """Every declared pipeline, by name."""
        return [self._status(self._declared[name]) for name in sorted(self._declared)]

    def _needs_a_look(self, declared: Declared) -> bool:
        """Whether somebody should take the lease: reads one small file."""
        name = declared.name
        if name in self._running:
            return False
        state = self._ledger.load(name)
        if state is None or state.is_unfinished:
            return True
        if state.waiting and self._clock.monotonic() >= self._again_s.get(name, 0.0):
            return True
        return len(self._running) < self._places and self._due(declared, state) is not None

    def _due(self, declared: Declared, state: State) -> int | None:
        points, now_us = self._points[declared.name], self._clock.now_us()
        served_us = cron.served_after_jump(points, state.served_us, now_us)
        return cron.due_point(points, served_us, now_us)

    def _begin(self, declared: Declared, *, asked: bool) -> Run | None:
        """Begin a run; None when it is not due, or somebody has the lease."""
        name = declared.name
        lease = self._ledger.try_lease(name)
        if lease is None:
            return None
        begun = None
        try:
            state = self._settled(declared)
            due_us = None if asked else self._due(declared, state)
            if asked or (due_us is not None and len(self._running) < self._places):
                begun = self._noted(declared, state, due_us)
                thread = threading.Thread(
                    target=self._run,
                    args=(declared, begun, lease),
                    name=f"strandline-pipeline-{name}",
                    daemon=True,
                )
                self._running[name] = thread
                try:
                    start(thread)
                except Unavailable:
                    del self._running[name]
                    begun = None  # noted, and ended as lost when it is due again
                    raise
        finally:
            if begun is None:
                lease.release()
        return begun.run if begun is not None else None

    def _settled(self, declared: Declared) -> State:
        """What is known, with an end to a run that nobody watches, and the history brought up."""
        name = declared.name
        state = self._ledger.load(name)
        if state is None:
            state = self._ledger.first_seen(self._clock.now_us())
            self._ledger.save(name, state)
        if state.is_unfinished:
            assert state.run is not None
            done = self._ledger.outcome_of(state.run)
            if done is None:
                lost = Done(failure="the process that ran it ended without a word")
                ended = Ended("lost", lost)
            else:
                ended = Ended("failed" if done.failure else "done", done)
            state = self._with_end(state, ended, 0.0)  # nobody was there to measure
            self._ledger.save(name, state)
        return self._told(name, state)

    def _noted(self, declared: Declared, state: State, due_us: int | None) -> State:
        """What is known once a run has begun."""
        now_us = self._clock.now_us()
        points = self._points[declared.name]
        served_us = cron.served_after_jump(points, state.served_us, now_us)
        missed = 0 if due_us is None else cron.missed_points(points, served_us, due_us)
        run = Run(
            name=declared.name,
            pipeline=declared.pipeline,
            number=1 if state.run is None else state.run.number + 1,
            engine=declared.engine,
            begun_us=now_us,
            due_us=due_us,
            missed=missed,
        )
        served_us = served_us if due_us is None else due_us
        state = msgspec.structs.replace(state, served_us=served_us, run=run)
        self._ledger.save(declared.name, state)
        return state

    def _run(self, declared: Declared, state: State, lease: Lock) -> None:
        name, begun_s = declared.name, self._clock.monotonic()
        assert state.run is not None
        try:
            ended = self._runner.run(declared, state.run, lease, self._stopping)
            state = self._with_end(state, ended, self._clock.monotonic() - begun_s)
            assert state.run is not None
            with self._guard:
                self._ended.append(state.run)
            with contextlib.suppress(OSError):  # the next look finds a run without an end
                self._ledger.save(name, state)
                self._told(name, state)
        finally:
            self._running.pop(name, None)
            lease.release()

    def _with_end(self, state: State, ended: Ended, seconds: float) -> State:
        """What is known once a run has ended."""
        assert state.run is not None
        now_us = self._clock.now_us()
        outcome, done = ended
        run = msgspec.structs.replace(
            state.run,
            ended_us=now_us,
            seconds=round(seconds, 3),
            rows=done.rows,
            outcome=outcome,
            failure=done.failure[:FAILURE_MAX],
        )
        attempts = state.attempts + 1 if outcome == "lost" else 0
        again = outcome == "stopped" or (outcome == "lost" and attempts < ATTEMPTS_MAX)
        served_us = state.served_us
        if again and run.due_us is not None:
            served_us = run.due_us - 1
        return msgspec.structs.replace(
            state,
            run=run,
            attempts=attempts if again else 0,
            served_us=served_us,
            last_success_us=now_us if outcome == "done" else state.last_success_us,
            failures=state.failures + (outcome in _FAILURES),
            waiting=(*state.waiting, run),
        )

    def _told(self, name: str, state: State) -> State:
        """What is known, with the history brought up to date if that is possible now."""
        while state.waiting:
            try:
                self._history.add(f"runs:{state.id}", state.waiting[0])
            except (OSError, StrandlineError):  # it is kept, and added again
                self._again_s[name] = self._clock.monotonic() + _AGAIN_S
                return state
            state = msgspec.structs.replace(state, waiting=state.waiting[1:])
            self._ledger.save(name, state)
        return state

    def _status(self, declared: Declared) -> Scheduled:
        state, problem = None, ""
        try:
            state = self._ledger.load(declared.name)
        except (OSError, Corrupt) as error:
            problem = str(error)
        now_us = self._clock.now_us()
        points = self._points[declared.name]
        due_us = None if state is None else self._due(declared, state)
        return Scheduled(
            name=declared.name,
            pipeline=declared.pipeline,
            engine=declared.engine,
            when=when_told(declared),
            next_us=points.next(now_us) if due_us is None else due_us,
            running=state is not None and state.is_unfinished and self._is_leased(declared.name),
            last=None if state is None else state.run,
            last_success_us=None if state is None else state.last_success_us,
            runs=0 if state is None or state.run is None else state.run.number,
            failures=0 if state is None else state.failures,
            problem=problem,
        )

    def _is_leased(self, name: str) -> bool:
        if name in self._running:
            return True
        lease = self._ledger.try_lease(name)
        if lease is not None:
            lease.release()
        return lease is None
