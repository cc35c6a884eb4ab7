"""Waits for the next record of a topic.

A waiter adds a locked gate to the topic, and the append that publishes the next record releases it.
So an append pays one release per waiter, and nothing when there are none.
"""

from __future__ import annotations

import contextlib
import threading

from strandline.log.state.topic_state import TopicState
from strandline.log.wal.writer import Writer
from strandline.platform.clock import Clock

CHECK_INTERVAL_S = 0.5
"""The interval at which a waiter checks whether the shard has failed."""


def wait_for(
    state: TopicState, clock: Clock, writer: Writer | None, after: int, timeout_s: float | None
) -> bool:
    """Wait until the head is past a cursor; False after the timeout, or when the topic is gone."""
    deadline = None if timeout_s is None else clock.monotonic() + timeout_s
    while state.head_seq <= after:
        if state.dropped:
            return False
        remaining_s = None if deadline is None else deadline - clock.monotonic()
        if remaining_s is not None and remaining_s <= 0:
            return False
        gate = threading.Lock()
        gate.acquire()
        state.waiters.append(gate)
        if state.head_seq <= after and not state.dropped:
            gate.acquire(timeout=min(CHECK_INTERVAL_S, remaining_s or CHECK_INTERVAL_S))
        with contextlib.suppress(ValueError):  # a released gate is no longer in the list
            state.waiters.remove(gate)
        failure = None if writer is None else writer.failure
        if failure is not None and state.head_seq <= after:
            raise failure
    return True
