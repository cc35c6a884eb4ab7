"""Does what the rules say: makes windows that are due, makes stale ones again, raises floors.

Every step is a decision (views/view_runner.py): it looks at the points, and what it appends is the
outcome, points and progress together. A crash before that leaves nothing, one after it nothing to
do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pyroaring import BitMap64

from strandline.config.view_config import KINDS
from strandline.errors import Conflict, StrandlineError
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.ingest.batch import Table
from strandline.views.metrics.ingest.record_codec import draft_floor, draft_points
from strandline.views.metrics.names import canonical
from strandline.views.metrics.query import field_query
from strandline.views.metrics.query.field_query import EACH, Question
from strandline.views.metrics.query.result import Answer
from strandline.views.metrics.rules import (
    STALE_MAX,
    Downsample,
    Keep,
    Progress,
    Rule,
    Standing,
    aggregates_of,
    aligned,
    describe,
    field_made,
)
from strandline.views.metrics.storage.catalog import Measurement
from strandline.views.metrics.value_types import INT64_MIN, Kind, to_bits
from strandline.views.view import Draft
from strandline.views.view_runner import Host

POINTS_AT_ONCE = 500_000
"""About so many points are made in one step."""
WINDOWS_AT_ONCE = 256
"""And of so many windows at most: others wait while their points are read."""
BUCKETS_AT_ONCE = 4096
"""So many buckets of records are looked at in one turn."""


class Upkeep:
    """Applies the rules of one view. Safe from many threads: every step is a decision."""

    def __init__(self, host: Host[MetricsFold]) -> None:
        self._host = host
        self._bucket = 0

    def run_once(self) -> None:
        """Bring everything up to this moment. A rule that fails does not hinder the others; what
        is raised is the error of the first, and tells of all."""
        now_ns = self._host.world.clock.now_us() * 1000
        with self._host.reading() as fold:
            rules = fold.standings.rules()
        failures: list[tuple[Rule, StrandlineError]] = []
        for rule in sorted(rules, key=lambda rule: isinstance(rule, Keep)):  # first make, then drop
            try:
                if isinstance(rule, Downsample):
                    self._downsample(rule, now_ns)
                else:
                    self._raise_floor(rule, now_ns)
            except StrandlineError as error:
                failures.append((rule, error))  # the others are not to wait for it
        if failures:
            raise _told(failures)

    def let_go(self) -> int:
        """Let records go that no longer matter; how many."""
        host = self._host
        if _is_shared(host):
            return 0
        with host.reading() as fold:
            floors = [measurement.floor for measurement in fold.catalogue.measurements]
            gone, self._bucket = fold.lives.take(
                floors.__getitem__, self._bucket, BUCKETS_AT_ONCE, host.secured[0]
            )
            gone -= BitMap64(fold.kept_records())
        if not gone:
            return 0
        count = host.release(0, gone)
        # Below that nothing is left, and what is below a floor goes by whole files.
        host.release(0, before=host.topics[0].estimate().earliest_seq)
        return count

    def _downsample(self, rule: Downsample, now_ns: int) -> None:
        complete = complete_at(rule, now_ns)

        def decision(fold: MetricsFold) -> Draft | None:
            standing = fold.standings.find("downsample", rule.into)
            source = fold.catalogue.find(rule.source)
            if standing is None or standing.rule != rule or source is None:
                return None
            return _stale(fold, rule, standing, source) or _due(
                fold, rule, standing, source, complete
            )

        while self._host.decide(decision) is not None:
            pass

    def _raise_floor(self, rule: Keep, now_ns: int) -> None:
        def decision(fold: MetricsFold) -> Draft | None:
            measurement = fold.catalogue.find(rule.measurement)
            standing = fold.standings.find("keep", rule.measurement)
            if measurement is None or standing is None or standing.rule != rule:
                return None
            floor = _floor(fold, measurement, now_ns - rule.keep_ns)
            earliest = _earliest(fold, measurement, measurement.floor)
            if earliest is None or earliest >= floor:
                return None  # nothing would go
            return draft_floor(rule.measurement, floor)

        self._host.decide(decision)


def _told(failures: list[tuple[Rule, StrandlineError]]) -> StrandlineError:
    """The first error, with what all the rules have to say."""
    first = failures[0][1]
    first.args = ("; ".join(f"{describe(rule)}: {error}" for rule, error in failures),)
    return first


def _is_shared(host: Host[MetricsFold]) -> bool:
    """Whether another view may need the records: then all of them stay."""
    views = host.topics[0].config.views
    return any(getattr(views, kind) is not None for kind in KINDS if kind != host.kind)


def _stale(
    fold: MetricsFold, rule: Downsample, standing: Standing, source: Measurement
) -> Draft | None:
    """Windows that have changed after they were made."""
    windows = sorted(standing.stale)[:STALE_MAX]
    if not windows or standing.until is None:
        return None
    tables = [
        table
        for window in windows
        for table in tables_of(fold, rule, source, window, window + rule.window_ns)
    ]
    return draft_points(tables, Progress(rule.into, standing.seq, standing.until, windows))


def _due(
    fold: MetricsFold, rule: Downsample, standing: Standing, source: Measurement, complete: int
) -> Draft | None:
    """The next windows that are over and not made."""
    due = next_due(fold, rule, source, standing.until, complete)
    if due is None:
        return None
    tables = list(tables_of(fold, rule, source, *due))
    return draft_points(tables, Progress(rule.into, standing.seq, due[1]))


def complete_at(rule: Downsample, now_ns: int) -> int:
    """Windows before this are over."""
    return (now_ns - rule.delay_ns) // rule.window_ns * rule.window_ns


def next_due(
    fold: MetricsFold, rule: Downsample, source: Measurement, until: int | None, complete: int
) -> tuple[int, int] | None:
    """Where the next windows begin and end that are made in one step, when a rule is so far."""
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
    fold: MetricsFold, rule: Downsample, source: Measurement, first: int, following: int
) -> Iterator[Table]:
    """What the windows between two times come to."""
    aggregates = aggregates_of(rule)
    for name in sorted(source.fields):
        question = Question(source.name, name, (), first, following)
        by = EACH if rule.by is None else rule.by
        found = field_query.aggregated(
            fold, question, aggregates, width=rule.window_ns, by=by, unfit="left out"
        )
        for aggregate, answer in zip(aggregates, found, strict=True):
            kind = aggregate.kind(source.fields[name].kind)
            table = _table(fold, rule, field_made(name, aggregate), kind, answer)
            if table is not None:
                yield table


def _table(
    fold: MetricsFold, rule: Downsample, field: str, kind: Kind, answer: Answer
) -> Table | None:
    answer = answer.replace(chosen=np.isfinite(answer.values))
    if not len(answer):
        return None
    target = fold.catalogue.find(rule.into)
    known = None if target is None else target.fields.get(field)
    if known is not None and known.kind is not kind:
        raise Conflict(
            f"field {field!r} of {rule.into!r} is {known.kind.label}, and what is made of "
            f"{rule.source!r} is {kind.label}: downsample into another measurement"
        )
    used, rows = np.unique(answer.group, return_inverse=True)
    tags = [answer.groups[place] for place in used.tolist()]
    packed = [canonical({tag: value for tag, value in each.items() if value}) for each in tags]
    return Table(
        measurement=rule.into,
        fields=((field, kind),),
        series=packed,
        rows=None if len(packed) == 1 else rows.astype("<i8"),
        at=answer.at,
        columns=[to_bits(answer.values, kind)],
    )


def _floor(fold: MetricsFold, measurement: Measurement, wanted: int) -> int:
    """The highest floor up to the wanted one that leaves what rules still need."""
    makers = fold.standings.of_source(measurement.name)
    for maker in makers:
        begin = measurement.floor if maker.until is None else maker.until
        undone = _earliest(fold, measurement, begin)
        wanted = min(wanted, *maker.stale, wanted if undone is None else undone)
    return aligned(wanted, [maker.rule for maker in makers if isinstance(maker.rule, Downsample)])


def _earliest(fold: MetricsFold, measurement: Measurement, first: int) -> int | None:
    """When the measurement's points from a time on begin; to the block, never too late."""
    found = (fold.reader.earliest(field.number, first) for field in measurement.fields.values())
    return min((at for at in found if at is not None), default=None)
