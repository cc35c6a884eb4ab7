"""What processes of the nursery do to a lake: compact it, in many small groups."""

from __future__ import annotations

from strandline.config.settings import LakeSettings
from strandline.pipelines import compact

GROUPS = LakeSettings(file_bytes=6_000, zone_rows=200)


def compact_in_groups(lake: str) -> None:
    compact(lake, settings=GROUPS)
