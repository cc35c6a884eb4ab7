"""Mutants for the simulation of a whole server: each is noticed by what clients are answered.

The seed in brackets is one that notices; without faults at the right moment most bugs stay hidden.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FILE = "simulation/test_simulation"
_TEST = "test_no_answer_is_untrue_whatever_strikes[{}]"


def _noticed(seed: int, place: str, old: str, new: str) -> Mutant:
    return Mutant(place, old, new, _FILE, _TEST.format(seed))


SIMULATED = {
    "simulated: acknowledge before the sync": _noticed(
        0, "wal.committer:Committer._round", "files[-1].sync()", "pass"
    ),
    "simulated: swap a key without a look at its version": _noticed(
        22, "views.kv.decisions:check_version", "if found != version:", "if False:"
    ),
    "simulated: pass over lost records without a tombstone": _noticed(
        0,
        "topic.read:read_page",
        "tombstone = Tombstone(gap_from=seq, gap_to=gap_to, reason=gap.reason)",
        "tombstone = None",
    ),
    "simulated: let a lease run out at once": _noticed(
        0, "views.queue.leases:Leases.look", "self._heap[0][0] <= now:", "True:"
    ),
    "simulated: go on one record late": _noticed(
        0, "topic.read:read_page", "following=seq - 1,", "following=min(seq, head),"
    ),
    "simulated: forget idempotency keys at a restart": _noticed(
        4,
        "topic.replay:Replay._records",
        "state.remember(key, found.first_seq, found.last_seq, found.ts, found.ts)",
        "pass",
    ),
    "simulated: acknowledge without waiting for the sync": _noticed(
        0,
        "topic.append:_place",
        "return Pending(Appended(first_seq, last_seq, last_seq), shard.committer, lsn, ts)",
        "return Pending(Appended(first_seq, last_seq, last_seq), shard.committer, 0, ts)",
    ),
    "simulated: recover a batch without its last record": _noticed(
        0,
        "topic.replay:Replay._records",
        "state.next_seq = found.last_seq + 1",
        "state.next_seq = found.last_seq + (found.count == 1)",
    ),
}
