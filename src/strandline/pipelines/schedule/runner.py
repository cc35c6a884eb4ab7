"""One run of a declared pipeline: in a process of its own, or on the calling thread.

    embedded   this Python in another process
    spark      ``spark-submit`` of pyspark, to a master

A process of its own can be ended when it takes too long, does not slow down the scheduler's
process, and cannot crash it. Its command line has the store, the pipeline and the arguments, and
every user of the machine may read it: so urls and all credentials are passed in the environment. It
writes its result to a file (``worker_main.py``).
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any, NamedTuple, Protocol

import msgspec

from strandline.api.pipelines import Outcome, PipelineRun
from strandline.config.pipeline_config import DeclaredPipeline
from strandline.errors import NotInstalled, StrandlineError
from strandline.pipelines.engine import Embedded
from strandline.pipelines.schedule.cron import duration_s
from strandline.pipelines.schedule.registry import (
    PIPELINES,
    Pipeline,
    RunContext,
    RunResult,
    arguments_of,
    pipeline_of,
)
from strandline.pipelines.schedule.run_state import PipelineStateStore
from strandline.platform.clock import Clock
from strandline.platform.disk import Lock
from strandline.platform.subprocesses import ChildProcess

LAKE_VARIABLE = "STRANDLINE_LAKE_URL"
VIEWS_VARIABLE = "STRANDLINE_VIEWS_URL"
_POLL_S = 0.05
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a run on the command line of its process."""

    store: str
    pipeline: str
    arguments: dict[str, Any]
    due: str
    number: int
    outcome: str
    """The file that it writes its result to."""
    master: str


class RunEnd(NamedTuple):
    """How a run ended."""

    outcome: Outcome
    done: RunResult


class Runner(Protocol):
    """Runs pipelines. Safe from many threads."""

    def run(
        self, declared: DeclaredPipeline, run: PipelineRun, lease: Lock, stopping: threading.Event
    ) -> RunEnd:
        """Run it; returns when it has ended, in time or not. Failures are returned, not raised."""
        ...


class ProcessRunner:
    """Runs each pipeline in a process of its own."""

    def __init__(
        self, store: str, lake: str, views: str, ledger: PipelineStateStore, clock: Clock
    ) -> None:
        self._store = os.path.abspath(store)
        self._urls = {LAKE_VARIABLE: lake, VIEWS_VARIABLE: views}
        self._ledger = ledger
        self._clock = clock

    def run(
        self, declared: DeclaredPipeline, run: PipelineRun, lease: Lock, stopping: threading.Event
    ) -> RunEnd:
        order = RunOrder(
            store=self._store,
            pipeline=declared.pipeline,
            arguments=declared.arguments,
            due=due_text(run),
            number=run.number,
            outcome=self._ledger.outcome_path(run.name),
            master=declared.master,
        )
        try:
            child = ChildProcess(
                command_of(declared.engine, order),
                environment=self._urls | environment_of(declared.engine),
                log=self._ledger.log_path(run.name),
                lock=lease,
            )
        except (OSError, StrandlineError) as error:
            return RunEnd("failed", RunResult(failure=f"the run could not be started: {error}"))
        return self._watch(child, declared, run, stopping)

    def _watch(
        self,
        child: ChildProcess,
        declared: DeclaredPipeline,
        run: PipelineRun,
        stopping: threading.Event,
    ) -> RunEnd:
        deadline = self._clock.monotonic() + duration_s(declared.timeout, "timeout")
        while child.exit_code() is None:
            if self._clock.wait(stopping, _POLL_S):
                child.end()
                return RunEnd("stopped", RunResult(failure="the scheduler was stopped"))
            if self._clock.monotonic() > deadline:
                child.end()
                return RunEnd(
                    "timeout", RunResult(failure=f"it took longer than {declared.timeout}")
                )
        done = self._ledger.outcome_of(run)
        if done is None:
            output = child.output_tail() or "it printed nothing"
            done = RunResult(failure=f"the process ended with code {child.exit_code()}: {output}")
        return RunEnd("failed" if done.failure else "done", done)


class InlineRunner:
    """Runs pipelines on the calling thread, without a process of their own.

    A thread cannot be ended from outside: a run checks for stop and timeout when it reports
    progress.
    """

    def __init__(
        self, store: str, lake: str, clock: Clock, known: Mapping[str, Pipeline] = PIPELINES
    ) -> None:
        self._store = os.path.abspath(store)
        self._lake = lake
        self._clock = clock
        self._known = known

    def run(
        self, declared: DeclaredPipeline, run: PipelineRun, lease: Lock, stopping: threading.Event
    ) -> RunEnd:
        del lease
        deadline = self._clock.monotonic() + duration_s(declared.timeout, "timeout")

        def progress(*_: object) -> None:
            if stopping.is_set():
                raise _Interrupted("stopped", "the scheduler was stopped")
            if self._clock.monotonic() > deadline:
                raise _Interrupted("timeout", f"it took longer than {declared.timeout}")

        pipeline = pipeline_of(declared.pipeline, self._known)
        work = RunContext(self._store, self._lake, "", due_text(run), Embedded(), progress)
        try:
            done = pipeline.run(arguments_of(pipeline, declared.arguments), work)
        except _Interrupted as interrupted:
            return RunEnd(interrupted.outcome, RunResult(failure=str(interrupted)))
        except Exception as error:  # noqa: BLE001 - reported as the run's failure
            return RunEnd("failed", RunResult(failure=failure_text(error)))
        return RunEnd("failed" if done.failure else "done", done)


class _Interrupted(Exception):
    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


def due_text(run: PipelineRun) -> str:
    """The due time of a run, or else its start, in a form for paths: 20261117T030000Z."""
    moment_us = run.begun_us if run.due_us is None else run.due_us
    return f"{_EPOCH + timedelta(microseconds=moment_us):%Y%m%dT%H%M%SZ}"


def failure_text(error: BaseException) -> str:
    """The text of an error in the history; errors that are not Strandline's with their class."""
    return str(error) if isinstance(error, StrandlineError) else f"{type(error).__name__}: {error}"


def command_of(engine: str, order: RunOrder) -> list[str]:
    """The command line of a run's process."""
    encoded = msgspec.json.encode(order).decode()
    if engine == "embedded":
        return [sys.executable, "-m", "strandline.pipelines.schedule.worker_main", encoded]
    folder = resources.files("strandline") / "spark"  # not imported: it brings pyspark
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
    }
    options = [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]
    submit = [f"{spark_home()}/bin/spark-submit", "--master", order.master, *options]
    return [*submit, "--name", f"strandline {order.pipeline}", f"{folder}/submit_main.py", encoded]


def environment_of(engine: str) -> dict[str, str]:
    """Variables that the scripts of pyspark need before any Python has started."""
    if engine == "embedded":
        return {}
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {"SPARK_HOME": spark_home(), **python}


def spark_home() -> str:
    """The folder of pyspark's scripts."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise NotInstalled("pyspark is not installed: pip install 'strandline[spark]'")
    return spec.submodule_search_locations[0]
