"""Watches how long syncs of the log take: health, the metrics and the log say when they are slow.

An append to an ``fsync`` topic takes as long as a sync, and a power loss takes from a ``disk``
topic what came during one. A disk that fails often becomes slow first.
"""

from __future__ import annotations

import logging

from strandline.log.wal.shard import Shard
from strandline.log.wal.stats import SlowSyncs

_LOG = logging.getLogger("strandline")


class SyncWatch:
    """Writes to the log when syncs become slow, and when that is over. Owned by the space job."""

    def __init__(self, shards: list[Shard]) -> None:
        self._shards = shards
        self._is_slow = False

    def run_once(self) -> None:
        found = slow_syncs(self._shards)
        if bool(found) == self._is_slow:
            return
        self._is_slow = bool(found)
        if found:
            _LOG.warning("%s", "; ".join(str(each) for each in found))
        else:
            _LOG.warning("the disk is not slow any more")


def slow_syncs(shards: list[Shard]) -> list[SlowSyncs]:
    """The shards whose syncs are slow at present, with figures. Waits for nothing."""
    found = [shard.committer.slow_syncs for shard in shards]
    return [each for each in found if each is not None]
