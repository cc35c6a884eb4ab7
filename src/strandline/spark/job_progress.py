"""Progress of a Spark job while it runs: the number of finished tasks.

The job runs on a thread of its own, so that the caller gets progress and can be interrupted, which
cancels the job.
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
"""The name of the progress step."""
_POLL_S = 0.2


def run_with_progress(
    spark: SparkSession, action: Callable[[], Result], progress: Progress, clock: Clock
) -> Result:
    """Run an action and return its result; report the progress of its tasks."""
    if progress is silent:
        return action()
    counter = _ConnectCounter(spark) if is_connect(spark) else _ClassicCounter(spark)
    results: list[Result] = []
    failures: list[Exception] = []
    ended = threading.Event()

    def work() -> None:
        try:
            with counter.counting():
                results.append(action())
        except Exception as error:  # noqa: BLE001 - raised by the waiting thread
            failures.append(error)
        finally:
            ended.set()

    name = "strandline-spark-query"
    InheritableThread(target=work, session=spark, name=name, daemon=True).start()
    try:
        while not ended.is_set():
            clock.wait(ended, _POLL_S)
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
    """Counts tasks of a job group. The thread that runs the action enters ``counting``."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._group = f"strandline-{OsDisk().random_id().hex()}"

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        self._context.setJobGroup(self._group, "a query")
        yield

    def tasks(self) -> tuple[int, int]:
        """Finished tasks and all tasks, of the stages that have started."""
        return tasks_of(self._context, self._context.statusTracker().getJobIdsForGroup(self._group))

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)


class _ConnectCounter:
    """Counts tasks over Spark Connect, whose client calls a handler on the thread of the action."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark  # its type does not allow plain functions as handlers
        self._tag = f"strandline-{OsDisk().random_id().hex()}"
        self._thread = 0
        self._counts = (0, 0)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
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
            known = list(stages)
            done = sum(stage.num_completed_tasks for stage in known)
            self._counts = (done, sum(stage.num_tasks for stage in known))

    def tasks(self) -> tuple[int, int]:
        return self._counts

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)


def tasks_of(context: SparkContext, jobs: Iterable[int]) -> tuple[int, int]:
    """Finished tasks and all tasks, of the started stages of some jobs."""
    tracker = context.statusTracker()
    done, total = 0, 0
    for job in jobs:
        job_info = tracker.getJobInfo(job)
        for stage in job_info.stageIds if job_info is not None else ():
            stage_info = tracker.getStageInfo(stage)
            if stage_info is not None:
                done, total = done + stage_info.numCompletedTasks, total + stage_info.numTasks
    return done, total
