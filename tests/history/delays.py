"""Makes threads stop for a moment at random lines, so that narrow races are met within seconds.

The interpreter switches threads every few milliseconds, and hardly ever between the two lines that
matter. Here every line of the chosen modules may be the place where a thread loses the processor.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

PAUSE_S_MAX = 0.004


@contextlib.contextmanager
def random_delays(seed: int, modules: tuple[str, ...], *, chance: float) -> Iterator[None]:
    """Threads that start inside pause at lines of modules whose paths end like this."""
    rng = random.Random(seed)

    def at_line(frame: FrameType, event: str, argument: Any) -> Any:
        del frame, argument
        if event == "line" and rng.random() < chance:
            time.sleep(rng.random() * PAUSE_S_MAX)
        return at_line

    def at_call(frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        return at_line if frame.f_code.co_filename.endswith(modules) else None

    before = threading.gettrace() if sys.version_info >= (3, 10) else None
    threading.settrace(at_call)
    try:
        yield
    finally:
        threading.settrace(before)  # type: ignore[arg-type]  # None is what there was
