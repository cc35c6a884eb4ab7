"""Has msgspec look at our structs before several threads do.

msgspec finds out about a struct's fields when it is first decoded, and shows others what it has
while it is still looking: two threads that meet a struct for the first time at the same moment may
crash the process. So whoever is about to have many threads calls ``learn``.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Iterator
from weakref import WeakSet

import msgspec

_learning = threading.Lock()
_known: WeakSet[type] = WeakSet()


def learn() -> None:
    """Look at every struct of ours that is defined so far. The second time takes a millisecond."""
    with _learning:
        for struct in _structs(msgspec.Struct):
            if struct not in _known:
                with contextlib.suppress(TypeError, NameError):  # one that is never decoded
                    msgspec.json.Decoder(struct)
                _known.add(struct)


@functools.cache
def learn_at_first() -> None:
    """The same, once in a process: for whoever is made often."""
    learn()


def _structs(base: type) -> Iterator[type]:
    """Those that modules of ours define; others are made on the way, and have one owner."""
    subclasses: list[type] = base.__subclasses__()
    for struct in subclasses:
        yield from _structs(struct)
        module = sys.modules.get(struct.__module__)
        if struct.__module__.startswith("strandline.") and hasattr(module, struct.__name__):
            yield struct
