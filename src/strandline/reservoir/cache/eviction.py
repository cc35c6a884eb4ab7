"""Eviction order of cached files: least recently used first, except files that were used often.

A file has a weight: 0 when it was cached while it was written or found at opening, 1 when a read
waited for its download, one more for every use since, 5 at most. A scan begins with the file that
was used longest ago. It evicts a file of weight 0, and reduces any other weight by 1. So a file
that was used often survives several scans, but no unused file survives for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.reservoir.cache.open_files import LocalFile

WEIGHT_NEW = 0
WEIGHT_DOWNLOADED = 1
WEIGHT_MAX = 5


def victims(files: Iterable[LocalFile], size: int) -> list[LocalFile]:
    """Files to evict for so many bytes, all of them when they have less. The scan reduces the
    weights of the others."""
    if size <= 0:
        return []
    candidates = sorted(files, key=lambda file: file.used)
    for file in candidates:
        _update_weight(file)
    chosen: list[LocalFile] = []
    while size > 0 and candidates:
        spared = []
        for file in candidates:
            if size <= 0:
                break
            if file.weight > 0:
                file.weight -= 1
                spared.append(file)
            else:
                chosen.append(file)
                size -= file.size
        candidates = spared
    return chosen


def _update_weight(file: LocalFile) -> None:
    uses = file.uses
    file.weight = min(WEIGHT_MAX, file.weight + uses - file.uses_weighed)
    file.uses_weighed = uses
