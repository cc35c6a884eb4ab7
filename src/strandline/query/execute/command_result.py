"""Answers of commands that ask nothing: a message, and maybe rows with what else is to be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from strandline.query.execute.chart_render import Chart
from strandline.query.execute.result import Result


class Told(Result):
    """What a command did. Immutable; safe from many threads."""

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
        """What PLOT has drawn."""
        self.results = tuple(results)
        self._message = message
        self._rows = rows

    @cached_property
    def _table(self) -> pa.Table:  # made when somebody looks: few do
        return pa.Table.from_pylist([dict(row) for row in self._rows])

    @property
    def message(self) -> str:
        return self._message
