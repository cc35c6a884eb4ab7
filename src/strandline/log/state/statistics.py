"""Statistics of one topic."""

from __future__ import annotations

import msgspec

from strandline.config.settings import TopicConfig
from strandline.lake.cold_index import ColdSummary
from strandline.log.state.deleted_payload import resolve_averages
from strandline.log.state.topic_state import TopicState


class TopicStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The size and the bounds of a topic at one moment."""

    name: str
    epoch: int
    head_seq: int
    earliest_seq: int
    evict_floor: int
    count: int
    payload_bytes: int
    last_ts: int
    config: TopicConfig
    cold: ColdSummary | None
    """The part of the topic in the lake, None when there is none."""


def statistics_of(state: TopicState, *, exact: bool = True) -> TopicStatistics:
    """The statistics of a topic now. Its floors must be up to date."""
    if exact:
        resolve_averages(state)
    return TopicStatistics(
        name=state.name,
        epoch=state.epoch,
        head_seq=state.head_seq,
        earliest_seq=state.earliest_seq,
        evict_floor=state.evict_floor,
        count=state.live_count,
        payload_bytes=state.live_payload,
        last_ts=state.last_ts,
        config=state.config,
        cold=None if state.cold is None else state.cold.summary(),
    )
