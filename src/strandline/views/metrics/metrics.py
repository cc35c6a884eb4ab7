"""Measurements with tags and numeric fields: the face of the view.

    metrics.write("cpu", {"host": "web-1"}, {"load": 0.7}, at=1_700_000_000_000_000_000)
    metrics.write_lines("cpu,host=web-1 load=0.7 1700000000000000000")
    metrics.query('cpu{host=~"^web"}[1h] | window(5m) | avg by (host)')

A write is checked before it is appended: when anything is wrong with it, nothing of it is written.
It is one batch of the log, so all of it is there after a crash, or nothing. When it returns, every
question sees it.

Points of the same series, field and time replace each other: the last one written counts, however
late it comes.

A time is in nanoseconds since 1970, or a datetime, of Python or of numpy; without a zone it is UTC.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Literal

from strandline.errors import Invalid, StrandlineError
from strandline.records import Appended
from strandline.views.metrics.aggregates import parse_aggregate
from strandline.views.metrics.external_rollups import accept
from strandline.views.metrics.fold import TAIL_POINTS_MAX, MetricsFold
from strandline.views.metrics.ingest.batch import Row, Table
from strandline.views.metrics.ingest.column_input import row_of, tables_of
from strandline.views.metrics.ingest.record_codec import draft_points, draft_row, draft_rule
from strandline.views.metrics.ingest.strict_parser import parse
from strandline.views.metrics.names import tags_of
from strandline.views.metrics.query import executor, field_query
from strandline.views.metrics.query.durations import Moment, at_ns, duration_ns
from strandline.views.metrics.query.field_query import EACH, Question
from strandline.views.metrics.query.result import Answer
from strandline.views.metrics.report import Cardinality, Statistics, cardinality_of, statistics_of
from strandline.views.metrics.rule_runner import Upkeep
from strandline.views.metrics.rules import Downsample, Keep, Removed, Rule, checked, name_of
from strandline.views.metrics.storage.series_index import Matcher
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX, INT64_MIN, Kind
from strandline.views.rollup_windows import MadeWindows
from strandline.views.view import Draft
from strandline.views.view_runner import Host

POINT_BYTES = 24
"""What a point takes in memory, until it is in a block."""
SERIES_BYTES = 400
"""What a series takes in memory, as long as it has points."""

Duration = str | int
"""``"5m"``, or nanoseconds."""


class Metrics:
    """A metrics view of a topic. Safe from many threads."""

    def __init__(self, host: Host[MetricsFold]) -> None:
        self._host = host
        self._upkeep = Upkeep(host)
        self._refused = 0
        host.world.share.evicts(_evictor(weakref.ref(host)))

    @property
    def name(self) -> str:
        """That of its topic."""
        return self._host.name

    def __repr__(self) -> str:
        return f"Metrics({self.name!r})"

    def write(
        self,
        measurement: str,
        tags: Mapping[str, str],
        fields: Mapping[str, float | int | bool],
        at: Moment | None = None,
    ) -> Appended:
        """One point for each field, at a time; without one, now."""
        when = self._now_ns() if at is None else at_ns(at)
        row = row_of(measurement, tags, fields, when, self._kinds(measurement))
        self._host.world.share.admit(POINT_BYTES * len(row.bits) + SERIES_BYTES)
        return self._place([row], draft_row(row))

    def write_lines(
        self, text: str | bytes, *, precision: Literal["ns", "us", "ms", "s"] = "ns"
    ) -> Appended | None:
        """Line protocol; None when there is no line. An error names line and column."""
        tables = parse(text, precision=precision, now_ns=self._now_ns())
        return self._append(tables) if tables else None

    def write_table(
        self, measurement: str, table: Any, *, at: str = "at", tags: Sequence[str] = ()
    ) -> Appended | None:
        """Columns: an Arrow table or a dict of arrays, with one of times, tags, and fields.

        None when there is no value.
        """
        kinds = self._kinds(measurement)
        tables = tables_of(measurement, table, at=at, tags=tags, kind_of=kinds)
        return self._append(tables) if tables else None

    def query(self, text: str) -> Answer:
        """The answer to a query in the pipe language (views/metrics/query/parser.py)."""
        planned = executor.plan(text, self._now_ns())
        with self._host.reading() as fold:
            answer = executor.ask(fold, planned)
        return executor.finish(answer, planned)

    def read(
        self,
        measurement: str,
        field: str | None = None,
        *,
        tags: Mapping[str, str] | None = None,
        first: Moment = AT_MIN,
        next: Moment = INT64_MAX,
        limit: int | None = None,
    ) -> Answer:
        """Points of a field, from ``first`` on and before ``next``, of each series up to a limit.

        Without a field it is the only one, or the one named value.
        """
        question = Question(measurement, field, _equal(tags), *_between(first, next))
        with self._host.reading() as fold:
            return field_query.points(fold, question, limit)

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
    ) -> Answer:
        """One value for each group and window: ``avg``, ``percentile(95)``, ... (aggregates.py).

        ``by`` names tags; none puts everything together, and "*" leaves each series by itself.
        """
        width = None if window is None else duration_ns(window)
        question = Question(measurement, field, _equal(tags), *_between(first, next))
        groups = _tags_of(by)
        with self._host.reading() as fold:
            (answer,) = field_query.aggregated(
                fold, question, [parse_aggregate(aggregate)], width=width, by=groups
            )
        return answer

    def measurements(self) -> list[str]:
        """Those that have points."""
        with self._host.reading() as fold:
            return [each.name for each in fold.catalogue.sorted() if len(fold.live_series(each))]

    def fields(self, measurement: str) -> dict[str, str]:
        """The fields of a measurement, and the kind of their values."""
        with self._host.reading() as fold:
            found = fold.catalogue.find(measurement)
            fields = {} if found is None else found.fields
            return {name: fields[name].kind.label for name in sorted(fields)}

    def series(
        self, measurement: str, tags: Mapping[str, str] | None = None
    ) -> list[dict[str, str]]:
        """The tags of the series that have points, in order."""
        with self._host.reading() as fold:
            found = fold.catalogue.find(measurement)
            if found is None:
                return []
            live = set(fold.live_series(found).tolist())
            numbers = [n for n in found.series.match(_equal(tags)).tolist() if n in live]
            packed = sorted(map(found.series.packed, numbers))
        return [tags_of(each) for each in packed]

    def cardinality(self) -> Cardinality:
        """How many series there are, and which tags make them many."""
        with self._host.reading() as fold:
            return cardinality_of(fold)

    def keep(self, measurement: str, duration: Duration) -> None:
        """Points of a measurement go when they are older than this. Late ones are refused."""
        self._rule(Keep(measurement=measurement, keep_ns=duration_ns(duration)))

    def keep_all(self, measurement: str) -> None:
        """Points of a measurement stay from now on."""
        self._rule(Removed(kind="keep", measurement=measurement))

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
        """Make one point of another measurement for each window of a field: load -> load_avg.

        A window is made when it is over, and ``delay`` after that; late points make it again.
        """
        groups = _tags_of(by)
        rule = Downsample(
            source=source,
            into=into,
            window_ns=duration_ns(window),
            aggregates=tuple(aggregates),
            by=None if groups == EACH else tuple(groups),
            delay_ns=duration_ns(delay) if delay else 0,
        )
        self._rule(rule)

    def stop_downsampling(self, into: str) -> None:
        """Nothing is made into this measurement any more; what is there stays."""
        self._rule(Removed(kind="downsample", measurement=into))

    def rules(self) -> list[Rule]:
        """What holds."""
        with self._host.reading() as fold:
            return fold.standings.rules()

    def run_once(self) -> None:
        """Apply the rules: make windows that are over, drop what is too old."""
        self._upkeep.run_once()

    def accept(self, windows: MadeWindows, draft: Draft) -> bool:
        """Append windows of a rule that were made elsewhere; False when they no longer hold."""
        return accept(self._host, windows, draft)

    def maintain(self) -> None:
        """Apply the rules, and let records of the log go that no longer matter."""
        try:
            self._upkeep.run_once()
        finally:
            self._upkeep.let_go()

    def statistics(self) -> Statistics:
        """The view in numbers."""
        with self._host.reading() as fold:
            return statistics_of(fold, refused=self._refused)

    def _append(self, tables: list[Table]) -> Appended:
        points = min(TAIL_POINTS_MAX, sum(table.points for table in tables))
        self._host.world.share.admit(POINT_BYTES * points + SERIES_BYTES * self._new(tables))
        return self._place(tables, draft_points(tables))

    def _place(self, written: Sequence[Table | Row], draft: Draft) -> Appended:
        if self._is_known(written):
            return self._host.append(draft)

        def decision(fold: MetricsFold) -> Draft:
            for each in written:
                self._check(fold, each)
            return draft

        appended = self._host.decide(decision)
        assert appended is not None, "the decision always says something"
        return appended

    def _new(self, tables: list[Table]) -> int:
        """About how many series are new, looked at without the lock."""
        find = self._host.fold.catalogue.find
        count = 0
        for table in tables:
            found = find(table.measurement)
            known: Container[bytes] = () if found is None else found.series.by_tags
            count += sum(packed not in known for packed in table.series)
        return count

    def _is_known(self, written: Sequence[Table | Row]) -> bool:
        """Whether every field is there, with the right kind, and no point is too old.

        Looked at without the lock: a kind never changes once it is there, and a floor that rises
        now might as well rise when the points are in.
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

    def _check(self, fold: MetricsFold, written: Table | Row) -> None:
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
                f"{measurement.floor} are gone; nothing was written"
            )

    def _kinds(self, measurement: str) -> Any:
        """What kind each field has, as far as it is known."""
        found = self._host.fold.catalogue.find(measurement)
        fields = {} if found is None else found.fields

        def kind_of(name: str) -> Kind | None:
            field = fields.get(name)
            return None if field is None else field.kind

        return kind_of

    def _rule(self, rule: Rule | Removed) -> None:
        def decision(fold: MetricsFold) -> Draft | None:
            standing = fold.standings.find(*name_of(rule))
            if isinstance(rule, Removed):
                return None if standing is None else draft_rule(rule)
            checked(rule, fold.standings.rules())
            return None if standing is not None and standing.rule == rule else draft_rule(rule)

        self._host.decide(decision)

    def _now_ns(self) -> int:
        return self._host.world.clock.now_us() * 1000


def _evictor(host: weakref.ref[Host[MetricsFold]]) -> Callable[[int], int]:
    """Frees memory of a view that may be gone by then. Who needs memory is told of no failure."""

    def evict(wanted: int) -> int:
        found = host()
        if found is None or not found.lock.acquire(blocking=False):
            return 0
        try:
            return found.fold.evict(wanted)
        except (StrandlineError, OSError):
            return 0
        finally:
            found.lock.release()

    return evict


def _earliest(written: Table | Row) -> int:
    return written.at if isinstance(written, Row) else int(written.at.min())


def _equal(tags: Mapping[str, str] | None) -> tuple[Matcher, ...]:
    return tuple(Matcher(tag, "=", value) for tag, value in (tags or {}).items())


def _between(first: Moment, next: Moment) -> tuple[int, int]:
    # What is before or behind all times is fine here.
    return at_ns(first, INT64_MIN, INT64_MAX), at_ns(next, INT64_MIN, INT64_MAX)


def _tags_of(by: Sequence[str]) -> Sequence[str]:
    if isinstance(by, str) and by != EACH:
        raise Invalid(f'by={by!r} is one string: give a list of tags, or "*" for each series')
    return by if by == EACH else tuple(by)
