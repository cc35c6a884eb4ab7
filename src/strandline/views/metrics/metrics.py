"""The public API of a metrics view: measurements with tags and numeric fields.

    metrics.write("cpu", {"host": "web-1"}, {"load": 0.7}, at=1_700_000_000_000_000_000)
    metrics.write_lines("cpu,host=web-1 load=0.7 1700000000000000000")
    metrics.query('cpu{host=~"^web"}[1h] | window(5m) | avg by (host)')

A write is checked before it is appended: if any part of it is invalid, nothing of it is written.
It is one batch of the log, so after a crash all of it is there, or nothing. When the call returns,
every query sees the points.

Points of the same series, field and time replace each other: the last one written counts, however
late it arrives.

A time is in nanoseconds since 1970, or a datetime, of Python or of numpy; without a zone it is UTC.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Literal

from strandline.errors import Invalid, StrandlineError
from strandline.records import AppendResult
from strandline.views.metrics.aggregates import parse_aggregate
from strandline.views.metrics.external_rollups import append_external_windows
from strandline.views.metrics.fold import TAIL_POINTS_MAX, MetricsFold
from strandline.views.metrics.ingest.batch import PointRow, PointTable
from strandline.views.metrics.ingest.column_input import row_of, tables_of
from strandline.views.metrics.ingest.record_codec import draft_points, draft_row, draft_rule
from strandline.views.metrics.ingest.strict_parser import parse
from strandline.views.metrics.names import tags_of
from strandline.views.metrics.query import executor, field_query
from strandline.views.metrics.query.durations import Moment, at_ns, duration_ns
from strandline.views.metrics.query.field_query import EACH, FieldSelection
from strandline.views.metrics.query.result import MetricsResult
from strandline.views.metrics.report import (
    Cardinality,
    MetricsStatistics,
    cardinality_of,
    statistics_of,
)
from strandline.views.metrics.rule_runner import RuleRunner
from strandline.views.metrics.rules import (
    DownsamplingRule,
    RetentionRule,
    Rule,
    RuleRemoval,
    check_rule,
    name_of,
)
from strandline.views.metrics.storage.series_index import Matcher
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX, INT64_MIN, ValueKind
from strandline.views.rollup_windows import RollupWindows
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

POINT_BYTES = 24
"""Memory that a point takes until it is in a block."""
SERIES_BYTES = 400
"""Memory that a series takes while it has points."""

Duration = str | int
"""``"5m"``, or nanoseconds."""


class Metrics:
    """A metrics view of a topic. Safe to call from many threads."""

    def __init__(self, host: ViewRunner[MetricsFold]) -> None:
        self._host = host
        self._runner = RuleRunner(host)
        self._refused = 0
        host.world.share.add_evictor(_evictor(weakref.ref(host)))

    @property
    def name(self) -> str:
        """The name of its topic."""
        return self._host.name

    def __repr__(self) -> str:
        return f"Metrics({self.name!r})"

    def write(
        self,
        measurement: str,
        tags: Mapping[str, str],
        fields: Mapping[str, float | int | bool],
        at: Moment | None = None,
    ) -> AppendResult:
        """Write one point for each field, at time ``at``, or at the current time without it."""
        when = self._now_ns() if at is None else at_ns(at)
        row = row_of(measurement, tags, fields, when, self._kinds(measurement))
        self._host.world.share.admit(POINT_BYTES * len(row.bits) + SERIES_BYTES)
        return self._append_checked([row], draft_row(row))

    def write_lines(
        self, text: str | bytes, *, precision: Literal["ns", "us", "ms", "s"] = "ns"
    ) -> AppendResult | None:
        """Write line protocol; None if it has no line. An error names line and column."""
        tables = parse(text, precision=precision, now_ns=self._now_ns())
        return self._append(tables) if tables else None

    def write_table(
        self, measurement: str, table: Any, *, at: str = "at", tags: Sequence[str] = ()
    ) -> AppendResult | None:
        """Write an Arrow table or a dict of arrays: a column of times, columns of tags and fields.

        Return None if there is no value.
        """
        kinds = self._kinds(measurement)
        tables = tables_of(measurement, table, at=at, tags=tags, kind_of=kinds)
        return self._append(tables) if tables else None

    def query(self, text: str) -> MetricsResult:
        """Run a query of the pipe language (views/metrics/query/parser.py)."""
        planned = executor.plan(text, self._now_ns())
        with self._host.reading() as fold:
            result = executor.read_fold(fold, planned)
        return executor.apply_steps(result, planned)

    def read(
        self,
        measurement: str,
        field: str | None = None,
        *,
        tags: Mapping[str, str] | None = None,
        first: Moment = AT_MIN,
        next: Moment = INT64_MAX,
        limit: int | None = None,
    ) -> MetricsResult:
        """Points of a field, from ``first`` on and before ``next``; at most ``limit`` per series.

        Without ``field`` it reads the only field, or the one named value.
        """
        selection = FieldSelection(measurement, field, _equal(tags), *_between(first, next))
        with self._host.reading() as fold:
            return field_query.points(fold, selection, limit)

    def aggregate(
        self,
        measurement: str,
        aggregate: str,
        field: str | None = None,
        *,
        window: Duration | None = None,
        by: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        first: Moment = AT_MIN,
        next: Moment = INT64_MAX,
    ) -> MetricsResult:
        """One value for each group and window: ``avg``, ``percentile(95)``, ... (aggregates.py).

        ``by`` names tags to group by; without tags there is one group, and with "*" each series is
        a group.
        """
        width = None if window is None else duration_ns(window)
        selection = FieldSelection(measurement, field, _equal(tags), *_between(first, next))
        groups = _tags_of(by)
        with self._host.reading() as fold:
            (result,) = field_query.aggregate_field(
                fold, selection, [parse_aggregate(aggregate)], width=width, by=groups
            )
        return result

    def measurements(self) -> list[str]:
        """The names of the measurements that have points."""
        with self._host.reading() as fold:
            return [each.name for each in fold.catalogue.sorted() if len(fold.live_series(each))]

    def fields(self, measurement: str) -> dict[str, str]:
        """The fields of a measurement, with the kind of their values."""
        with self._host.reading() as fold:
            known = fold.catalogue.find(measurement)
            fields = {} if known is None else known.fields
            return {name: fields[name].kind.label for name in sorted(fields)}

    def series(
        self, measurement: str, tags: Mapping[str, str] | None = None
    ) -> list[dict[str, str]]:
        """The tags of each series that has points, in order."""
        with self._host.reading() as fold:
            known = fold.catalogue.find(measurement)
            if known is None:
                return []
            live = set(fold.live_series(known).tolist())
            numbers = [n for n in known.series.match(_equal(tags)).tolist() if n in live]
            packed = sorted(map(known.series.packed, numbers))
        return [tags_of(each) for each in packed]

    def cardinality(self) -> Cardinality:
        """The number of series, and the number of values of each tag."""
        with self._host.reading() as fold:
            return cardinality_of(fold)

    def keep(self, measurement: str, duration: Duration) -> None:
        """Remove points of a measurement that are older than this. Writes of older points fail."""
        self._apply_rule(RetentionRule(measurement=measurement, keep_ns=duration_ns(duration)))

    def keep_all(self, measurement: str) -> None:
        """Remove the retention rule of a measurement: its points stay from now on."""
        self._apply_rule(RuleRemoval(kind="keep", measurement=measurement))

    def downsample(
        self,
        source: str,
        *,
        into: str,
        window: Duration,
        aggregates: Sequence[str] = ("avg",),
        by: Sequence[str] = EACH,
        delay: Duration = 0,
    ) -> None:
        """Write one point to another measurement for each window of a field: load -> load_avg.

        A window is computed ``delay`` after it has ended; late points cause it to be recomputed.
        """
        groups = _tags_of(by)
        rule = DownsamplingRule(
            source=source,
            into=into,
            window_ns=duration_ns(window),
            aggregates=tuple(aggregates),
            by=None if groups == EACH else tuple(groups),
            delay_ns=duration_ns(delay) if delay else 0,
        )
        self._apply_rule(rule)

    def stop_downsampling(self, into: str) -> None:
        """Remove the rule that downsamples into this measurement; its points stay."""
        self._apply_rule(RuleRemoval(kind="downsample", measurement=into))

    def rules(self) -> list[Rule]:
        """The rules in force."""
        with self._host.reading() as fold:
            return fold.standings.rules()

    def run_once(self) -> None:
        """Apply the rules: compute windows that have ended, remove points that are too old."""
        self._runner.run_once()

    def accept(self, windows: RollupWindows, draft: ViewAppend) -> bool:
        """Append windows of a rule that another process computed; False if they are not valid."""
        return append_external_windows(self._host, windows, draft)

    def maintain(self) -> None:
        """Apply the rules, and delete records of the log that are not needed any more."""
        try:
            self._runner.run_once()
        finally:
            self._runner.trim_log()

    def statistics(self) -> MetricsStatistics:
        """Counts and memory use of the view."""
        with self._host.reading() as fold:
            return statistics_of(fold, refused=self._refused)

    def _append(self, tables: list[PointTable]) -> AppendResult:
        points = min(TAIL_POINTS_MAX, sum(table.points for table in tables))
        self._host.world.share.admit(POINT_BYTES * points + SERIES_BYTES * self._count_new(tables))
        return self._append_checked(tables, draft_points(tables))

    def _append_checked(
        self, written: Sequence[PointTable | PointRow], draft: ViewAppend
    ) -> AppendResult:
        if self._is_known(written):
            return self._host.append(draft)

        def decide(fold: MetricsFold) -> ViewAppend:
            for each in written:
                self._check(fold, each)
            return draft

        appended = self._host.decide(decide)
        assert appended is not None, "the decision always returns a draft"
        return appended

    def _count_new(self, tables: list[PointTable]) -> int:
        """The approximate number of new series, counted without the lock."""
        find = self._host.fold.catalogue.find
        count = 0
        for table in tables:
            measurement = find(table.measurement)
            known: Container[bytes] = () if measurement is None else measurement.series.by_tags
            count += sum(packed not in known for packed in table.series)
        return count

    def _is_known(self, written: Sequence[PointTable | PointRow]) -> bool:
        """Whether every field exists with the right kind, and no point is too old.

        Checked without the lock: the kind of a field never changes, and a floor that rises during
        the check has the same effect as one that rises just after the append.
        """
        find = self._host.fold.catalogue.find
        for each in written:
            measurement = find(each.measurement)
            if measurement is None or _earliest(each) < measurement.floor:
                return False
            for name, kind in each.fields:
                field = measurement.fields.get(name)
                if field is None or field.kind is not kind:
                    return False
        return True

    def _check(self, fold: MetricsFold, written: PointTable | PointRow) -> None:
        measurement = fold.catalogue.find(written.measurement)
        if measurement is None:
            return
        for name, kind in written.fields:
            field = measurement.fields.get(name)
            if field is not None and field.kind is not kind:
                self._refused += 1
                raise Invalid(
                    f"field {name!r} of {measurement.name!r} is {field.kind.label}, not "
                    f"{kind.label}; nothing was written"
                )
        oldest = _earliest(written)
        if oldest < measurement.floor:
            self._refused += 1
            raise Invalid(
                f"a point of {measurement.name!r} at {oldest} is too old: points before "
                f"{measurement.floor} are removed; nothing was written"
            )

    def _kinds(self, measurement: str) -> Any:
        """A function that returns the kind of a field, or None for an unknown field."""
        known = self._host.fold.catalogue.find(measurement)
        fields = {} if known is None else known.fields

        def kind_of(name: str) -> ValueKind | None:
            field = fields.get(name)
            return None if field is None else field.kind

        return kind_of

    def _apply_rule(self, rule: Rule | RuleRemoval) -> None:
        def decide(fold: MetricsFold) -> ViewAppend | None:
            standing = fold.standings.find(*name_of(rule))
            if isinstance(rule, RuleRemoval):
                return None if standing is None else draft_rule(rule)
            check_rule(rule, fold.standings.rules())
            return None if standing is not None and standing.rule == rule else draft_rule(rule)

        self._host.decide(decide)

    def _now_ns(self) -> int:
        return self._host.world.clock.now_us() * 1000


def _evictor(host: weakref.ref[ViewRunner[MetricsFold]]) -> Callable[[int], int]:
    """Frees memory of a view, if it still exists. A failure frees nothing and is not reported."""

    def evict(size: int) -> int:
        runner = host()
        if runner is None or not runner.lock.acquire(blocking=False):
            return 0
        try:
            return runner.fold.evict(size)
        except (StrandlineError, OSError):
            return 0
        finally:
            runner.lock.release()

    return evict


def _earliest(written: PointTable | PointRow) -> int:
    return written.at if isinstance(written, PointRow) else int(written.at.min())


def _equal(tags: Mapping[str, str] | None) -> tuple[Matcher, ...]:
    return tuple(Matcher(tag, "=", value) for tag, value in (tags or {}).items())


def _between(first: Moment, next: Moment) -> tuple[int, int]:
    # Bounds before or after all valid times are allowed here.
    return at_ns(first, INT64_MIN, INT64_MAX), at_ns(next, INT64_MIN, INT64_MAX)


def _tags_of(by: Sequence[str]) -> Sequence[str]:
    if isinstance(by, str) and by != EACH:
        raise Invalid(f'by={by!r} is one string: give a list of tags, or "*" for each series')
    return by if by == EACH else tuple(by)
