"""Applies the rules: computes windows that are due, recomputes stale ones, raises floors.

Every step is a decision (views/view_runner.py): it reads the points and appends the result, points
and progress together. A crash before the append leaves nothing of the step; after the append the
step is complete.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pyroaring import BitMap64

from strandline.config.view_config import KINDS
from strandline.errors import Conflict, StrandlineError
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.ingest.batch import PointTable
from strandline.views.metrics.ingest.record_codec import draft_floor, draft_points
from strandline.views.metrics.names import canonical
from strandline.views.metrics.query import field_query
from strandline.views.metrics.query.field_query import EACH, FieldSelection
from strandline.views.metrics.query.result import MetricsResult
from strandline.views.metrics.rules import (
    STALE_MAX,
    DownsamplingRule,
    Progress,
    RetentionRule,
    Rule,
    RuleState,
    aggregated_field,
    aggregates_of,
    align_floor,
    describe,
)
from strandline.views.metrics.storage.catalog import Measurement
from strandline.views.metrics.value_types import INT64_MIN, ValueKind, to_bits
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

POINTS_AT_ONCE = 500_000
"""The approximate number of points that one step writes."""
WINDOWS_AT_ONCE = 256
"""The most windows that one step computes: other callers wait while their points are read."""
BUCKETS_AT_ONCE = 4096
"""The number of buckets of log references that are examined in one run."""


class RuleRunner:
    """Applies the rules of one view. Safe to call from many threads: every step is a decision."""

    def __init__(self, host: ViewRunner[MetricsFold]) -> None:
        self._host = host
        self._bucket = 0

    def run_once(self) -> None:
        """Apply all rules up to the current time. A rule that fails does not stop the others; the
        error of the first is raised, with the messages of all."""
        now_ns = self._host.world.clock.now_us() * 1000
        with self._host.reading() as fold:
            rules = fold.standings.rules()
        failures: list[tuple[Rule, StrandlineError]] = []
        # Downsample before points are removed.
        for rule in sorted(rules, key=lambda rule: isinstance(rule, RetentionRule)):
            try:
                if isinstance(rule, DownsamplingRule):
                    self._downsample(rule, now_ns)
                else:
                    self._raise_floor(rule, now_ns)
            except StrandlineError as error:
                failures.append((rule, error))  # the other rules still run
        if failures:
            raise _joined_error(failures)

    def trim_log(self) -> int:
        """Delete records that are not needed any more; return how many."""
        host = self._host
        if _is_shared(host):
            return 0
        with host.reading() as fold:
            floors = [measurement.floor for measurement in fold.catalogue.measurements]
            removable, self._bucket = fold.log_references.remove_expired(
                floors.__getitem__, self._bucket, BUCKETS_AT_ONCE, host.secured[0]
            )
            removable -= BitMap64(fold.required_records())
        if not removable:
            return 0
        count = host.release(0, removable)
        # No record is left below it: below a floor the log deletes whole files.
        host.release(0, before=host.topics[0].estimate().earliest_seq)
        return count

    def _downsample(self, rule: DownsamplingRule, now_ns: int) -> None:
        complete = complete_at(rule, now_ns)

        def decide(fold: MetricsFold) -> ViewAppend | None:
            standing = fold.standings.find("downsample", rule.into)
            source = fold.catalogue.find(rule.source)
            if standing is None or standing.rule != rule or source is None:
                return None
            return _draft_stale(fold, rule, standing, source) or _draft_due(
                fold, rule, standing, source, complete
            )

        while self._host.decide(decide) is not None:
            pass

    def _raise_floor(self, rule: RetentionRule, now_ns: int) -> None:
        def decide(fold: MetricsFold) -> ViewAppend | None:
            measurement = fold.catalogue.find(rule.measurement)
            standing = fold.standings.find("keep", rule.measurement)
            if measurement is None or standing is None or standing.rule != rule:
                return None
            floor = _highest_floor(fold, measurement, now_ns - rule.keep_ns)
            earliest = _earliest(fold, measurement, measurement.floor)
            if earliest is None or earliest >= floor:
                return None  # no points would be removed
            return draft_floor(rule.measurement, floor)

        self._host.decide(decide)


def _joined_error(failures: list[tuple[Rule, StrandlineError]]) -> StrandlineError:
    """The first error, with the messages of all rules that failed."""
    first = failures[0][1]
    first.args = ("; ".join(f"{describe(rule)}: {error}" for rule, error in failures),)
    return first


def _is_shared(host: ViewRunner[MetricsFold]) -> bool:
    """Whether another view may need the records: then none are deleted."""
    views = host.topics[0].config.views
    return any(getattr(views, kind) is not None for kind in KINDS if kind != host.kind)


def _draft_stale(
    fold: MetricsFold, rule: DownsamplingRule, standing: RuleState, source: Measurement
) -> ViewAppend | None:
    """The draft for stale windows; None if there are none."""
    windows = sorted(standing.stale)[:STALE_MAX]
    if not windows or standing.until is None:
        return None
    tables = [
        table
        for window in windows
        for table in tables_of(fold, rule, source, window, window + rule.window_ns)
    ]
    return draft_points(tables, Progress(rule.into, standing.seq, standing.until, windows))


def _draft_due(
    fold: MetricsFold,
    rule: DownsamplingRule,
    standing: RuleState,
    source: Measurement,
    complete: int,
) -> ViewAppend | None:
    """The draft for the next windows that have ended; None if none are due."""
    due = next_range_due(fold, rule, source, standing.until, complete)
    if due is None:
        return None
    tables = list(tables_of(fold, rule, source, *due))
    return draft_points(tables, Progress(rule.into, standing.seq, due[1]))


def complete_at(rule: DownsamplingRule, now_ns: int) -> int:
    """The end of the last window that has ended, the delay included."""
    return (now_ns - rule.delay_ns) // rule.window_ns * rule.window_ns


def next_range_due(
    fold: MetricsFold, rule: DownsamplingRule, source: Measurement, until: int | None, complete: int
) -> tuple[int, int] | None:
    """The time range of the next step of a rule with this progress; None if nothing is due."""
    width = rule.window_ns
    begin = -(-source.floor // width) * width if source.floor > INT64_MIN else INT64_MIN
    if until is not None:
        begin = max(begin, until)
    earliest = _earliest(fold, source, begin)
    if earliest is None or earliest // width * width >= complete:
        return None
    first = max(begin, earliest // width * width)
    each = max(1, len(source.series) * len(source.fields) * len(rule.aggregates))
    step = min(WINDOWS_AT_ONCE, max(1, POINTS_AT_ONCE // each))
    return first, min(complete, first + step * width)


def tables_of(
    fold: MetricsFold, rule: DownsamplingRule, source: Measurement, first: int, until: int
) -> Iterator[PointTable]:
    """The aggregates of the windows between two times, as batches."""
    aggregates = aggregates_of(rule)
    for name in sorted(source.fields):
        selection = FieldSelection(source.name, name, (), first, until)
        by = EACH if rule.by is None else rule.by
        results = field_query.aggregate_field(
            fold, selection, aggregates, width=rule.window_ns, by=by, unfit="left out"
        )
        for aggregate, result in zip(aggregates, results, strict=True):
            kind = aggregate.kind(source.fields[name].kind)
            table = _table(fold, rule, aggregated_field(name, aggregate), kind, result)
            if table is not None:
                yield table


def _table(
    fold: MetricsFold, rule: DownsamplingRule, field: str, kind: ValueKind, result: MetricsResult
) -> PointTable | None:
    result = result.replace(chosen=np.isfinite(result.values))
    if not len(result):
        return None
    target = fold.catalogue.find(rule.into)
    known = None if target is None else target.fields.get(field)
    if known is not None and known.kind is not kind:
        raise Conflict(
            f"field {field!r} of {rule.into!r} is {known.kind.label}, but the aggregate of "
            f"{rule.source!r} is {kind.label}: downsample into another measurement"
        )
    used, rows = np.unique(result.group, return_inverse=True)
    tags = [result.groups[index] for index in used.tolist()]
    packed = [canonical({tag: value for tag, value in each.items() if value}) for each in tags]
    return PointTable(
        measurement=rule.into,
        fields=((field, kind),),
        series=packed,
        rows=None if len(packed) == 1 else rows.astype("<i8"),
        at=result.at,
        columns=[to_bits(result.values, kind)],
    )


def _highest_floor(fold: MetricsFold, measurement: Measurement, floor_max: int) -> int:
    """The highest floor, at most ``floor_max``, that keeps the points that rules still need."""
    states = fold.standings.of_source(measurement.name)
    for state in states:
        begin = measurement.floor if state.until is None else state.until
        earliest = _earliest(fold, measurement, begin)
        floor_max = min(floor_max, *state.stale, floor_max if earliest is None else earliest)
    return align_floor(
        floor_max, [each.rule for each in states if isinstance(each.rule, DownsamplingRule)]
    )


def _earliest(fold: MetricsFold, measurement: Measurement, first: int) -> int | None:
    """The time of the first point from ``first`` on; exact to the block, never too late."""
    times = (fold.reader.earliest(field.number, first) for field in measurement.fields.values())
    return min((at for at in times if at is not None), default=None)
