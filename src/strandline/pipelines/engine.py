"""What runs the tasks of a pipeline, and which one to take.

A pipeline plans on the driver, has an engine run its tasks, and acts on each result as it comes, so
that whatever was done when it dies need not be done again. Tasks and results are values that
pickle, ``work`` is a function of a module, and a task may run twice: it leaves nothing behind that
counts.

    embedded   threads of this process; pyarrow, hashing and compression let go of the interpreter
    spark      tasks of a Spark job (``strandline.spark.engine``): more machines than one

Spark takes seconds to start and moves no byte faster than this process does. So ``auto`` takes it
only above a threshold, and when it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from functools import partial
from typing import Literal, Protocol, TypeVar

from strandline.config.settings import GIB
from strandline.errors import Invalid, NotInstalled
from strandline.platform.process import cores
from strandline.platform.thread_pool import ThreadPool

SPARK_FROM = 4 * GIB
"""Stored bytes from which on ``auto`` takes Spark."""

Asked = Literal["auto", "embedded", "spark"]
Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs tasks, many at once. Owned by one pipeline at a time."""

    name: str
    in_process: bool
    """Whether tasks run in this process, and so can be handed what does not pickle."""

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        """The place of each task and its result, as they finish.

        When a task fails, those that run already are still told of; then its error is raised.
        """
        ...


Chooser = Callable[[int], Engine]
"""The engine for work on so many stored bytes."""


class Embedded:
    """Threads of this process, one for each core unless told otherwise."""

    name = "embedded"
    in_process = True

    def __init__(self, threads: int = 0) -> None:
        if threads < 0:
            raise Invalid("an embedded engine has one thread or more, or 0 for one per core")
        self._threads = threads or cores()

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        failure: BaseException | None = None
        pool = ThreadPool(self._threads, "strandline-pipeline")
        try:
            places = {pool.submit(work, task): place for place, task in enumerate(tasks)}
            for future in as_completed(places):
                if future.cancelled():
                    continue
                error = future.exception()
                if error is None:
                    yield places[future], future.result()
                elif failure is None:
                    failure = error
                    _cancel(places)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        if failure is not None:
            raise failure


def choose(
    size: int,
    *,
    asked: Asked = "auto",
    threshold: int = SPARK_FROM,
    spark: Callable[[], Engine],
) -> Engine:
    """The engine for work on so many stored bytes. ``spark`` makes that one, or raises."""
    if asked == "spark":
        return spark()
    if asked == "auto" and size >= threshold:
        try:
            return spark()
        except NotInstalled:
            return Embedded()
    return Embedded()


def by_size(spark: Callable[[], Engine], *, threshold: int = SPARK_FROM) -> Chooser:
    """``auto``, for pipelines that are called from Python: this process for what is small."""
    return partial(choose, threshold=threshold, spark=spark)


def _cancel(futures: dict[Future[Result], int]) -> None:
    for future in futures:
        future.cancel()
