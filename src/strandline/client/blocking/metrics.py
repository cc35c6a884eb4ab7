# Made from asynchronous/metrics.py by tests/house/blocking.py: change that one.
"""A metrics view of a server: points with tags and numeric fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from strandline.api import metrics as wire
from strandline.client.blocking.endpoint import RemoteEndpoint
from strandline.client.metrics_codec import answer_of, columns_of, line_bytes
from strandline.client.page_codec import table_of
from strandline.client.request import ARROW, Request
from strandline.errors import Invalid
from strandline.records import AppendResult
from strandline.views.metrics.metrics import Duration
from strandline.views.metrics.query.durations import Moment, at_ns, duration_ns
from strandline.views.metrics.query.field_query import EACH
from strandline.views.metrics.query.result import MetricsResult
from strandline.views.metrics.report import Cardinality, MetricsStatistics
from strandline.views.metrics.rules import DownsamplingRule, RetentionRule, Rule
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX, INT64_MIN

_LINES = "application/x-line-protocol"


class RemoteMetrics:
    """A metrics view of a topic. Safe from many threads."""

    def __init__(self, endpoint: RemoteEndpoint, name: str) -> None:
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
    ) -> AppendResult:
        """Write one point for each field, at a time (default: now)."""
        body = wire.WritePoint(
            measurement=measurement,
            tags=dict(tags),
            fields={name: _plain(value) for name, value in fields.items()},
            at_ns=None if at is None else at_ns(at),
        )
        return _appended(self._endpoint.post("write", body, wire.MetricsWriteResponse))

    def write_lines(
        self, text: str | bytes, *, precision: Literal["ns", "us", "ms", "s"] = "ns"
    ) -> AppendResult | None:
        """Write line protocol; None when there is no line. Errors name the line and column."""
        query = {"precision": precision}
        path = f"{self._endpoint.path}/lines"
        response = self._endpoint.request(Request("POST", path, query, line_bytes(text), _LINES))
        return _appended_or_none(response.decode(wire.MetricsWriteResponse))

    def write_table(
        self, measurement: str, table: Any, *, at: str = "at", tags: Sequence[str] = ()
    ) -> AppendResult | None:
        """Write columns, an Arrow table or a dict of arrays: a column of times, tags, and fields.

        None when there is no value.
        """
        query = {"measurement": measurement, "at": at, "tags": ",".join(tags)}
        columns = columns_of(table)
        return _appended_or_none(
            self._endpoint.send("table", columns, wire.MetricsWriteResponse, query)
        )

    def query(self, text: str) -> MetricsResult:
        """The result of a query in the pipe language."""
        return self._query("query", wire.MetricsQueryRequest(query=text))

    def read(
        self,
        measurement: str,
        field: str | None = None,
        *,
        tags: Mapping[str, str] | None = None,
        first: Moment = AT_MIN,
        next: Moment = INT64_MAX,
        limit: int | None = None,
    ) -> MetricsResult:
        """Points of a field, from ``first`` on and before ``next``, up to ``limit`` of each series.

        The default field is the only one, or the one named value.
        """
        body = wire.MetricsReadRequest(
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
    ) -> MetricsResult:
        """One value for each group and window: ``avg``, ``percentile(95)``, ... (aggregates.py).

        ``by`` names tags; none groups all series together, and "*" groups each by itself.
        """
        body = wire.AggregateRequest(
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
        return (self._endpoint.get("names", wire.MeasurementsResponse)).measurements

    def fields(self, measurement: str) -> dict[str, str]:
        """The fields of a measurement, with the types of their values."""
        return (
            self._endpoint.get("fields", wire.FieldsResponse, {"measurement": measurement})
        ).fields

    def series(
        self, measurement: str, tags: Mapping[str, str] | None = None
    ) -> list[dict[str, str]]:
        """The tags of the series that have points, in order."""
        body = wire.MetricsSeriesRequest(measurement=measurement, tags=dict(tags or {}))
        return (self._endpoint.post_safe("series", body, wire.MetricsSeriesResponse)).series

    def cardinality(self) -> Cardinality:
        """The number of series, by measurement and tag."""
        response = self._endpoint.get("cardinality", wire.CardinalityResponse)
        return msgspec.convert(msgspec.to_builtins(response), Cardinality)

    def keep(self, measurement: str, duration: Duration) -> None:
        """Delete points of a measurement that are older than this; reject later ones as old."""
        body = wire.KeepRequest(measurement=measurement, keep=duration_ns(duration))
        self._endpoint.post_safe("keep", body, wire.MetricsDoneResponse)

    def keep_all(self, measurement: str) -> None:
        """Keep the points of a measurement without an age limit from now on."""
        self._endpoint.post_safe(
            "keep", wire.KeepRequest(measurement=measurement), wire.MetricsDoneResponse
        )

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
        body = wire.DownsampleRequest(
            source=source,
            into=into,
            window=duration_ns(window),
            aggregates=tuple(aggregates),
            by=_tags_of(by),
            delay=duration_ns(delay) if delay else 0,
        )
        self._endpoint.post_safe("downsample", body, wire.MetricsDoneResponse)

    def stop_downsampling(self, into: str) -> None:
        """Stop computing points of this measurement; its existing points stay."""
        self._endpoint.post_safe(
            "stop_downsampling", wire.StopDownsamplingRequest(into=into), wire.MetricsDoneResponse
        )

    def rules(self) -> list[Rule]:
        """The rules in effect."""
        response = self._endpoint.get("rules", wire.RulesResponse)
        rules: list[Rule] = msgspec.convert(
            msgspec.to_builtins(response.rules), list[RetentionRule | DownsamplingRule]
        )
        return rules

    def run_once(self) -> None:
        """Apply the rules: compute windows that have ended, delete points that are too old."""
        self._endpoint.post_safe("rules/run", None, wire.MetricsDoneResponse)

    def statistics(self) -> MetricsStatistics:
        """The current statistics of the view."""
        fields = msgspec.to_builtins(self._endpoint.get("", wire.MetricsState))
        return msgspec.convert(fields, MetricsStatistics)

    def _query(self, verb: str, fields: object) -> MetricsResult:
        body = msgspec.json.encode(fields)
        request = Request(
            "POST", f"{self._endpoint.path}/{verb}", body=body, accept=ARROW, safe=True
        )
        return answer_of(table_of(self._endpoint.request(request)))


def _appended(written: wire.MetricsWriteResponse) -> AppendResult:
    return AppendResult(written.first_seq, written.last_seq, written.head_seq)


def _appended_or_none(written: wire.MetricsWriteResponse) -> AppendResult | None:
    return _appended(written) if written.last_seq else None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _tags_of(by: Sequence[str]) -> list[str] | Literal["*"]:
    if isinstance(by, str):
        if by != EACH:
            raise Invalid(f'by={by!r} is one string: give a list of tags, or "*" for each series')
        return "*"
    return list(by)
