"""Runs declared pipelines when they are due. This process need not have the store open.

    check     which pipelines are due, or have a run whose scheduler has ended
    lease     one run of a declaration at a time, in all processes (``run_state.py``)
    start     recorded before the run does anything, with the due time that it serves
    run       on a thread that waits for the run's process (``runner.py``)
    end       recorded, then added to the history (``history.py``), then the lease is released

After a kill at any point, the next scheduler recovers the state. A run whose process finished
nevertheless is recorded with its result. A run that did not finish is ``lost``, and run again:
pipelines continue where they were. After ``ATTEMPTS_MAX`` consecutive losses it waits for its next
due time, so that a run that crashes the machine is not repeated forever.

Due times that passed while no scheduler was running are served by one run. A failed run waits for
its next due time. A run on request serves no due time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Mapping

import msgspec

from strandline.api.pipelines import Outcome, PipelineRun, ScheduledPipeline
from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.settings import PipelineSettings
from strandline.errors import Conflict, Corrupt, NotFound, StrandlineError, Unavailable
from strandline.pipelines.schedule import cron
from strandline.pipelines.schedule.history import RunHistory
from strandline.pipelines.schedule.registry import PIPELINES, Pipeline, RunResult
from strandline.pipelines.schedule.run_state import PipelineState, PipelineStateStore
from strandline.pipelines.schedule.runner import ProcessRunner, RunEnd, Runner
from strandline.pipelines.schedule.validation import check_declared, due_times_of, when_text
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk, Lock, OsDisk
from strandline.platform.thread_pool import start_thread

ATTEMPTS_MAX = 3
FAILURE_MAX = 2_000
"""Most characters of a failure that are stored."""
_PATIENCE_S = 10.0
_POLL_S = 0.05
_HISTORY_RETRY_S = 30.0  # between attempts to add a run to the history
_FAILURES: tuple[Outcome, ...] = ("failed", "timeout", "lost")


class UnknownPipeline(NotFound):
    """No pipeline of this name is declared."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no pipeline {name!r} is declared: declare it in the store's settings")


class PipelineBusy(Conflict):
    """The pipeline is already running."""

    def __init__(self, name: str) -> None:
        super().__init__(f"pipeline {name!r} is running: wait until it has ended")


