"""Waits for the next record of a topic.

Who waits leaves a lock with the topic, and whoever publishes opens it. So a waiter costs an append
nothing but that, and one that nobody waits for nothing at all.
"""

from __future__ import annotations

import contextlib
import threading

from strandline.log.state.topic_state import TopicState
from strandline.log.wal.writer import Writer
from strandline.platform.clock import Clock

PATIENCE_S = 0.5
"""How often a waiter looks whether the shard has failed meanwhile."""


def wait_for(
    state: TopicState, clock: Clock, writer: Writer | None, after: int, timeout_s: float | None
) -> bool:
    """Wait until the head is past a cursor; False when the time is over or the topic gone."""
    deadline = None if timeout_s is None else clock.monotonic() + timeout_s
    while state.head_seq <= after:
        if state.dropped:
            return False
        left = None if deadline is None else deadline - clock.monotonic()
        if left is not None and left <= 0:
            return False
        gate = threading.Lock()
        gate.acquire()
        state.waiters.append(gate)
        if state.head_seq <= after and not state.dropped:
            gate.acquire(timeout=min(PATIENCE_S, left or PATIENCE_S))
        with contextlib.suppress(ValueError):  # woken: then it has been taken out already
            state.waiters.remove(gate)
        failure = None if writer is None else writer.failure
        if failure is not None and state.head_seq <= after:
            raise failure
    return True
