"""Reports on a metrics view: the cardinality of series, counts and memory use."""

from __future__ import annotations

import msgspec

from strandline.views.metrics.fold import MetricsFold


class MeasurementCardinality(msgspec.Struct, frozen=True, kw_only=True):
    """The number of series of one measurement, and the tags that multiply them."""

    series: int
    fields: int
    tags: dict[str, int]
    """The number of values of each tag."""


class Cardinality(msgspec.Struct, frozen=True, kw_only=True):
    """The number of series that have points."""

    series: int
    measurements: dict[str, MeasurementCardinality]


class MetricsStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and memory use of a metrics view."""

    points: int
    """Stored points; later points may replace some of them, and some may be below a floor."""
    blocks: int
    runs: int
    memory_bytes: int
    ignored_records: int
    """Plain records that are not line protocol."""
    other_kind_points: int
    """Points of plain records that were skipped: their field has another kind."""
    below_floor_points: int
    """Points of plain records that were skipped: they were too old."""
    refused_writes: int
    """Writes that were rejected since the view was opened: too old, or of another kind."""


def cardinality_of(fold: MetricsFold) -> Cardinality:
    by_name = {}
    for measurement in fold.catalogue.sorted():
        live = fold.live_series(measurement)
        if len(live):
            by_name[measurement.name] = MeasurementCardinality(
                series=len(live),
                fields=len(measurement.fields),
                tags=measurement.series.count_values(live),
            )
    return Cardinality(series=sum(each.series for each in by_name.values()), measurements=by_name)


def statistics_of(fold: MetricsFold, *, refused: int) -> MetricsStatistics:
    numbers = fold.statistics()
    return MetricsStatistics(
        points=numbers["tail_points"] + numbers["run_points"],
        blocks=numbers["blocks"],
        runs=numbers["runs"],
        memory_bytes=numbers["ram_bytes"],
        ignored_records=fold.counts.ignored,
        other_kind_points=fold.counts.other_kind,
        below_floor_points=fold.counts.below_floor,
        refused_writes=refused,
    )
