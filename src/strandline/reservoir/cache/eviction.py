"""Which cached files go first: the least recently used, unless they were used often.

A file has a weight: 0 when it was put there as it was written or found at opening, 1 when somebody
waited for its download, one more for every use since, 5 at most. A scan begins with the file that
was used longest ago. It gives up a file of weight 0; from any other it takes 1 and goes on. So a
file that was used often survives several scans, but none survives for ever without being used.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.reservoir.cache.open_files import LocalFile

WEIGHT_NEW = 0
WEIGHT_DOWNLOADED = 1
WEIGHT_MAX = 5


def victims(files: Iterable[LocalFile], size: int) -> list[LocalFile]:
    """Files to give up for so many bytes, all of them when they have less. Scanning costs the
    others weight."""
    if size <= 0:
        return []
    waiting = sorted(files, key=lambda file: file.used)
    for file in waiting:
        _weigh(file)
    chosen: list[LocalFile] = []
    while size > 0 and waiting:
        spared = []
        for file in waiting:
            if size <= 0:
                break
            if file.weight > 0:
                file.weight -= 1
                spared.append(file)
            else:
                chosen.append(file)
                size -= file.size
        waiting = spared
    return chosen


def _weigh(file: LocalFile) -> None:
    uses = file.uses
    file.weight = min(WEIGHT_MAX, file.weight + uses - file.uses_weighed)
    file.uses_weighed = uses
