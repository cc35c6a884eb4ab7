"""Runs the tasks of a pipeline as one Spark job, and yields each result when its task ends.

The result of a task returns with the end of the task, in an accumulator, so the driver has it while
others still run. Spark counts the update of a task of an action once, also if the task is retried
or run speculatively. Results are small; the output of a task is elsewhere.

A task that fails is retried up to ``spark.task.maxFailures`` times (not in a local session). Then
the job ends; the results of finished tasks have been yielded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import SparkContext
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

from strandline.errors import Invalid
from strandline.log.progress import Progress, silent
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.spark.errors import plain_errors, short_errors
from strandline.spark.job_progress import TASKS
from strandline.spark.sessions import is_connect

if TYPE_CHECKING:
    from strandline.query.execute.executor import QueryExecutor

Task = TypeVar("Task")
Result = TypeVar("Result")
_POLL_S = 0.02
_LATE_S = 0.25
_ENDING_S = 60.0  # the end of a job and the results of its tasks arrive separately


class SparkEngine:
    """Tasks on the executors of a session. Owned by one pipeline at a time."""

    name = "spark"
    in_process = False

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession],
        clock: Clock | None = None,
        *,
        progress: Progress = silent,
    ) -> None:
        """``spark`` is a session, or a function that returns one, called if there are tasks.

        ``progress`` is called with the number of finished tasks.
        """
        self._spark = spark
        self._clock = clock or SystemClock()
        self._progress = progress

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        if not tasks:
            return
        self._progress(TASKS, 0, len(tasks))
        spark = self._session()
        if is_connect(spark):
            raise Invalid(
                "pipelines need a classic Spark session, not one of Spark Connect: "
                "use strandline.spark.session(master)"
            )
        context = spark.sparkContext
        results: Any = context.accumulator([], _Collected())
        tag = f"strandline-{OsDisk().random_id().hex()}"
        job = _Job(partial(_submit, context, tag, results, work, tasks))
        reported = 0
        try:
            while not job.ended.is_set():
                self._clock.wait(job.ended, _POLL_S)
                for pair in results.value[reported:]:
                    reported += 1
                    self._progress(TASKS, reported, len(tasks))
                    yield pair
            if job.failure is not None:
                # Results of tasks that ended beside the failed one may arrive a little later.
                self._clock.wait(threading.Event(), _LATE_S)
            for pair in self._rest(results, reported, 0 if job.failure else len(tasks)):
                reported += 1
                self._progress(TASKS, reported, len(tasks))
                yield pair
        finally:
            if not job.ended.is_set():
                context.cancelJobsWithTag(tag)
                job.ended.wait()
        if job.failure is not None:
            with plain_errors():
                raise job.failure

    def answering(self, progress: Progress) -> QueryExecutor:
        """An executor of queries on the same cluster, for ``pipelines/materialize.py``."""
        from strandline.spark.sql.query import spark_executor  # noqa: PLC0415 - workers need no DuckDB

        return spark_executor(self._session(), progress=progress, clock=self._clock)

    def _session(self) -> SparkSession:
        if not isinstance(self._spark, SparkSession) and callable(self._spark):
            self._spark = self._spark()
        return self._spark

    def _rest(self, results: Any, reported: int, count: int) -> Iterator[tuple[int, Any]]:
        deadline_s = self._clock.monotonic() + _ENDING_S
        while True:
            pairs = results.value
            yield from pairs[reported:]
            reported = len(pairs)
            if reported >= count:
                return
            assert self._clock.monotonic() < deadline_s, "every task of the job returns its result"
            self._clock.wait(threading.Event(), _POLL_S)


class _Collected(AccumulatorParam[list[Any]]):
    """Results with the index of their task. Each update is a new list: no reader sees a change."""

    def zero(self, value: list[Any]) -> list[Any]:
        del value
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - Spark's
        return value1 + value2


class _Job:
    """A function that runs on a thread of its own."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.ended = threading.Event()
        self.failure: Exception | None = None
        self._function = function
        threading.Thread(target=self._run, name="strandline-spark-job", daemon=True).start()

    def _run(self) -> None:
        try:
            self._function()
        except Exception as error:  # noqa: BLE001 - raised where the results are awaited
            self.failure = error
        finally:
            self.ended.set()


def _submit(
    context: SparkContext,
    tag: str,
    results: Any,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
) -> None:
    context.addJobTag(tag)
    numbered = list(enumerate(tasks))
    context.parallelize(numbered, len(numbered)).foreach(partial(_run_task, results, work))


def _run_task(results: Any, work: Callable[[Task], Result], numbered: tuple[int, Task]) -> None:
    """Run one task, on an executor."""
    index, task = numbered
    with short_errors():
        results.add([(index, work(task))])
