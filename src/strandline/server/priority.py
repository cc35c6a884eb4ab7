"""The priority of a topic when the server is too busy to push all topics at once. Pure.

    P = priority + 500 * 2^(-age of the last read / 30 s)

The second term is 0 for a topic that was not read for five minutes. A topic without a ``priority``
has 0, and ``auto_priority=False`` omits the second term for it.
"""

from __future__ import annotations

from strandline.config.settings import PRIORITY_MAX, TopicConfig

READ_WEIGHT = 500
HALF_MS = 30_000
FORGOTTEN_MS = 300_000


def priority_of(config: TopicConfig, read_at_ms: int | None, now_ms: int) -> int:
    """The priority of a topic that was last read at ``read_at_ms``; None: never."""
    if config.priority is not None:
        own = max(-PRIORITY_MAX, min(config.priority, PRIORITY_MAX))
        return own + _recency(read_at_ms, now_ms)
    return _recency(read_at_ms, now_ms) if config.auto_priority else 0


def _recency(read_at_ms: int | None, now_ms: int) -> int:
    if read_at_ms is None:
        return 0
    age_ms = max(0, now_ms - read_at_ms)
    return 0 if age_ms > FORGOTTEN_MS else round(READ_WEIGHT * 2.0 ** (-age_ms / HALF_MS))
