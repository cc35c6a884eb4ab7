"""The program of a run's process: executes the order on its command line, and writes the result.

``strandline.spark.submit_main`` is the same under ``spark-submit``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import msgspec

from strandline.pipelines.engine import Embedded, Engine
from strandline.pipelines.schedule.registry import RunContext, RunResult, arguments_of, pipeline_of
from strandline.pipelines.schedule.run_state import write_outcome
from strandline.pipelines.schedule.runner import (
    LAKE_VARIABLE,
    VIEWS_VARIABLE,
    RunOrder,
    failure_text,
)
from strandline.platform.disk import OsDisk

_FAILED = 1


def run_order(encoded: str, engine_of: Callable[[str], Engine]) -> int:
    """Execute an order; returns the exit code. ``engine_of`` creates the engine for a master."""
    order = msgspec.json.decode(encoded, type=RunOrder)
    pipeline = pipeline_of(order.pipeline)
    try:
        work = RunContext(
            order.store,
            os.environ.get(LAKE_VARIABLE, ""),
            os.environ.get(VIEWS_VARIABLE, ""),
            order.due,
            engine_of(order.master),
            _print_progress,
        )
        done = pipeline.run(arguments_of(pipeline, order.arguments), work)
    except Exception as error:  # noqa: BLE001 - reported in the result
        done = RunResult(failure=failure_text(error))
    write_outcome(OsDisk(), order.outcome, order.number, done)
    if done.failure:
        sys.stderr.write(f"{done.failure}\n")
    return _FAILED if done.failure else 0


def _print_progress(step: str, done: int, total: int) -> None:
    sys.stderr.write(f"{step} {done} of {total}\n")


def _embedded_engine(_: str) -> Engine:
    return Embedded()


if __name__ == "__main__":
    sys.exit(run_order(sys.argv[1], _embedded_engine))
