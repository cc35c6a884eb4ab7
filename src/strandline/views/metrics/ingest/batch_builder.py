"""Builds tables from single rows, by their measurement and fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from strandline.views.metrics.ingest.batch import PointTable
from strandline.views.metrics.value_types import ValueKind

Shape = tuple[str, tuple[tuple[str, ValueKind], ...]]


class _Rows:
    """Rows of one shape in the order of arrival."""

    def __init__(self) -> None:
        self.series: dict[bytes, int] = {}
        self.rows: list[int] = []
        self.at: list[int] = []
        self.bits: list[int] = []
        self.order: list[int] = []


class TableBuilder:
    """Collects the rows of one write. Owned by one thread."""

    def __init__(self) -> None:
        self._shapes: dict[Shape, _Rows] = {}

    def add(
        self,
        measurement: str,
        series: bytes,
        fields: Mapping[str, tuple[ValueKind, int]],
        at: int,
        *,
        place: int,
    ) -> None:
        """Add a row with kinds and bits of its fields. Of equal points, the last place counts."""
        names = sorted(fields)
        shape = measurement, tuple((name, fields[name][0]) for name in names)
        rows = self._shapes.get(shape)
        if rows is None:
            rows = self._shapes[shape] = _Rows()
        rows.rows.append(rows.series.setdefault(series, len(rows.series)))
        rows.at.append(at)
        rows.bits += [fields[name][1] for name in names]
        rows.order.append(place)

    def measurements(self) -> Counter[str]:
        """The number of tables of each measurement."""
        return Counter(measurement for measurement, _ in self._shapes)

    def tables(self) -> list[PointTable]:
        """Tables of all rows so far, with their order."""
        return [_table(shape, rows) for shape, rows in self._shapes.items()]


def _table(shape: Shape, rows: _Rows) -> PointTable:
    measurement, fields = shape
    bits = np.array(rows.bits, dtype="<i8").reshape(-1, len(fields))
    one_each = len(rows.series) in (1, len(rows.rows))
    return PointTable(
        measurement=measurement,
        fields=fields,
        series=list(rows.series),
        rows=None if one_each else np.array(rows.rows, dtype="<i8"),
        at=np.array(rows.at, dtype="<i8"),
        columns=[np.ascontiguousarray(bits[:, number]) for number in range(len(fields))],
        order=np.array(rows.order, dtype="<i8"),
    )
