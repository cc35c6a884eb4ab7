"""Engines that run the tasks of a pipeline, and the choice of one.

A pipeline plans on the driver, an engine runs its tasks, and the driver processes each result when
it arrives, so that finished tasks need not run again after a crash. Tasks and results are values
that can be pickled, ``work`` is a function of a module, and a task may run twice: whatever it
leaves behind has no effect.

    embedded   threads of this process; pyarrow, hashing and compression release the interpreter
    spark      tasks of a Spark job (``strandline.spark.engine``): more than one machine

Spark takes seconds to start and is not faster per byte than this process. So ``auto`` chooses it
only above a threshold, and if it is installed.
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
"""With this many stored bytes or more, ``auto`` chooses Spark."""

EngineChoice = Literal["auto", "embedded", "spark"]
Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs tasks, many at once. Owned by one pipeline at a time."""

    name: str
    in_process: bool
    """Whether tasks run in this process: then they may get objects that cannot be pickled."""

    def run(
        self, work: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        """Yield the index and the result of each task when it finishes.

        When a task fails, the results of running tasks are still returned; then its error is
        raised.
        """
        ...


Chooser = Callable[[int], Engine]
"""Returns the engine for work on this many stored bytes."""


class Embedded:
    """Threads of this process; by default one for each core."""

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
            indexes = {pool.submit(work, task): index for index, task in enumerate(tasks)}
            for future in as_completed(indexes):
                if future.cancelled():
                    continue
                error = future.exception()
                if error is None:
                    yield indexes[future], future.result()
                elif failure is None:
                    failure = error
                    _cancel(indexes)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        if failure is not None:
            raise failure


def choose(
    size: int,
    *,
    requested: EngineChoice = "auto",
    threshold: int = SPARK_FROM,
    spark: Callable[[], Engine],
) -> Engine:
    """The engine for work on ``size`` stored bytes. ``spark`` creates a Spark engine, or raises."""
    if requested == "spark":
        return spark()
    if requested == "auto" and size >= threshold:
        try:
            return spark()
        except NotInstalled:
            return Embedded()
    return Embedded()


def by_size(spark: Callable[[], Engine], *, threshold: int = SPARK_FROM) -> Chooser:
    """A chooser like ``auto``, for pipelines called from Python: this process for small work."""
    return partial(choose, threshold=threshold, spark=spark)


def _cancel(futures: dict[Future[Result], int]) -> None:
    for future in futures:
        future.cancel()
