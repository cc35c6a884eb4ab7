"""Plans a read of Spark: options and conditions in, parts out.

``pipelines/splits/split_planner.py`` splits; this module adds the options of a read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from strandline.pipelines.splits.predicates import Condition, of_triples
from strandline.pipelines.splits.snapshot_position import (
    StorePosition,
    open_readonly,
    path_of,
    take_position,
)
from strandline.pipelines.splits.split_planner import file_parts, selected_range
from strandline.pipelines.splits.split_reader import lake_file, selected_zones
from strandline.spark.read.options import ReadOptions, parse
from strandline.spark.read.read_location import ReadLocation
from strandline.spark.read.tasks import AnyPart
from strandline.store import Store


class ReadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The files, zones and rows that a query reads and skips."""

    files: int
    files_skipped: int
    zones: int
    zones_skipped: int
    rows: int
    """Rows of the zones that are read."""
    hot_seqs: int
    """Seqs that are not in the lake."""


def plan(store: str | Store, topic: str, **query: Any) -> ReadPlan:
    """The plan of ``table`` or of a read with the same arguments. Opens the index of each file."""
    predicates = of_triples(query.pop("where", ()))
    options = parse({"store": path_of(store), "topic": topic, **as_options(query)})
    with open_readonly(options.store, options.lake) as opened:
        position = take_position(opened, options.topics, options.lake)
    conditions = (*options.conditions(), *predicates)
    counts = [0] * 6
    for snapshot in position.topics:
        span = selected_range(snapshot, conditions, options.offsets())
        parts, skipped = file_parts(position, snapshot, span, conditions)
        counts[1] += skipped
        counts[0] += len({part.file.first_seq for part in parts})
        for part in parts:
            file = lake_file(part)
            read_zones, skipped_zones = selected_zones(file, part, conditions)
            counts[2] += len(read_zones)
            counts[3] += skipped_zones
            counts[4] += sum(file.zones[zone].rows for zone in read_zones)
        counts[5] += max(0, span.last_seq - max(snapshot.hot_seq, span.first_seq) + 1)
    return ReadPlan(
        files=counts[0],
        files_skipped=counts[1],
        zones=counts[2],
        zones_skipped=counts[3],
        rows=counts[4],
        hot_seqs=counts[5],
    )


def batch_parts(
    location: ReadLocation,
    position: StorePosition,
    options: ReadOptions,
    conditions: Sequence[Condition],
    names: Sequence[str],
) -> list[AnyPart]:
    """All parts of a batch read of records."""
    parts: list[AnyPart] = []
    for snapshot in position.topics:
        span = selected_range(snapshot, conditions, options.offsets())
        parts += file_parts(position, snapshot, span, conditions)[0]
        parts += location.hot_parts(position, snapshot, span, names, conditions)
    return parts


def as_options(query: dict[str, Any]) -> dict[str, str]:
    """Keyword arguments of ``table`` as options of a read."""
    options = {}
    for name, value in query.items():
        if value is None or value == "":
            continue
        plain = ",".join(value) if isinstance(value, (list, tuple)) else value
        options[name.rstrip("_")] = plain.isoformat() if hasattr(plain, "isoformat") else str(plain)
    return options
