"""Metrics as rows, in two forms.

    metrics."telemetry"        a row for each point: measurement, tags (a map), field, time, ns,
                               value, whole
    metrics."telemetry/cpu"    one measurement, a row for each series and time: time, ns, its tags
                               and its fields as columns, null where a row has none

``time`` is in microseconds, ``ns`` the same in nanoseconds, exact. ``value`` is a double, a
bool 0 or 1; ``whole`` is the exact number of a field of integers or bools.

Only the present of a metrics view can be read: points replace each other. So a scan reads it only
if it is still at the position; otherwise the query is run again, with a copy of all that it may
need, made while the position is determined (``Moved``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from strandline.errors import Unavailable
from strandline.query.sql.filters import Where, bounds, values
from strandline.query.sql.relations.relation import TIME, Position, Relation
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.names import tags_of
from strandline.views.metrics.storage.block import FieldPoints, joined
from strandline.views.metrics.storage.catalog import Field, Measurement
from strandline.views.metrics.storage.point_reader import PointRange
from strandline.views.metrics.storage.series_index import Matcher
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX, Ints, ValueKind, from_bits
from strandline.views.view_runner import ViewRunner

COPIED_POINTS_MAX = 20_000_000
"""The maximum of points that are copied of a changing view, some 40 bytes each."""

_ROWS = 65_536
_TAGS = pa.map_(pa.string(), pa.string())
_ARROW = {ValueKind.INT: pa.int64(), ValueKind.FLOAT: pa.float64(), ValueKind.BOOL: pa.bool_()}
_TIMES = [pa.field("time", TIME, nullable=False), pa.field("ns", pa.int64(), nullable=False)]
LONG = pa.schema(
    [
        pa.field("measurement", pa.string(), nullable=False),
        pa.field("tags", _TAGS, nullable=False),
        pa.field("field", pa.string(), nullable=False),
        *_TIMES,
        pa.field("value", pa.float64(), nullable=False),
        pa.field("whole", pa.int64()),
    ]
)


class MetricsChanged(Exception):
    """The view has changed after the position was determined: run again, with copies."""


class MetricsSource:
    """A metrics view, or one measurement of it."""

    def __init__(
        self, host: ViewRunner[MetricsFold], measurement: str | None, *, copied: bool
    ) -> None:
        self._host = host
        self._measurement = measurement
        self._copied = copied
        self.topics = host.topics
        self.held = (host,)

    def at(self, position: Position) -> Relation:
        fold = self._host.fold
        measurement = None
        if self._measurement is not None:
            measurement = fold.catalogue.find(self._measurement)
            assert measurement is not None, "the name was resolved before"
        shape = _LongLayout() if measurement is None else _WideLayout(measurement)
        head = position.heads[self.topics[0].name]
        rows = _MetricsRows(self._host, head, shape)
        if not self._copied:
            return rows
        points = fold.statistics()
        if points["tail_points"] + points["run_points"] > COPIED_POINTS_MAX:
            raise Unavailable(
                f"metrics {self._host.name!r} are written during the query, and too many to copy: "
                "try again when they are not written, or use store.metrics(...).query"
            )
        table = pa.Table.from_batches(shape.batches(fold, shape.schema.names, None), shape.schema)
        return CopiedRows(table)


class CopiedRows:
    """Rows that were copied. Immutable."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.schema = table.schema

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(columns).to_batches(max_chunksize=_ROWS)


class _MetricsRows:
    """A view at a position, until it changes. Safe from many threads."""

    def __init__(
        self, host: ViewRunner[MetricsFold], head: int, shape: _LongLayout | _WideLayout
    ) -> None:
        self._host = host
        self._head = head
        self._shape = shape
        self.schema = shape.schema

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        with self._host.lock:
            if self._host.applied[0] != self._head:
                raise MetricsChanged
            # All at once: a part that is read later would be of another position.
            batches = list(self._shape.batches(self._host.fold, columns, where))
        yield from batches


class _LongLayout:
    """A row for every point. Owned by one query."""

    schema = LONG

    def batches(
        self, fold: MetricsFold, columns: Sequence[str], where: Where | None
    ) -> Iterator[pa.RecordBatch]:
        measurements, fields = values(where, "measurement"), values(where, "field")
        first, following = _times(where)
        for measurement in fold.catalogue.sorted():
            if measurements is not None and measurement.name not in measurements:
                continue
            tags = _Tags(measurement)
            for name, field in sorted(measurement.fields.items()):
                if fields is None or name in fields:
                    points = _points(fold, measurement, field, (), first, following)
                    yield from _long(measurement, field, points, tags, columns)


class _Column(NamedTuple):
    """A column of a measurement: one of its tags, or one of its fields."""

    name: str
    tag: str = ""
    field: Field | None = None


class _WideLayout:
    """A row for every series and time. Owned by one query."""

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement.name
        columns = [_Column(name, field=field) for name, field in sorted(measurement.fields.items())]
        tags = sorted({tag for packed in measurement.series.by_tags for tag in tags_of(packed)})
        columns = [*(_Column(tag, tag=tag) for tag in tags), *columns]
        self._columns = {each.name: each for each in _distinct(columns)}
        self.schema = pa.schema([*_TIMES, *map(_arrow_field, self._columns.values())])

    def batches(
        self, fold: MetricsFold, columns: Sequence[str], where: Where | None
    ) -> Iterator[pa.RecordBatch]:
        measurement = fold.catalogue.find(self._measurement)
        assert measurement is not None, "measurements stay"
        first, following = _times(where)
        matchers = self._matchers(where)
        # There is a row when any field has a point, whether it is requested or not.
        fields = [each.field for each in self._columns.values() if each.field is not None]
        rows = _Rows(
            {
                each.name: _points(fold, measurement, each, matchers, first, following)
                for each in fields
            }
        )
        arrays = [self._array(name, _Tags(measurement), rows) for name in columns]
        shape = pa.schema([self.schema.field(name) for name in columns])
        yield from pa.Table.from_arrays(arrays, schema=shape).to_batches(max_chunksize=_ROWS)

    def _matchers(self, where: Where | None) -> tuple[Matcher, ...]:
        matchers = []
        for column in self._columns.values():
            only = values(where, column.name) if column.tag else None
            if only is not None and len(only) == 1:
                matchers.append(Matcher(column.tag, "=", only.pop()))
        return tuple(matchers)

    def _array(self, name: str, tags: _Tags, rows: _Rows) -> pa.Array:
        if name in ("time", "ns"):
            return _time(name, rows.at)
        column = self._columns[name]
        return tags.of(rows.series, column.tag) if column.field is None else rows.of(column.field)


