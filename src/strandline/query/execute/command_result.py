"""Result of a command that is not a query: a message and optional rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from strandline.query.execute.chart_render import Chart
from strandline.query.execute.result import Result


class CommandResult(Result):
    """The result of a command. Immutable; safe from many threads."""

    def __init__(
        self,
        message: str,
        rows: Sequence[Mapping[str, Any]] = (),
        *,
        chart: Chart | None = None,
        results: Sequence[Result] = (),
    ) -> None:
        self.profile = None
        self.chart = chart
        """The chart of PLOT."""
        self.results = tuple(results)
        self._message = message
        self._rows = rows

    @cached_property
    def _table(self) -> pa.Table:  # built on demand: rarely used
        return pa.Table.from_pylist([dict(row) for row in self._rows])

    @property
    def message(self) -> str:
        return self._message
