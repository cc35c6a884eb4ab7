# Made from asynchronous/metrics.py by tests/house/blocking.py: change that one.
"""A metrics view of a server: points with tags and numeric fields."""

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

    def __init__(self, endpoint: RemoteRoute, name: str) -> None:
        self.name = name
        self._endpoint = endpoint

    def __repr__(self) -> str:
        return f"RemoteMetrics({self.name!r})"

    def write(
        self,
        measurement: str,
        tags: Mapping[str, str],
        fields: Mapping[str, float | int | bool],
        at: Moment | None = None,
    ) -> Appended:
        """Write one point for each field, at a time (default: now)."""
        body = wire.WritePoint(
            measurement=measurement,
            tags=dict(tags),
            fields={name: _plain(value) for name, value in fields.items()},
            at_ns=None if at is None else at_ns(at),
        )
        return _appended(self._endpoint.do("write", body, wire.Written))

    def write_lines(
        self, text: str | bytes, *, precision: Literal["ns", "us", "ms", "s"] = "ns"
    ) -> Appended | None:
        """Write line protocol; None when there is no line. Errors name the line and column."""
        query = {"precision": precision}
        path = f"{self._endpoint.path}/lines"
        response = self._endpoint.ask(Ask("POST", path, query, line_bytes(text), _LINES))
        return _appended_or_none(response.told(wire.Written))

    def write_table(
        self, measurement: str, table: Any, *, at: str = "at", tags: Sequence[str] = ()
    ) -> Appended | None:
        """Write columns, an Arrow table or a dict of arrays: a column of times, tags, and fields.

        None when there is no value.
        """
        query = {"measurement": measurement, "at": at, "tags": ",".join(tags)}
        columns = columns_of(table)
        return _appended_or_none(self._endpoint.send("table", columns, wire.Written, query))

    def query(self, text: str) -> Answer:
        """The result of a query in the pipe language."""
        return self._query("query", wire.Ask(query=text))

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
        """Points of a field, from ``first`` on and before ``next``, up to ``limit`` of each series.

        The default field is the only one, or the one named value.
        """
        body = wire.Read(
            measurement=measurement,
            field=field,
            tags=dict(tags or {}),
            first_ns=at_ns(first, INT64_MIN, INT64_MAX),
            next_ns=at_ns(next, INT64_MIN, INT64_MAX),
            limit=limit,
        )
        return self._query("read", body)

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

        ``by`` names tags; none groups all series together, and "*" groups each by itself.
        """
        body = wire.Aggregate(
            measurement=measurement,
            aggregate=aggregate,
            field=field,
            window=None if window is None else duration_ns(window),
            by=_tags_of(by),
            tags=dict(tags or {}),
            first_ns=at_ns(first, INT64_MIN, INT64_MAX),
            next_ns=at_ns(next, INT64_MIN, INT64_MAX),
        )
        return self._query("aggregate", body)

    def measurements(self) -> list[str]:
        """The measurements that have points."""
        return (self._endpoint.get("names", wire.Names)).measurements

    def fields(self, measurement: str) -> dict[str, str]:
        """The fields of a measurement, with the types of their values."""
        return (self._endpoint.get("fields", wire.Fields, {"measurement": measurement})).fields

    def series(
        self, measurement: str, tags: Mapping[str, str] | None = None
    ) -> list[dict[str, str]]:
        """The tags of the series that have points, in order."""
        body = wire.SeriesOf(measurement=measurement, tags=dict(tags or {}))
        return (self._endpoint.find("series", body, wire.SeriesFound)).series

    def cardinality(self) -> Cardinality:
        """The number of series, by measurement and tag."""
        response = self._endpoint.get("cardinality", wire.Cardinality)
        return msgspec.convert(msgspec.to_builtins(response), Cardinality)

    def keep(self, measurement: str, duration: Duration) -> None:
        """Delete points of a measurement that are older than this; reject later ones as old."""
        body = wire.KeepRule(measurement=measurement, keep=duration_ns(duration))
        self._endpoint.find("keep", body, wire.Done)

    def keep_all(self, measurement: str) -> None:
        """Keep the points of a measurement without an age limit from now on."""
        self._endpoint.find("keep", wire.KeepRule(measurement=measurement), wire.Done)

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
        """Compute one point of another measurement for each window of a field: load -> load_avg.

        A window is computed ``delay`` after it has ended, and again when late points arrive.
        """
        body = wire.DownsampleRule(
            source=source,
            into=into,
            window=duration_ns(window),
            aggregates=tuple(aggregates),
            by=_tags_of(by),
            delay=duration_ns(delay) if delay else 0,
        )
        self._endpoint.find("downsample", body, wire.Done)

    def stop_downsampling(self, into: str) -> None:
        """Stop computing points of this measurement; its existing points stay."""
        self._endpoint.find("stop_downsampling", wire.StopRule(into=into), wire.Done)

    def rules(self) -> list[Rule]:
        """The rules in effect."""
        response = self._endpoint.get("rules", wire.Rules)
        rules: list[Rule] = msgspec.convert(
            msgspec.to_builtins(response.rules), list[Keep | Downsample]
        )
        return rules

    def run_once(self) -> None:
        """Apply the rules: compute windows that have ended, delete points that are too old."""
        self._endpoint.find("rules/run", None, wire.Done)

    def statistics(self) -> Statistics:
        """The current statistics of the view."""
        fields = msgspec.to_builtins(self._endpoint.get("", wire.MetricsState))
        return msgspec.convert(fields, Statistics)

    def _query(self, verb: str, fields: object) -> Answer:
        body = msgspec.json.encode(fields)
        request = Ask("POST", f"{self._endpoint.path}/{verb}", body=body, accept=ARROW, safe=True)
        return answer_of(table_of(self._endpoint.ask(request)))


def _appended(written: wire.Written) -> Appended:
    return Appended(written.first_seq, written.last_seq, written.head_seq)


def _appended_or_none(written: wire.Written) -> Appended | None:
    return _appended(written) if written.last_seq else None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _tags_of(by: Sequence[str]) -> list[str] | Literal["*"]:
    if isinstance(by, str):
        if by != EACH:
            raise Invalid(f'by={by!r} is one string: give a list of tags, or "*" for each series')
        return "*"
    return list(by)
