"""Warms up msgspec's type information of all structs before threads start.

msgspec collects the fields of a struct at its first decoding, and other threads can see the
information while it is incomplete: two threads that decode a struct for the first time at the same
time can crash the process. So ``warm_up`` is called before a process starts many threads.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Iterator
from weakref import WeakSet

import msgspec

_warming_up = threading.Lock()
_warm: WeakSet[type] = WeakSet()


def warm_up() -> None:
    """Warm up every struct of this package that is defined so far. A repeat takes a millisecond."""
    with _warming_up:
        for struct in _structs(msgspec.Struct):
            if struct not in _warm:
                with contextlib.suppress(TypeError, NameError):  # a struct that is never decoded
                    msgspec.json.Decoder(struct)
                _warm.add(struct)


@functools.cache
def warm_up_once() -> None:
    """The same, once per process: for objects that are constructed often."""
    warm_up()


def _structs(base: type) -> Iterator[type]:
    """Structs at module level of this package; those created at run time have one owner."""
    subclasses: list[type] = base.__subclasses__()
    for struct in subclasses:
        yield from _structs(struct)
        module = sys.modules.get(struct.__module__)
        if struct.__module__.startswith("strandline.") and hasattr(module, struct.__name__):
            yield struct
