"""A gate in the middle of a Spark task: who comes to it waits, so that it can be killed there.

A gate is a folder. The task that meets the number 7 leaves a note there with its own folder, which
is in its worker's, and waits until there is a file ``open``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

PATIENCE_S = 240.0


def passing(folder: str) -> Callable[..., Any]:
    """A function of Spark that gives a number back, through the gate if it is the one."""
    patience_s = PATIENCE_S

    def wait(number: int) -> int:
        import os  # a nested function travels to executors, the names of this module do not
        import time

        if number == 7:
            with open(f"{folder}/here-{os.getpid()}", "w") as note:
                note.write(os.getcwd())
            deadline = time.monotonic() + patience_s
            while not os.path.exists(f"{folder}/open"):
                if time.monotonic() > deadline:
                    raise TimeoutError("nobody opened the gate")
                time.sleep(0.02)
        return number

    return f.udf(wait, "bigint")


def waiting(folder: Path) -> list[str]:
    """The folders of those who came to the gate."""
    return [text for note in folder.glob("here-*") if (text := note.read_text(encoding="utf-8"))]


def open_gate(folder: Path) -> None:
    (folder / "open").touch()
