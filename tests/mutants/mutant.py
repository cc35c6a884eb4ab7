"""A mutant: what to break, how, and the test that must fail."""

from __future__ import annotations

from typing import NamedTuple

from tests.mutants.operators import Operator


class Mutant(NamedTuple):
    """What to break, how, and the test that must fail."""

    place: str
    """``module:qualname`` of a function, below ``strandline``."""
    operator: Operator
    file: str
    """Of the test, without its ending: in ``tests/crash/sim``, or a path below ``tests``."""
    test: str
