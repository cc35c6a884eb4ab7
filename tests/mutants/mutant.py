"""A mutant: what to break, how, and who must notice."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """What to break, how, and who must notice."""

    place: str
    """``module:function`` below ``strandline``."""
    old: str
    new: str
    file: str
    """Of the test, without its ending: in ``tests/crash/sim``, or a path below ``tests``."""
    test: str
