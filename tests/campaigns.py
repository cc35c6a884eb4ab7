"""How large the long tests are: numbers of ``make crash``, each with a variable that changes it.

    STRANDLINE_POWER_LOSSES=2000 make crash ARGS="tests/crash/sim/test_power_loss.py"

docs/guarantees.md lists the sizes with what was run last.
"""

from __future__ import annotations

import os


def size(variable: str, otherwise: int) -> int:
    """What the environment says, or else the usual size."""
    return int(os.environ.get(variable, otherwise))


KILL_CYCLES = size("STRANDLINE_KILL_CYCLES", 10_000)
POWER_LOSSES = size("STRANDLINE_POWER_LOSSES", 50_000)
FUZZ_INPUTS = size("STRANDLINE_FUZZ_INPUTS", 1_000_000)
"""For each target."""
DRAWN_REQUESTS = size("STRANDLINE_DRAWN_REQUESTS", 6)
"""Of each operation and sort. Every run has as many: the long one is asked for by the variable."""
SIMULATION_SECONDS = size("STRANDLINE_SIMULATION_SECONDS", 600)
