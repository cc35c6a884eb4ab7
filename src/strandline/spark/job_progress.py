"""A job of Spark while it runs: how many of its tasks are done, told now and then.

The job runs on a thread of its own, so that the caller can be told, and interrupted: then the job
is cancelled.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

from strandline.log.progress import Progress, silent
from strandline.platform.clock import Clock
from strandline.platform.disk import OsDisk
from strandline.spark.sessions import is_connect

Result = TypeVar("Result")

TASKS = "tasks of Spark"
"""The step under which they are shown."""
_LOOK_S = 0.2


def watched(
    spark: SparkSession, act: Callable[[], Result], progress: Progress, clock: Clock
) -> Result:
    """What an action gives; meanwhile its tasks are counted."""
    if progress is silent:
        return act()
    counter = _ConnectCounter(spark) if is_connect(spark) else _ClassicCounter(spark)
    results: list[Result] = []
    failures: list[Exception] = []
    ended = threading.Event()

    def work() -> None:
        try:
            with counter.begun():
                results.append(act())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            failures.append(error)
        finally:
            ended.set()

    name = "strandline-spark-question"
    InheritableThread(target=work, session=spark, name=name, daemon=True).start()
    try:
        while not ended.is_set():
            clock.wait(ended, _LOOK_S)
            done, total = counter.tasks()
            if total:
                progress(TASKS, done, total)
    finally:
        if not ended.is_set():
            counter.cancel()
            ended.wait()
    if failures:
        raise failures[0]
    _, total = counter.tasks()
    progress(TASKS, max(1, total), max(1, total))  # skipped tasks are not counted as done
    return results[0]


class _ClassicCounter:
    """Tasks of a job group. ``begun`` is for the thread that runs the action."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._group = f"strandline-{OsDisk().random_id().hex()}"

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        self._context.setJobGroup(self._group, "a question")
        yield

    def tasks(self) -> tuple[int, int]:
        """Tasks that are done, and those there are, of stages that have begun."""
        return tasks_of(self._context, self._context.statusTracker().getJobIdsForGroup(self._group))

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)


class _ConnectCounter:
    """The same over Spark Connect, whose client calls a handler on the thread of the action."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark  # its type has no handlers that are plain functions
        self._tag = f"strandline-{OsDisk().random_id().hex()}"
        self._thread = 0
        self._found = (0, 0)

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self)
        try:
            yield
        finally:
            self._spark.removeProgressHandler(self)
            self._spark.removeTag(self._tag)

    def __call__(self, stages: Iterable[Any] | None, **others: Any) -> None:
        del others
        if stages is not None and threading.get_ident() == self._thread:
            found = list(stages)
            done = sum(stage.num_completed_tasks for stage in found)
            self._found = (done, sum(stage.num_tasks for stage in found))

    def tasks(self) -> tuple[int, int]:
        return self._found

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)


def tasks_of(context: SparkContext, jobs: Iterable[int]) -> tuple[int, int]:
    """Tasks that are done, and those there are, of the stages of some jobs that have begun."""
    tracker = context.statusTracker()
    done, total = 0, 0
    for job in jobs:
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            found = tracker.getStageInfo(stage)
            if found is not None:
                done, total = done + found.numCompletedTasks, total + found.numTasks
    return done, total
