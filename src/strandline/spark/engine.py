"""Runs the tasks of a pipeline as one Spark job, and tells of each as it finishes.

A task's result travels back with the task's end, in an accumulator, so the driver has it while
others still run. Spark counts what a task of an action adds once, however often the task is tried
or speculated on. Results are small; what a task wrote is elsewhere.

A task that fails is tried again as often as ``spark.task.maxFailures`` says (a local session: not
at all). Then the job ends; what had finished has been told of.
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
from strandline.spark.errors import plain_errors, told_briefly
from strandline.spark.job_progress import TASKS
from strandline.spark.sessions import is_connect

if TYPE_CHECKING:
    from strandline.query.execute.executor import Answering

Task = TypeVar("Task")
Result = TypeVar("Result")
_LOOK_S = 0.02
_LATE_S = 0.25
_ENDING_S = 60.0  # the end of a job and the results of its tasks come different ways


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
        """``spark`` is a session, or makes one, which is called when there is something to run.

        ``progress`` is called with the number of tasks that are done.
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
        told = 0
        try:
            while not job.ended.is_set():
                self._clock.wait(job.ended, _LOOK_S)
                for pair in results.value[told:]:
                    told += 1
                    self._progress(TASKS, told, len(tasks))
                    yield pair
            if job.failure is not None:
                # Tasks that ended beside the one that failed may be told of a little later.
                self._clock.wait(threading.Event(), _LATE_S)
            for pair in self._rest(results, told, 0 if job.failure else len(tasks)):
                told += 1
                self._progress(TASKS, told, len(tasks))
                yield pair
        finally:
            if not job.ended.is_set():
                context.cancelJobsWithTag(tag)
                job.ended.wait()
        if job.failure is not None:
            with plain_errors():
                raise job.failure

    def answering(self, progress: Progress) -> Answering:
        """The same machines, for questions: ``pipelines/materialize.py`` asks."""
        from strandline.spark.sql.query import answers  # noqa: PLC0415 - workers need no DuckDB

        return answers(self._session(), progress=progress, clock=self._clock)

    def _session(self) -> SparkSession:
        if not isinstance(self._spark, SparkSession) and callable(self._spark):
            self._spark = self._spark()
        return self._spark

    def _rest(self, results: Any, told: int, count: int) -> Iterator[tuple[int, Any]]:
        deadline_s = self._clock.monotonic() + _ENDING_S
        while True:
            found = results.value
            yield from found[told:]
            told = len(found)
            if told >= count:
                return
            assert self._clock.monotonic() < deadline_s, "every task of the job has told its result"
            self._clock.wait(threading.Event(), _LOOK_S)


class _Collected(AccumulatorParam[list[Any]]):
    """Results by place. A new list each time, so that who reads has one that does not change."""

    def zero(self, value: list[Any]) -> list[Any]:
        del value
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - theirs
        return value1 + value2


class _Job:
    """Something that runs on a thread of its own until it ends."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.ended = threading.Event()
        self.failure: Exception | None = None
        self._act = act
        threading.Thread(target=self._run, name="strandline-spark-job", daemon=True).start()

    def _run(self) -> None:
        try:
            self._act()
        except Exception as error:  # noqa: BLE001 - raised where the results are waited for
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
    placed = list(enumerate(tasks))
    context.parallelize(placed, len(placed)).foreach(partial(_one, results, work))


def _one(results: Any, work: Callable[[Task], Result], placed: tuple[int, Task]) -> None:
    """On an executor: one task."""
    place, task = placed
    with told_briefly():
        results.add([(place, work(task))])
