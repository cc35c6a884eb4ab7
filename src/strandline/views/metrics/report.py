"""Reports on a metrics view: how many series there are and why, and the view in numbers."""

from __future__ import annotations

import msgspec

from strandline.views.metrics.fold import MetricsFold


class MeasurementCardinality(msgspec.Struct, frozen=True, kw_only=True):
    """How many series one measurement has, and what makes them many."""

    series: int
    fields: int
    tags: dict[str, int]
    """How many values each tag has."""


class Cardinality(msgspec.Struct, frozen=True, kw_only=True):
    """How many series there are that have points."""

    series: int
    measurements: dict[str, MeasurementCardinality]


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """A metrics view in numbers."""

    points: int
    """Points that are stored; some may be replaced by later ones, or below a floor."""
    blocks: int
    runs: int
    memory_bytes: int
    ignored_records: int
    """Plain records that are no line protocol."""
    other_kind_points: int
    """Points of plain records that were passed over: their field has another kind."""
    below_floor_points: int
    """Points of plain records that were passed over: they were too old."""
    refused_writes: int
    """Writes that were refused, since the view was opened: too old, or of another kind."""


def cardinality_of(fold: MetricsFold) -> Cardinality:
    found = {}
    for measurement in fold.catalogue.sorted():
        live = fold.live_series(measurement)
        if len(live):
            found[measurement.name] = MeasurementCardinality(
                series=len(live),
                fields=len(measurement.fields),
                tags=measurement.series.count_values(live),
            )
    return Cardinality(series=sum(each.series for each in found.values()), measurements=found)


def statistics_of(fold: MetricsFold, *, refused: int) -> Statistics:
    numbers = fold.statistics()
    return Statistics(
        points=numbers["tail_points"] + numbers["run_points"],
        blocks=numbers["blocks"],
        runs=numbers["runs"],
        memory_bytes=numbers["ram_bytes"],
        ignored_records=fold.counts.ignored,
        other_kind_points=fold.counts.other_kind,
        below_floor_points=fold.counts.below_floor,
        refused_writes=refused,
    )
