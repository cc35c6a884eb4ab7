"""Watches how long syncs of the log take; health, metrics and the log report slow ones.

An append to an ``fsync`` topic takes as long as a sync, and a power loss removes from a ``disk``
topic what was appended during one. A failing disk often becomes slow first.
"""

from __future__ import annotations

import logging

from strandline.log.wal.shard import Shard
from strandline.log.wal.stats import SlowSyncs

_LOG = logging.getLogger("strandline")


class SyncWatch:
    """Logs when syncs become slow, and when they are fast again. Owned by the space job."""

    def __init__(self, shards: list[Shard]) -> None:
        self._shards = shards
        self._is_slow = False

    def run_once(self) -> None:
        slow = slow_syncs(self._shards)
        if bool(slow) == self._is_slow:
            return
        self._is_slow = bool(slow)
        if slow:
            _LOG.warning("%s", "; ".join(str(each) for each in slow))
        else:
            _LOG.warning("the disk is not slow any more")


def slow_syncs(shards: list[Shard]) -> list[SlowSyncs]:
    """The slow syncs of each shard whose syncs are slow at present. Does not block."""
    slow = [shard.committer.slow_syncs for shard in shards]
    return [each for each in slow if each is not None]
