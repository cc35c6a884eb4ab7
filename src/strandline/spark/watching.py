"""A job of Spark while it runs: how many of its tasks are done, told now and then.

The job runs on a thread of its own, so that the caller can be told, and interrupted: then the job
is cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from strandline.env.clock import Clock
from strandline.env.disk import OsDisk
from strandline.topic.progress import Progress, silent

Result = TypeVar("Result")

_LOOK_S = 0.2


def watched(
    spark: SparkSession, act: Callable[[], Result], progress: Progress, clock: Clock
) -> Result:
    """What an action gives; meanwhile its tasks are counted."""
    if progress is silent:
        return act()
    group = f"strandline-{OsDisk().random_id().hex()}"
    results: list[Result] = []
    failures: list[Exception] = []
    ended = threading.Event()

    def work() -> None:
        try:
            spark.sparkContext.setJobGroup(group, "a question")
            results.append(act())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            failures.append(error)
        finally:
            ended.set()

    InheritableThread(target=work, name="strandline-spark-question", daemon=True).start()
    try:
        while not ended.is_set():
            clock.wait(ended, _LOOK_S)
            done, total = _tasks(spark, group)
            if total:
                progress("tasks of Spark", done, total)
    finally:
        if not ended.is_set():
            spark.sparkContext.cancelJobGroup(group)
            ended.wait()
    if failures:
        raise failures[0]
    return results[0]


def _tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    """Tasks that are done, and those there are, of stages that have begun."""
    tracker = spark.sparkContext.statusTracker()
    done, total = 0, 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            found = tracker.getStageInfo(stage)
            if found is not None:
                done, total = done + found.numCompletedTasks, total + found.numTasks
    return done, total
