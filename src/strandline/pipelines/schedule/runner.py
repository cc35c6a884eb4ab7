"""One run of a declared pipeline: in a process of its own, or here.

    embedded   this Python in another process
    spark      ``spark-submit`` of pyspark, to a master

A process of its own can be ended when it takes too long, does not slow down who serves, and cannot
take it along when it fails. Its command line tells store, pipeline and arguments, and anybody on
the machine may read that: urls and all credentials go through the environment. What it
has done it leaves behind in a file (``worker_main.py``).
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

from strandline.api.pipelines import Outcome, Run
from strandline.config.pipeline_config import Declared
from strandline.errors import NotInstalled, StrandlineError
from strandline.pipelines.engine import Embedded
from strandline.pipelines.schedule.cron import duration_s
from strandline.pipelines.schedule.registry import (
    PIPELINES,
    Done,
    Pipeline,
    Work,
    arguments_of,
    pipeline_of,
)
from strandline.pipelines.schedule.run_state import Ledger
from strandline.platform.clock import Clock
from strandline.platform.disk import Lock
from strandline.platform.subprocesses import Child

LAKE_VARIABLE = "STRANDLINE_LAKE_URL"
VIEWS_VARIABLE = "STRANDLINE_VIEWS_URL"
_LOOK_S = 0.05
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of a run is told on its command line."""

    store: str
    pipeline: str
    arguments: dict[str, Any]
    due: str
    number: int
    outcome: str
    """The file in which it leaves behind what it has done."""
    master: str


class Ended(NamedTuple):
    """How a run ended."""

    outcome: Outcome
    done: Done


class Runner(Protocol):
    """Runs pipelines. Safe from many threads."""

    def run(self, declared: Declared, run: Run, lease: Lock, stopping: threading.Event) -> Ended:
        """Returns when it has ended, in time or not; whatever went wrong is told, not raised."""
        ...


class Processes:
    """Runs each pipeline in a process of its own."""

    def __init__(self, store: str, lake: str, views: str, ledger: Ledger, clock: Clock) -> None:
        self._store = os.path.abspath(store)
        self._places = {LAKE_VARIABLE: lake, VIEWS_VARIABLE: views}
        self._ledger = ledger
        self._clock = clock

    def run(self, declared: Declared, run: Run, lease: Lock, stopping: threading.Event) -> Ended:
        order = Order(
            store=self._store,
            pipeline=declared.pipeline,
            arguments=declared.arguments,
            due=due_text(run),
            number=run.number,
            outcome=self._ledger.outcome_path(run.name),
            master=declared.master,
        )
        try:
            child = Child(
                command_of(declared.engine, order),
                environment=self._places | environment_of(declared.engine),
                log=self._ledger.log_path(run.name),
                keeps=lease,
            )
        except (OSError, StrandlineError) as error:
            return Ended("failed", Done(failure=f"the run could not be started: {error}"))
        return self._watch(child, declared, run, stopping)

    def _watch(
        self, child: Child, declared: Declared, run: Run, stopping: threading.Event
    ) -> Ended:
        deadline = self._clock.monotonic() + duration_s(declared.timeout, "timeout")
        while child.code() is None:
            if self._clock.wait(stopping, _LOOK_S):
                child.end()
                return Ended("stopped", Done(failure="the scheduler was told to stop"))
            if self._clock.monotonic() > deadline:
                child.end()
                return Ended("timeout", Done(failure=f"it took longer than {declared.timeout}"))
        done = self._ledger.outcome_of(run)
        if done is None:
            words = child.last_words() or "it printed nothing"
            done = Done(failure=f"the process ended with code {child.code()}: {words}")
        return Ended("failed" if done.failure else "done", done)


class Here:
    """Runs pipelines on the calling thread, for whoever has none to spare.

    Nobody can end a thread: a run is stopped, and found to take too long, where it tells progress.
    """

    def __init__(
        self, store: str, lake: str, clock: Clock, known: Mapping[str, Pipeline] = PIPELINES
    ) -> None:
        self._store = os.path.abspath(store)
        self._lake = lake
        self._clock = clock
        self._known = known

    def run(self, declared: Declared, run: Run, lease: Lock, stopping: threading.Event) -> Ended:
        del lease
        deadline = self._clock.monotonic() + duration_s(declared.timeout, "timeout")

        def progress(*_: object) -> None:
            if stopping.is_set():
                raise _Over("stopped", "the scheduler was told to stop")
            if self._clock.monotonic() > deadline:
                raise _Over("timeout", f"it took longer than {declared.timeout}")

        pipeline = pipeline_of(declared.pipeline, self._known)
        work = Work(self._store, self._lake, "", due_text(run), Embedded(), progress)
        try:
            done = pipeline.run(arguments_of(pipeline, declared.arguments), work)
        except _Over as over:
            return Ended(over.outcome, Done(failure=str(over)))
        except Exception as error:  # noqa: BLE001 - told as the run's failure
            return Ended("failed", Done(failure=failure_text(error)))
        return Ended("failed" if done.failure else "done", done)


class _Over(Exception):
    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


def due_text(run: Run) -> str:
    """When a run was due, or was asked for, as a path may have it: 20261117T030000Z."""
    moment_us = run.begun_us if run.due_us is None else run.due_us
    return f"{_EPOCH + timedelta(microseconds=moment_us):%Y%m%dT%H%M%SZ}"


def failure_text(error: BaseException) -> str:
    """An error as the history has it: ours by their words, others by their kind, too."""
    return str(error) if isinstance(error, StrandlineError) else f"{type(error).__name__}: {error}"


def command_of(engine: str, order: Order) -> list[str]:
    """The command line of a run's process."""
    told = msgspec.json.encode(order).decode()
    if engine == "embedded":
        return [sys.executable, "-m", "strandline.pipelines.schedule.worker_main", told]
    ours = resources.files("strandline") / "spark"  # not imported: it brings pyspark
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={ours}/log4j2.properties",
    }
    given = [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]
    submit = [f"{spark_home()}/bin/spark-submit", "--master", order.master, *given]
    return [*submit, "--name", f"strandline {order.pipeline}", f"{ours}/submitted.py", told]


def environment_of(engine: str) -> dict[str, str]:
    """What the scripts of pyspark ask for before any Python has begun."""
    if engine == "embedded":
        return {}
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {"SPARK_HOME": spark_home(), **python}


def spark_home() -> str:
    """Where pyspark has its scripts."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise NotInstalled("there is no pyspark here: pip install 'strandline[spark]'")
    return found.submodule_search_locations[0]
