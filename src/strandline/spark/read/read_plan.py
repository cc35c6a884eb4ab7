"""What a query of Spark will read: options and conditions in, parts out.

``pipelines/splits/split_planner.py`` cuts; here is what the options of a read add to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from strandline.pipelines.splits.predicates import Condition, of_triples
from strandline.pipelines.splits.snapshot_position import Position, open_readonly, path_of, pin
from strandline.pipelines.splits.split_planner import file_parts, wanted_range
from strandline.pipelines.splits.split_reader import lake_file, wanted_zones
from strandline.spark.read.options import ReadOptions, parse
from strandline.spark.read.read_location import Place
from strandline.spark.read.tasks import AnyPart
from strandline.store import Store


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a query will read, and what it will not."""

    files: int
    files_skipped: int
    zones: int
    zones_skipped: int
    rows: int
    """Rows of the zones that are read."""
    hot_seqs: int
    """Seqs that are not in the lake."""


def plan(store: str | Store, topic: str, **query: Any) -> Plan:
    """What ``table`` or a read with the same arguments would read. Opens the index of each file."""
    where = of_triples(query.pop("where", ()))
    options = parse({"store": path_of(store), "topic": topic, **as_options(query)})
    with open_readonly(options.store, options.lake) as opened:
        position = pin(opened, options.topics, options.lake)
    conditions = (*options.conditions(), *where)
    told = [0] * 6
    for snapshot in position.topics:
        wanted = wanted_range(snapshot, conditions, options.offsets())
        parts, skipped = file_parts(position, snapshot, wanted, conditions)
        told[1] += skipped
        told[0] += len({part.file.first_seq for part in parts})
        for part in parts:
            file = lake_file(part)
            places, unread = wanted_zones(file, part, conditions)
            told[2] += len(places)
            told[3] += unread
            told[4] += sum(file.zones[place].rows for place in places)
        told[5] += max(0, wanted.last_seq - max(snapshot.hot_seq, wanted.first_seq) + 1)
    return Plan(
        files=told[0],
        files_skipped=told[1],
        zones=told[2],
        zones_skipped=told[3],
        rows=told[4],
        hot_seqs=told[5],
    )


def batch_parts(
    place: Place,
    position: Position,
    options: ReadOptions,
    conditions: Sequence[Condition],
    names: Sequence[str],
) -> list[AnyPart]:
    """All parts of a batch read of records."""
    parts: list[AnyPart] = []
    for snapshot in position.topics:
        wanted = wanted_range(snapshot, conditions, options.offsets())
        parts += file_parts(position, snapshot, wanted, conditions)[0]
        parts += place.hot_parts(position, snapshot, wanted, names, conditions)
    return parts


def as_options(query: dict[str, Any]) -> dict[str, str]:
    """Keyword arguments of ``table`` as options of a read."""
    told = {}
    for name, value in query.items():
        if value is None or value == "":
            continue
        plain = ",".join(value) if isinstance(value, (list, tuple)) else value
        told[name.rstrip("_")] = plain.isoformat() if hasattr(plain, "isoformat") else str(plain)
    return told
