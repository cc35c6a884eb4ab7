"""The policy for a stream whose client reads too slowly. Pure.

    full                     nothing more is sent; records wait in their topics
    full for ``grace_s``     of lossy topics it skips the records since, and gets a tombstone
    full for ``stalled_s_max``  an error is sent and the stream ends; its session stays

A topic is lossy when it trims records by itself. Of any other topic every record is sent, however
late.
"""

from __future__ import annotations

from typing import Literal

from strandline.config.settings import TopicConfig
from strandline.records import Tombstone
from strandline.server.live import frames
from strandline.server.live.frames import Frame
from strandline.server.settings import LiveSettings

REASON = "from_seq_too_old"

Verdict = Literal["wait", "resume", "end"]


def verdict(*, full_s: float, has_drained: bool, settings: LiveSettings) -> Verdict:
    """The decision for a stream that has been full for ``full_s``."""
    if has_drained:
        return "resume"
    return "end" if full_s > settings.stalled_s_max else "wait"


def is_lossy(config: TopicConfig) -> bool:
    """Whether the topic trims records by itself: at caps, by age, or at a restart."""
    capped = config.discard == "old" and (config.cap_records or config.cap_bytes)
    return bool(config.durability == "ephemeral" or config.ttl_ms or capped)


def skipped(topic: str, after: int, earliest_seq: int, head_seq: int) -> Frame:
    """The tombstone for records that a slow stream skipped."""
    gap = Tombstone(gap_from=after + 1, gap_to=head_seq, reason=REASON)
    return frames.tombstone(topic, gap, earliest_seq, head_seq)


def farewell(full_s: float, topics: list[str]) -> Frame:
    """The error for a stream that was full for too long."""
    return frames.error(
        410,
        "slow_consumer",
        f"this stream was not read for {full_s:.0f} s: read faster, then resume",
        retry_after_ms=frames.RETRY_MS,
        topics=topics,
    )
