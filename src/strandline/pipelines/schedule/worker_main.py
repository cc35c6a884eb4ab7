"""The program of a run's process: does what the order on its command line says, and leaves a note.

``strandline.spark.submit_main`` is the same under ``spark-submit``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import msgspec

from strandline.pipelines.engine import Embedded, Engine
from strandline.pipelines.schedule.registry import Done, Work, arguments_of, pipeline_of
from strandline.pipelines.schedule.run_state import write_outcome
from strandline.pipelines.schedule.runner import LAKE_VARIABLE, VIEWS_VARIABLE, Order, failure_text
from strandline.platform.disk import OsDisk

_FAILED = 1


def work_off(told: str, engine_of: Callable[[str], Engine]) -> int:
    """Run what an order says; the exit code. ``engine_of`` makes the engine for a master."""
    order = msgspec.json.decode(told, type=Order)
    pipeline = pipeline_of(order.pipeline)
    try:
        work = Work(
            order.store,
            os.environ.get(LAKE_VARIABLE, ""),
            os.environ.get(VIEWS_VARIABLE, ""),
            order.due,
            engine_of(order.master),
            _tell,
        )
        done = pipeline.run(arguments_of(pipeline, order.arguments), work)
    except Exception as error:  # noqa: BLE001 - told to who watches
        done = Done(failure=failure_text(error))
    write_outcome(OsDisk(), order.outcome, order.number, done)
    if done.failure:
        sys.stderr.write(f"{done.failure}\n")
    return _FAILED if done.failure else 0


def _tell(step: str, done: int, total: int) -> None:
    sys.stderr.write(f"{step} {done} of {total}\n")


def _here(_: str) -> Engine:
    return Embedded()


if __name__ == "__main__":
    sys.exit(work_off(sys.argv[1], _here))
