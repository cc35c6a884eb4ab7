"""Puts rows that come one by one into tables, by their measurement and fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from strandline.views.metrics.ingest.batch import Table
from strandline.views.metrics.value_types import Kind

Shape = tuple[str, tuple[tuple[str, Kind], ...]]


class _Rows:
    """Rows of one shape, as they come."""

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
        fields: Mapping[str, tuple[Kind, int]],
        at: int,
        *,
        place: int,
    ) -> None:
        """One row: kinds and bits of its fields. Its place says which of two equal ones counts."""
        names = sorted(fields)
        shape = measurement, tuple((name, fields[name][0]) for name in names)
        found = self._shapes.get(shape)
        if found is None:
            found = self._shapes[shape] = _Rows()
        found.rows.append(found.series.setdefault(series, len(found.series)))
        found.at.append(at)
        found.bits += [fields[name][1] for name in names]
        found.order.append(place)

    def measurements(self) -> Counter[str]:
        """How many tables each measurement has."""
        return Counter(measurement for measurement, _ in self._shapes)

    def tables(self) -> list[Table]:
        """Tables of all rows so far, with their order."""
        return [_table(shape, rows) for shape, rows in self._shapes.items()]


def _table(shape: Shape, found: _Rows) -> Table:
    measurement, fields = shape
    bits = np.array(found.bits, dtype="<i8").reshape(-1, len(fields))
    one_each = len(found.series) in (1, len(found.rows))
    return Table(
        measurement=measurement,
        fields=fields,
        series=list(found.series),
        rows=None if one_each else np.array(found.rows, dtype="<i8"),
        at=np.array(found.at, dtype="<i8"),
        columns=[np.ascontiguousarray(bits[:, place]) for place in range(len(fields))],
        order=np.array(found.order, dtype="<i8"),
    )
