"""PLOT: aggregates of events as a chart, for browsers (Vega-Lite) or as an image (PNG).

    PLOT COUNT OF view OVER day(at)                            a line, one point per day
    PLOT COUNT OF view BREAKDOWN BY page TOP 5                 a bar for each of the five pages
    PLOT TOTAL(amount) OF pay VS COUNT OF view OVER week       two lines
    PLOT COUNT OF view THEN pay FILTER view.page = "/buy"      one bar: views followed by a pay

A metric is one query: an aggregate of the event, or of the pairs when THEN names a second one (the
next of that type in the same context), with PER from OVER and BY from BREAKDOWN. Values are
numbers; a time or text cannot be drawn.

TOP n selects the values of the first field of BREAKDOWN, or of the field after BY, for which the
first metric is largest over all time. A field that only TOP names is a breakdown, too.

The chart contains its data, as of the time of the query. More than POINTS_MAX points are rejected:
they are not readable, and a chart without some of them would be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from strandline.query.execute.chart_render import JOINT, Chart, ChartPoint, vega
from strandline.query.language.ast import Metric, Name, Plot
from strandline.query.language.binding import Schemas, bind, query_of
from strandline.query.language.bound_ast import BUCKET, BoundQuery
from strandline.query.language.errors import QueryError
from strandline.query.language.literals import NUMBERS
from strandline.query.language.periods import DEFAULT_CALENDAR, Calendar

POINTS_MAX = 50_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RunQuery = Callable[[BoundQuery], pa.Table]


class _Line(NamedTuple):
    """A query and the label of its result."""

    label: str
    bound: BoundQuery


def chart(
    plot: Plot,
    schemas: Schemas,
    ask: RunQuery,
    text: str = "",
    *,
    events: Collection[str] = (),
    calendar: Calendar = DEFAULT_CALENDAR,
) -> Chart:
    """Run the queries of a plot. ``text`` is what it was parsed from, for errors."""

    def bind_metric(metric: Metric, by: tuple[Name, ...], *, over_time: bool) -> BoundQuery:
        query = msgspec.structs.replace(
            query_of(metric),
            by=by,
            per=plot.over if over_time else None,
            using=plot.over_field,
        )
        bound = bind(query, schemas, text, events=events, calendar=calendar)
        _check_number(bound, metric, text)
        return bound

    by = _breakdown(plot, text)
    top = plot.top_by or (by[0] if by else None)
    labels = _labels(plot.metrics)
    lines = [
        _Line(label, bind_metric(metric, by, over_time=True))
        for label, metric in zip(labels, plot.metrics, strict=True)
    ]
    largest = None
    if plot.top is not None and top is not None:
        largest = _largest(ask(bind_metric(plot.metrics[0], (top,), over_time=False)), plot.top)
    place = list(map(_column, by)).index(_column(top)) if top else 0
    points: list[ChartPoint] = []
    for line in lines:
        points += _points(line, ask(line.bound), largest, place)
        if len(points) > POINTS_MAX:
            raise QueryError(
                f"a chart has at most {POINTS_MAX} points, and this one has more",
                text,
                plot.metrics[0].event.at,
                hint="use a longer period or fewer fields, or add TOP 10",
            )
    title = JOINT.join(name.text for name in by)
    return Chart(points=tuple(points), vega=vega(points, plot.over, title))


def _breakdown(plot: Plot, text: str) -> tuple[Name, ...]:
    by = plot.breakdown
    if plot.top_by is not None and _column(plot.top_by) not in map(_column, by):
        by = (plot.top_by, *by)
    if plot.top is not None and not by:
        at = plot.metrics[0].event.at
        raise QueryError(
            "TOP requires a field", text, at, hint="add BY and a field, or BREAKDOWN BY"
        )
    return by


def _column(name: Name) -> tuple[str, str]:
    return name.event, name.text


def _check_number(bound: BoundQuery, metric: Metric, text: str) -> None:
    (aggregate,) = bound.aggregates
    column = aggregate.column
    if column is None or aggregate.function in ("count", "count_unique"):
        return
    kind = bound.events[column.event].kinds()[column.field]
    if kind.name not in NUMBERS:
        at = metric.aggregate.field.at if metric.aggregate.field else metric.event.at
        raise QueryError(f"a chart shows numbers, but {column.name} is {kind}", text, at)


def _labels(metrics: tuple[Metric, ...]) -> list[str]:
    """The labels of the lines, all different."""
    labels: list[str] = []
    for metric in metrics:
        aggregate = metric.aggregate
        name = aggregate.function.replace("count_unique", "unique")
        measure = f"{name}({aggregate.field.text})" if aggregate.field else name
        label = f"{measure} of {metric.event.text}"
        label += f" then {metric.then.text}" if metric.then else ""
        count = sum(1 for each in labels if each.split(" #")[0] == label)
        labels.append(f"{label} #{count + 1}" if count else label)
    return labels


def _largest(table: pa.Table, count: int) -> set[Any]:
    """The values of a breakdown with the largest aggregates; of equal ones the first by text."""
    groups, figures = (column.to_pylist() for column in table.columns)
    ranked = sorted(
        zip(groups, figures, strict=True),
        key=lambda pair: (pair[1] is None, -(pair[1] or 0), _shown(pair[0])),
    )
    return {group for group, _ in ranked[:count]}


def _points(line: _Line, table: pa.Table, largest: set[Any] | None, place: int) -> list[ChartPoint]:
    """The points of a result, in order of time and groups."""
    bound = line.bound
    if bound.per:
        table = _without_zone(table)
    columns = [column.to_pylist() for column in table.columns]
    times = columns.pop(0) if bound.per else None
    *groups, figures = columns
    points = []
    for row, figure in enumerate(figures):
        values = [group[row] for group in groups]
        if largest is not None and values[place] not in largest:
            continue
        points.append(
            ChartPoint(
                metric=line.label,
                value=_number(figure),
                time=None if times is None else _moment(times[row]),
                group=JOINT.join(map(_shown, values)) if values else None,
            )
        )
    return sorted(points, key=lambda point: (point.time or "", point.group or ""))


def _without_zone(table: pa.Table) -> pa.Table:
    """Buckets as whole numbers: Python has no years above 9999."""
    times = table.column(0).cast(pa.timestamp("us", table.schema.types[0].tz))
    return table.set_column(0, BUCKET, times.cast(pa.int64()))


def _moment(micros: int | None) -> str | None:
    if micros is None:
        return None
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.isoformat().replace("+00:00", "Z")


def _number(figure: Any) -> int | float | None:
    if figure is None or isinstance(figure, (int, float)):
        return figure
    return int(figure) if figure == int(figure) else float(figure)


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
