"""How much a topic matters when there is not time for all of them at once. Pure.

    P = priority + 500 * 2^(-age of the last read / 30 s)

A topic that nobody has read for five minutes gets nothing for that. A topic without a priority of
its own begins at 0, and ``auto_priority=False`` leaves it there.
"""

from __future__ import annotations

from strandline.config.settings import PRIORITY_MAX, TopicConfig

READ_WEIGHT = 500
HALF_MS = 30_000
FORGOTTEN_MS = 300_000


def priority_of(config: TopicConfig, read_at_ms: int | None, now_ms: int) -> int:
    """The priority of a topic that was last read at a time; None: never."""
    if config.priority is not None:
        own = max(-PRIORITY_MAX, min(config.priority, PRIORITY_MAX))
        return own + _recency(read_at_ms, now_ms)
    return _recency(read_at_ms, now_ms) if config.auto_priority else 0


def _recency(read_at_ms: int | None, now_ms: int) -> int:
    if read_at_ms is None:
        return 0
    age_ms = max(0, now_ms - read_at_ms)
    return 0 if age_ms > FORGOTTEN_MS else round(READ_WEIGHT * 2.0 ** (-age_ms / HALF_MS))
