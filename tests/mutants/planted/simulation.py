"""Mutants for the simulation of a whole server: clients get answers that show the bug.

The seed in brackets is one with which the bug shows; without faults at the right moment most bugs
stay hidden.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Force, Operator, Remove, Replace, Set

_FILE = "simulation/test_simulation"
_TEST = "test_no_answer_is_untrue_whatever_strikes[{}]"


def _noticed(seed: int, place: str, operator: Operator) -> Mutant:
    return Mutant(place, operator, _FILE, _TEST.format(seed))


SIMULATION = {
    "simulated: acknowledge before the sync": _noticed(
        0,
        "log.wal.committer:Committer._round",
        Remove("Expr 6", "_[-1]._()"),
    ),
    "simulated: swap a key without a look at its version": _noticed(
        22,
        "views.kv.conditions:check_version",
        Force("If 1", "if _ != _:", False),
    ),
    "simulated: pass over lost records without a tombstone": _noticed(
        0,
        "log.read.read:read_page",
        Set("Assign 7", "_ = _(_=_, _=_, _=_)", "Call 1", None),
    ),
    "simulated: let a lease run out at once": _noticed(
        0,
        "views.queue.state.leases:Leases.expire",
        Set("While 1", "while _ and _[0][0] <= _:", "Compare 1", True),
    ),
    "simulated: go on one record late": _noticed(
        0,
        "log.read.read:read_page",
        Replace(
            "Return 1", "return _(_, _=_ - 1, _=_, _=_, _=_)", "BinOp 1", "min({Name 3}, {Name 4})"
        ),
    ),
    "simulated: forget idempotency keys at a restart": _noticed(
        4,
        "log.recovery.replay:Replay._records",
        Remove("Expr 4", "_(_, _, _, _, _) (2 of 2)"),
    ),
    "simulated: acknowledge without waiting for the sync": _noticed(
        0,
        "log.append.append:_place",
        Set("Return 1", "return _(_(_, _, _), _, _, _)", "Name 7", 0),
    ),
    "simulated: recover a batch without its last record": _noticed(
        0,
        "log.recovery.replay:Replay._records",
        Replace(
            "Assign 6",
            "_ = _ + 1",
            "Constant 1",
            "{Expr 3: Attribute 3} == 1",
            others=("_(_, _, _, _, _) (1 of 2)",),
        ),
    ),
}
