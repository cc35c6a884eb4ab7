"""The standard error of the JVM of Spark, without the warning of every start.

The launcher of Spark adds an incubator module to the JVM, which prints a warning before logging is
set up; no option disables it. The JVM is therefore started with a pipe as its standard error, and a
thread copies all lines except that one.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

_WARNING = b"WARNING: Using incubator modules: "
_STDERR = 2


@contextlib.contextmanager
def without_warning() -> Iterator[None]:
    """Processes started in this block have a standard error without the warning."""
    try:
        original = os.dup(_STDERR)
    except OSError:  # standard error is closed: there is nothing to filter
        yield
        return
    source, sink = os.pipe()
    os.dup2(sink, _STDERR)
    os.close(sink)
    copier = threading.Thread(
        target=_copy, args=(source, original), name="strandline-spark-messages", daemon=True
    )
    copier.start()
    try:
        yield
    finally:
        os.dup2(original, _STDERR)


def _copy(source: int, target: int) -> None:
    """Copy lines until the last process that has the pipe has ended."""
    with os.fdopen(source, "rb") as lines, os.fdopen(target, "wb", buffering=0) as out:
        for line in lines:
            if not line.startswith(_WARNING):
                with contextlib.suppress(OSError):
                    out.write(line)
