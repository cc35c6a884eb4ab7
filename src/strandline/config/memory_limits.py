"""Limits settings by the memory budget: no buffer and no cache is larger than its share allows.

With the default budget nothing changes. With a smaller budget the jobs work in smaller steps and
the caches are smaller, so that ``views.memory_bytes`` is what the store uses.

    setting                       at most         because memory holds
    wal.file_size_max             log / 4         two log files, while a checkpoint reads them
    segment.checkpoint_bytes      log / 4         the records of a checkpoint
    segment.seal_bytes            log / 4         the records that are sealed, or merged, together
    segment.cache_bytes           cache / 2       blocks
    lake.cache_bytes              cache / 2       zones
    lake.zone_bytes               io / 8          a zone as rows, columns and bytes, and the next
    lake.file_bytes               16 such zones   the filters of a file's zones, until it is written

No buffer works well below a mebibyte: none is reduced further.
"""

from __future__ import annotations

import msgspec

from strandline.config.memory_budget import Budget
from strandline.config.settings import MIB, LakeSettings, Settings

_BUFFER_MIN = MIB
_ZONES_IN_FILE = LakeSettings().file_bytes // LakeSettings().zone_bytes


def within_budget(settings: Settings) -> Settings:
    """The settings with buffers and caches reduced to what the budget allows."""
    budget = Budget(settings.views.memory_bytes)
    log, cache, io = (budget.share(name).limit for name in ("log", "cache", "io"))
    step = max(_BUFFER_MIN, log // 4)
    zone = max(_BUFFER_MIN, io // 8)
    wal, segment, lake = settings.wal, settings.segment, settings.lake
    return msgspec.structs.replace(
        settings,
        wal=msgspec.structs.replace(wal, file_size_max=min(wal.file_size_max, step)),
        segment=msgspec.structs.replace(
            segment,
            checkpoint_bytes=min(segment.checkpoint_bytes, step),
            seal_bytes=min(segment.seal_bytes, step),
            cache_bytes=min(segment.cache_bytes, cache // 2),
        ),
        lake=msgspec.structs.replace(
            lake,
            cache_bytes=min(lake.cache_bytes, cache // 2),
            zone_bytes=min(lake.zone_bytes, zone),
            file_bytes=min(lake.file_bytes, _ZONES_IN_FILE * zone),
        ),
    )
