"""What happens to a watcher that does not keep up. Pure.

    full                   it is told nothing more; records wait in their topics
    full for ``grace_s``   of a lossy topic it misses what came meanwhile, and a tombstone says so
    full for ``patience_s``  an error is told and the stream ends; its session stays

A topic is lossy when it lets go of records by itself. Of any other topic every record is told, late
as it may be.
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
    """What becomes of a stream that has been full for so long."""
    if has_drained:
        return "resume"
    return "end" if full_s > settings.patience_s else "wait"


def is_lossy(config: TopicConfig) -> bool:
    """Whether records leave the topic by themselves, at caps or by their age or with the server."""
    capped = config.discard == "old" and (config.cap_records or config.cap_bytes)
    return bool(config.durability == "ephemeral" or config.ttl_ms or capped)


def skipped(topic: str, after: int, earliest_seq: int, head_seq: int) -> Frame:
    """The notice of what a slow watcher of a lossy topic missed."""
    gap = Tombstone(gap_from=after + 1, gap_to=head_seq, reason=REASON)
    return frames.tombstone(topic, gap, earliest_seq, head_seq)


def farewell(full_s: float, topics: list[str]) -> Frame:
    """The last word to a stream that was full for too long."""
    return frames.error(
        410,
        "slow_consumer",
        f"this stream has not taken what waits for it in {full_s:.0f} s: read faster, then resume",
        retry_after_ms=frames.RETRY_MS,
        topics=topics,
    )
