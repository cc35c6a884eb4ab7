"""Where a benchmark writes: a folder that goes when it ends, also when it is told to end."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def scratch(parent: str | None = None) -> Iterator[Path]:
    """A folder of its own, in the place for such folders or below another one."""
    before = {number: signal.signal(number, _end) for number in _ENDING}
    try:
        folder = Path(tempfile.mkdtemp(prefix="strandline-bench-", dir=parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)  # what was begun is taken down once, and wholly
    raise SystemExit(128 + number)
