"""The standard error of Spark's JVM, without the line that every start prints.

Spark's launcher adds an incubator module to the JVM, which warns of it before any logging is set
up, and no option keeps it from doing so. So the JVM is started with a pipe as its standard error,
and a thread copies what comes out of it, line by line, but for that one.
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
    """What is started in this block has a standard error without the warning."""
    try:
        ours = os.dup(_STDERR)
    except OSError:  # it is closed: there is nothing to keep quiet
        yield
        return
    source, sink = os.pipe()
    os.dup2(sink, _STDERR)
    os.close(sink)
    copier = threading.Thread(
        target=_copy, args=(source, ours), name="strandline-spark-messages", daemon=True
    )
    copier.start()
    try:
        yield
    finally:
        os.dup2(ours, _STDERR)


def _copy(source: int, target: int) -> None:
    """Until the last process that has the pipe has ended."""
    with os.fdopen(source, "rb") as lines, os.fdopen(target, "wb", buffering=0) as out:
        for line in lines:
            if not line.startswith(_WARNING):
                with contextlib.suppress(OSError):
                    out.write(line)