class PipelineScheduler:
    """The declared pipelines of a store. ``look`` is for one thread, all else is safe from many."""

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
        history: RunHistory | None = None,
        known: Mapping[str, Pipeline] = PIPELINES,
    ) -> None:
        """Invalid when a declaration is wrong. ``lake`` and ``views`` are urls."""
        check_declared(settings, known)
        self._clock = clock or SystemClock()
        self._declared = {each.name: each for each in settings.declared}
        self._points = {each.name: due_times_of(each) for each in settings.declared}
        self._ledger = PipelineStateStore(store, disk or OsDisk())
        self._runner = runner or ProcessRunner(store, lake, views, self._ledger, self._clock)
        self._history = history or RunHistory(store, lake)
        self._runs_max = settings.runs_at_once
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._running: dict[str, threading.Thread] = {}
        self._ended: list[PipelineRun] = []
        self._history_retry_at_s: dict[str, float] = {}

    def start_due(self, names: Collection[str] | None = None) -> list[PipelineRun]:
        """Start the due pipelines, of these or all, up to the limit; returns the started runs.

        When one cannot be started, the others are started nevertheless; its error is raised when
        no other is left to start.
        """
        started, failures = list[PipelineRun](), list[Exception]()
        for declared in self._declared.values():
            try:
                is_selected = names is None or declared.name in names
                if is_selected and not self._stopping.is_set() and self._may_start(declared):
                    run = self._try_start(declared, on_request=False)
                    started += [] if run is None else [run]
            except (OSError, StrandlineError) as error:  # must not block the others
                failures.append(error)
        if failures and not started:
            raise failures[0]
        return started

    def start(self, name: str) -> PipelineRun:
        """Run a declared pipeline now, due or not."""
        if name not in self._declared:
            raise UnknownPipeline(name)
        deadline = self._clock.monotonic() + _PATIENCE_S
        while True:
            run = self._try_start(self._declared[name], on_request=True)
            if run is not None:
                return run
            state = self._ledger.load(name)
            running = state is None or state.is_unfinished
            if running or self._clock.monotonic() > deadline:
                raise PipelineBusy(name)
            # It has ended, and is being added to the history.
            self._clock.wait(self._stopping, _POLL_S)

    def run_due(self) -> list[PipelineRun]:
        """Run all that is due now, each once, and wait; returns the ended runs."""
        remaining = set(self._declared)
        while started := self.start_due(remaining):
            remaining -= {run.name for run in started}
            self.wait()
        return self.take_ended()

    def take_ended(self) -> list[PipelineRun]:
        """Runs of this scheduler that have ended since the last call."""
        with self._lock:
            ended, self._ended = self._ended, []
        return ended

    def wait(self) -> None:
        """Return when no run of this scheduler is left."""
        for thread in list(self._running.values()):
            thread.join()

    def stop(self) -> None:
        """End all runs of this scheduler and start no more; returns when they have ended."""
        self.request_stop()
        self.wait()

    def request_stop(self) -> None:
        """The same without waiting: safe in a signal handler."""
        self._stopping.set()

    def status(self) -> list[ScheduledPipeline]:
        """Every declared pipeline, by name."""
        return [self._status(self._declared[name]) for name in sorted(self._declared)]

    def _may_start(self, declared: DeclaredPipeline) -> bool:
        """Whether to try to take the lease: reads one small file."""
        name = declared.name
        if name in self._running:
            return False
        state = self._ledger.load(name)
        if state is None or state.is_unfinished:
            return True
        if state.waiting and self._clock.monotonic() >= self._history_retry_at_s.get(name, 0.0):
            return True
        return len(self._running) < self._runs_max and self._due(declared, state) is not None

    def _due(self, declared: DeclaredPipeline, state: PipelineState) -> int | None:
        points, now_us = self._points[declared.name], self._clock.now_us()
        served_us = cron.served_after_jump(points, state.served_us, now_us)
        return cron.due_time(points, served_us, now_us)

    def _try_start(self, declared: DeclaredPipeline, *, on_request: bool) -> PipelineRun | None:
        """Start a run; None when it is not due, or another process holds the lease."""
        name = declared.name
        lease = self._ledger.try_lease(name)
        if lease is None:
            return None
        started = None
        try:
            state = self._recovered_state(declared)
            due_us = None if on_request else self._due(declared, state)
            if on_request or (due_us is not None and len(self._running) < self._runs_max):
                started = self._record_start(declared, state, due_us)
                thread = threading.Thread(
                    target=self._run,
                    args=(declared, started, lease),
                    name=f"strandline-pipeline-{name}",
                    daemon=True,
                )
                self._running[name] = thread
                try:
                    start_thread(thread)
                except Unavailable:
                    del self._running[name]
                    started = None  # recorded as started, later found as lost
                    raise
        finally:
            if started is None:
                lease.release()
        return started.run if started is not None else None

    def _recovered_state(self, declared: DeclaredPipeline) -> PipelineState:
        """The state, after the end of an unwatched run was recorded and the history updated."""
        name = declared.name
        state = self._ledger.load(name)
        if state is None:
            state = self._ledger.new_state(self._clock.now_us())
            self._ledger.save(name, state)
        if state.is_unfinished:
            assert state.run is not None
            done = self._ledger.outcome_of(state.run)
            if done is None:
                lost = RunResult(failure="its process ended without writing a result")
                ended = RunEnd("lost", lost)
            else:
                ended = RunEnd("failed" if done.failure else "done", done)
            state = self._with_end(state, ended, 0.0)  # its duration is not known
            self._ledger.save(name, state)
        return self._update_history(name, state)

    def _record_start(
        self, declared: DeclaredPipeline, state: PipelineState, due_us: int | None
    ) -> PipelineState:
        """Record the start of a run; returns the new state."""
        now_us = self._clock.now_us()
        points = self._points[declared.name]
        served_us = cron.served_after_jump(points, state.served_us, now_us)
        missed = 0 if due_us is None else cron.missed_count(points, served_us, due_us)
        run = PipelineRun(
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

    def _run(self, declared: DeclaredPipeline, state: PipelineState, lease: Lock) -> None:
        name, started_s = declared.name, self._clock.monotonic()
        assert state.run is not None
        try:
            ended = self._runner.run(declared, state.run, lease, self._stopping)
            state = self._with_end(state, ended, self._clock.monotonic() - started_s)
            assert state.run is not None
            with self._lock:
                self._ended.append(state.run)
            with contextlib.suppress(OSError):  # the next check finds a run without an end
                self._ledger.save(name, state)
                self._update_history(name, state)
        finally:
            self._running.pop(name, None)
            lease.release()

    def _with_end(self, state: PipelineState, ended: RunEnd, seconds: float) -> PipelineState:
        """The state after a run has ended."""
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
        is_repeated = outcome == "stopped" or (outcome == "lost" and attempts < ATTEMPTS_MAX)
        served_us = state.served_us
        if is_repeated and run.due_us is not None:
            served_us = run.due_us - 1
        return msgspec.structs.replace(
            state,
            run=run,
            attempts=attempts if is_repeated else 0,
            served_us=served_us,
            last_success_us=now_us if outcome == "done" else state.last_success_us,
            failures=state.failures + (outcome in _FAILURES),
            waiting=(*state.waiting, run),
        )

    def _update_history(self, name: str, state: PipelineState) -> PipelineState:
        """Add ended runs to the history, as far as possible now; returns the new state."""
        while state.waiting:
            try:
                self._history.add(f"runs:{state.id}", state.waiting[0])
            except (OSError, StrandlineError):  # it stays in the state, and is added later
                self._history_retry_at_s[name] = self._clock.monotonic() + _HISTORY_RETRY_S
                return state
            state = msgspec.structs.replace(state, waiting=state.waiting[1:])
            self._ledger.save(name, state)
        return state

    def _status(self, declared: DeclaredPipeline) -> ScheduledPipeline:
        state, problem = None, ""
        try:
            state = self._ledger.load(declared.name)
        except (OSError, Corrupt) as error:
            problem = str(error)
        now_us = self._clock.now_us()
        points = self._points[declared.name]
        due_us = None if state is None else self._due(declared, state)
        return ScheduledPipeline(
            name=declared.name,
            pipeline=declared.pipeline,
            engine=declared.engine,
            when=when_text(declared),
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
