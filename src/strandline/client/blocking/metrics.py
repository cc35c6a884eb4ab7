# Made from asynchronous/metrics.py by tests/house/blocking.py: change that one.
"""Measurements of a server: tags and numeric fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from strandline.api import metrics as wire
from strandline.client.blocking.endpoint import RemoteRoute
from strandline.client.metrics_codec import answer_of, columns_of, line_bytes
from strandline.client.page_codec import table_of
from strandline.client.request import ARROW, Ask
from strandline.errors import Invalid
from strandline.records import Appended
from strandline.views.metrics.metrics import Duration
from strandline.views.metrics.query.durations import Moment, at_ns, duration_ns
from strandline.views.metrics.query.field_query import EACH
from strandline.views.metrics.query.result import Answer
from strandline.views.metrics.report import Cardinality, Statistics
from strandline.views.metrics.rules import Downsample, Keep, Rule
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX, INT64_MIN

_LINES = "application/x-line-protocol"


class RemoteMetrics:
    """A metrics view of a topic. Safe from many threads."""

    def __init__(self, at: RemoteRoute, name: str) -> None:
        self.name = name
        self._at = at

    def __repr__(self) -> str:
        return f"RemoteMetrics({self.name!r})"

    def write(
        self,
        measurement: str,
        tags: Mapping[str, str],
        fields: Mapping[str, float | int | bool],
        at: Moment | None = None,
    ) -> Appended:
        """One point for each field, at a time; without one, now."""
        asked = wire.WritePoint(
            measurement=measurement,
            tags=dict(tags),
            fields={name: _plain(value) for name, value in fields.items()},
            at_ns=None if at is None else at_ns(at),
        )
        return _appended(self._at.do("write", asked, wire.Written))

    def write_lines(
        self, text: str | bytes, *, precision: Literal["ns", "us", "ms", "s"] = "ns"
    ) -> Appended | None:
        """Line protocol; None when there is no line. An error names line and column."""
        query = {"precision": precision}
        path = f"{self._at.path}/lines"
        reply = self._at.ask(Ask("POST", path, query, line_bytes(text), _LINES))
        return _maybe(reply.told(wire.Written))

    def write_table(
        self, measurement: str, table: Any, *, at: str = "at", tags: Sequence[str] = ()
    ) -> Appended | None:
        """Columns: an Arrow table or a dict of arrays, with one of times, tags, and fields.

        None when there is no value.
        """
        query = {"measurement": measurement, "at": at, "tags": ",".join(tags)}
        columns = columns_of(table)
        return _maybe(self._at.send("table", columns, wire.Written, query))

    def query(self, text: str) -> Answer:
        """The answer to a query in the pipe language."""
        return self._answer("query", wire.Ask(query=text))

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
        asked = wire.Read(
            measurement=measurement,
            field=field,
            tags=dict(tags or {}),
            first_ns=at_ns(first, INT64_MIN, INT64_MAX),
            next_ns=at_ns(next, INT64_MIN, INT64_MAX),
            limit=limit,
        )
        return self._answer("read", asked)

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
        asked = wire.Aggregate(
            measurement=measurement,
            aggregate=aggregate,
            field=field,
            window=None if window is None else duration_ns(window),
            by=_tags_of(by),
            tags=dict(tags or {}),
            first_ns=at_ns(first, INT64_MIN, INT64_MAX),
            next_ns=at_ns(next, INT64_MIN, INT64_MAX),
        )
        return self._answer("aggregate", asked)

    def measurements(self) -> list[str]:
        """Those that have points."""
        return (self._at.get("names", wire.Names)).measurements

    def fields(self, measurement: str) -> dict[str, str]:
        """The fields of a measurement, and the kind of their values."""
        return (self._at.get("fields", wire.Fields, {"measurement": measurement})).fields

    def series(
        self, measurement: str, tags: Mapping[str, str] | None = None
    ) -> list[dict[str, str]]:
        """The tags of the series that have points, in order."""
        asked = wire.SeriesOf(measurement=measurement, tags=dict(tags or {}))
        return (self._at.find("series", asked, wire.SeriesFound)).series

    def cardinality(self) -> Cardinality:
        """How many series there are, and which tags make them many."""
        told = self._at.get("cardinality", wire.Cardinality)
        return msgspec.convert(msgspec.to_builtins(told), Cardinality)

    def keep(self, measurement: str, duration: Duration) -> None:
        """Points of a measurement go when they are older than this. Late ones are refused."""
        asked = wire.KeepRule(measurement=measurement, keep=duration_ns(duration))
        self._at.find("keep", asked, wire.Done)

    def keep_all(self, measurement: str) -> None:
        """Points of a measurement stay from now on."""
        self._at.find("keep", wire.KeepRule(measurement=measurement), wire.Done)

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
        asked = wire.DownsampleRule(
            source=source,
            into=into,
            window=duration_ns(window),
            aggregates=tuple(aggregates),
            by=_tags_of(by),
            delay=duration_ns(delay) if delay else 0,
        )
        self._at.find("downsample", asked, wire.Done)

    def stop_downsampling(self, into: str) -> None:
        """Nothing is made into this measurement any more; what is there stays."""
        self._at.find("stop_downsampling", wire.StopRule(into=into), wire.Done)

    def rules(self) -> list[Rule]:
        """What holds."""
        told = self._at.get("rules", wire.Rules)
        rules: list[Rule] = msgspec.convert(
            msgspec.to_builtins(told.rules), list[Keep | Downsample]
        )
        return rules

    def run_once(self) -> None:
        """Apply the rules: make windows that are over, drop what is too old."""
        self._at.find("rules/run", None, wire.Done)

    def statistics(self) -> Statistics:
        """The view in numbers."""
        told = msgspec.to_builtins(self._at.get("", wire.MetricsState))
        return msgspec.convert(told, Statistics)

    def _answer(self, verb: str, asked: object) -> Answer:
        body = msgspec.json.encode(asked)
        ask = Ask("POST", f"{self._at.path}/{verb}", body=body, accept=ARROW, safe=True)
        return answer_of(table_of(self._at.ask(ask)))


def _appended(told: wire.Written) -> Appended:
    return Appended(told.first_seq, told.last_seq, told.head_seq)


def _maybe(told: wire.Written) -> Appended | None:
    return _appended(told) if told.last_seq else None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _tags_of(by: Sequence[str]) -> list[str] | Literal["*"]:
    if isinstance(by, str):
        if by != EACH:
            raise Invalid(f'by={by!r} is one string: give a list of tags, or "*" for each series')
        return "*"
    return list(by)
