"""Counts and sizes of all topics of a store together, for monitoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from strandline.log.state.topic_state import TopicState


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and sizes of all topics of a store."""

    topics: int
    by_durability: dict[str, int]
    queues: list[str]
    """Names of the topics that are queues."""
    records: int
    """Live records."""
    payload_bytes: int
    """Bytes of live records. Records that were deleted since the last checkpoint are subtracted
    with the average size of their block."""


def totals_of(states: Iterable[TopicState]) -> Totals:
    """The totals at about this moment: topics are read one after the other."""
    classes: Counter[str] = Counter()
    queues: list[str] = []
    records = size = 0
    for state in states:
        classes[state.config.durability] += 1
        if state.config.views.queue is not None:
            queues.append(state.name)
        records += state.live_count
        size += state.live_payload
    return Totals(
        topics=classes.total(),
        by_durability=dict(classes),
        queues=queues,
        records=records,
        payload_bytes=size,
    )