class _Rows:
    """The pairs of series and time at which any of some fields has a point, in order."""

    def __init__(self, points_by_field: dict[str, FieldPoints]) -> None:
        every = joined(list(points_by_field.values()))
        order = np.lexsort((every.at, every.series))
        series, at = every.series[order], every.at[order]
        new = np.ones(len(at), dtype=bool)
        new[1:] = (series[1:] != series[:-1]) | (at[1:] != at[:-1])
        self.series, self.at = series[new], at[new]
        places = np.empty(len(at), dtype="<i8")
        places[order] = np.cumsum(new) - 1
        ends = np.cumsum([len(points.at) for points in points_by_field.values()])
        self._places = dict(zip(points_by_field, np.split(places, ends[:-1]), strict=True))
        self._bits = {name: points.bits for name, points in points_by_field.items()}

    def of(self, field: Field) -> pa.Array:
        """The values of a field in each row, null where it has none."""
        bits = np.zeros(len(self.at), dtype="<i8")
        missing = np.ones(len(self.at), dtype=bool)
        places = self._places[field.name]
        bits[places], missing[places] = self._bits[field.name], False
        return pa.array(from_bits(bits, field.kind), _ARROW[field.kind], mask=missing)


class _Tags:
    """The tags of the series of a measurement. Owned by one scan."""

    def __init__(self, measurement: Measurement) -> None:
        self._series = measurement.series

    def of(self, series: Ints, tag: str | None = None) -> pa.Array:
        """The tags of each row's series as a map, or one of them; null where it is missing."""
        numbers, places = np.unique(series, return_inverse=True)
        tags_by_series = [tags_of(packed) for packed in self._series.packed_many(numbers)]
        if tag is None:
            each = pa.array([list(tags.items()) for tags in tags_by_series], _TAGS)
        else:
            each = pa.array([tags.get(tag) for tags in tags_by_series], pa.string())
        return each.take(pa.array(places.reshape(-1)))


def _points(
    fold: MetricsFold,
    measurement: Measurement,
    field: Field,
    matchers: tuple[Matcher, ...],
    first: int,
    following: int,
) -> FieldPoints:
    """The points of a field, in the order of series and time."""
    series = np.sort(measurement.series.match(matchers))
    first = max(first, measurement.floor)
    stretch = PointRange(field.number, series, first, following)
    return joined(list(fold.reader.series(stretch)) if first < following else [])


def _long(
    measurement: Measurement, field: Field, points: FieldPoints, tags: _Tags, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    shape = pa.schema([LONG.field(name) for name in columns])
    for begin in range(0, len(points.at), _ROWS):
        part = points.select(slice(begin, begin + _ROWS))
        arrays = [_long_array(name, measurement, field, part, tags) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=shape)


def _long_array(
    name: str, measurement: Measurement, field: Field, points: FieldPoints, tags: _Tags
) -> pa.Array:
    match name:
        case "tags":
            return tags.of(points.series)
        case "value":
            return pa.array(from_bits(points.bits, field.kind).astype("<f8"))
        case "whole":
            return _whole(points.bits, field.kind)
        case "time" | "ns":
            return _time(name, points.at)
    name_of_all = measurement.name if name == "measurement" else field.name
    return pa.array([name_of_all] * len(points.at), pa.string())


def _whole(bits: Ints, kind: ValueKind) -> pa.Array:
    return pa.nulls(len(bits), pa.int64()) if kind is ValueKind.FLOAT else pa.array(bits)


def _time(name: str, at: Ints) -> pa.Array:
    return pa.array(at) if name == "ns" else pa.array(at // 1000).cast(TIME)


def _times(where: Where | None) -> tuple[int, int]:
    """The range of times in nanoseconds: first, and end (exclusive)."""
    micros, nanos = bounds(where, "time"), bounds(where, "ns")
    first, following = AT_MIN, INT64_MAX
    if micros.low is not None:
        first = max(first, int(micros.low) * 1000)
    if micros.high is not None:
        following = min(following, (int(micros.high) + 1) * 1000)
    if nanos.low is not None:
        first = max(first, int(nanos.low))
    if nanos.high is not None:
        following = min(following, int(nanos.high) + 1)
    return min(first, INT64_MAX), max(following, AT_MIN)


def _distinct(columns: list[_Column]) -> Iterator[_Column]:
    """The columns with names that are different in SQL, which is not case-sensitive."""
    used = {"time", "ns"}
    for column in columns:
        stem = name = column.name
        if name.lower() in used:
            stem = name = f"{'tag' if column.tag else 'field'}_{name}"
        number = 2
        while name.lower() in used:
            name, number = f"{stem}_{number}", number + 1
        used.add(name.lower())
        yield column._replace(name=name)


def _arrow_field(column: _Column) -> pa.Field:
    kind = pa.string() if column.field is None else _ARROW[column.field.kind]
    return pa.field(column.name, kind)
