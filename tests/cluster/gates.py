"""A gate in the middle of a Spark task: who comes to it waits, so that it can be killed there.

A gate is a folder. The task that meets the number 7, or that has done one chosen piece of work and
told nobody yet, leaves a note there with its own folder, which is in its worker's, and waits until
there is a file ``open``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from strandline.spark.engine import SparkEngine

WAIT_S_MAX = 240.0


def passing(folder: str) -> Callable[..., Any]:
    """A function of Spark that gives a number back, through the gate if it is the one."""
    return f.udf(partial(_pass_seven, folder), "bigint")


class GatedEngine(SparkEngine):
    """Has the gate behind the task in the middle: others were done before it, others are not."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        super().__init__(spark)
        self._folder = folder

    def run(self, work: Callable[..., Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        chosen = tasks[len(tasks) // 2] if tasks else None
        return super().run(partial(_work, self._folder, work, chosen), tasks)


def waiting(folder: Path) -> list[str]:
    """The folders of those who came to the gate."""
    return [text for note in folder.glob("here-*") if (text := note.read_text(encoding="utf-8"))]


def open_gate(folder: Path) -> None:
    (folder / "open").touch()


def _pass_seven(folder: str, number: int) -> int:
    if number == 7:
        _wait(folder)
    return number


def _work(folder: str, work: Callable[..., Any], chosen: Any, task: Any) -> Any:
    done = work(task)
    if task == chosen:
        _wait(folder)
    return done


def _wait(folder: str) -> None:
    Path(folder, f"here-{os.getpid()}").write_text(os.getcwd(), encoding="utf-8")
    deadline = time.monotonic() + WAIT_S_MAX
    while not Path(folder, "open").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("nobody opened the gate")
        time.sleep(0.02)
