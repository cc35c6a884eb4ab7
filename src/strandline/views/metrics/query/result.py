"""The result of a query of metrics: values by group and time, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from strandline.views.metrics.value_types import Ints, Values


class ResultValue(NamedTuple):
    """One value."""

    tags: dict[str, str]
    at: int
    value: float | int | bool


class ResultSeries(NamedTuple):
    """The values of one group, in the order of time."""

    tags: dict[str, str]
    at: Ints
    values: Values


class MetricsResult:
    """Values of groups, in the order of (group, at). Immutable; safe to use from many threads."""

    def __init__(
        self,
        name: str,
        groups: Sequence[dict[str, str]],
        group: Ints,
        at: Ints,
        values: Values,
    ) -> None:
        self.name = name
        """The name of the values."""
        self.groups = groups
        """The tags of every group. A group may have no values."""
        self.group = group
        """The group of each value, as an index of ``groups``."""
        self.at = at
        """Nanoseconds since 1970."""
        self.values = values

    def __len__(self) -> int:
        return len(self.at)

    def __repr__(self) -> str:
        return f"Answer({self.name!r}, {len(self.groups)} groups, {len(self)} values)"

    def __iter__(self) -> Iterator[ResultValue]:
        groups = self.groups
        columns = self.group.tolist(), self.at.tolist(), self.values.tolist()
        for group, at, value in zip(*columns, strict=True):
            yield ResultValue(groups[group], at, value)

    def rows(self) -> list[ResultValue]:
        """All values as rows."""
        return list(self)

    def series(self) -> list[ResultSeries]:
        """The values of each group that has values."""
        bounds = self.group.searchsorted(np.arange(len(self.groups) + 1)).tolist()
        return [
            ResultSeries(tags, self.at[first:after], self.values[first:after])
            for tags, first, after in zip(self.groups, bounds, bounds[1:], strict=False)
            if first < after
        ]

    def arrow(self) -> Any:
        """A pyarrow table: a column for each tag, then ``at`` and ``value``."""
        names = sorted({tag for tags in self.groups for tag in tags})
        columns: dict[str, Any] = {}
        for name in names:
            values = pa.array([tags.get(name) for tags in self.groups], pa.string())
            columns[name] = values.take(pa.array(self.group))
        columns["at"] = pa.array(self.at).cast(pa.timestamp("ns", "UTC"))
        columns["value"] = pa.array(self.values)
        return pa.table(columns)

    def replace(self, *, chosen: Values | None = None, **changed: Any) -> MetricsResult:
        """A copy with some attributes replaced, or with only the ``chosen`` values."""
        parts = {
            "name": self.name,
            "groups": self.groups,
            "group": self.group,
            "at": self.at,
            "values": self.values,
            **changed,
        }
        if chosen is not None:
            for column in ("group", "at", "values"):
                parts[column] = parts[column][chosen]
        return MetricsResult(**parts)
