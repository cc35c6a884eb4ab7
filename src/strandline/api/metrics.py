"""Metrics on the wire. Times are nanoseconds since 1970 (``_ns``), or RFC 3339 text.

In Arrow a result has the columns ``group`` (int64: an index into ``groups``), ``at`` (int64,
nanoseconds) and ``value``; the schema's metadata has a ``MetricsResultHeader`` as JSON under
``strandline.answer``. JSON has no NaN and no infinity: they are null.
"""

from __future__ import annotations

from typing import Literal

import msgspec

LINES = "application/x-line-protocol"

Number = int | float | bool
Time = int | str
Duration = int | str
"""``"5m"``, or nanoseconds."""


class WritePoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    measurement: str
    fields: dict[str, Number]
    tags: dict[str, str] = {}
    at_ns: Time | None = None
    """Time of the point; now by default."""


class LinesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    precision: Literal["ns", "us", "ms", "s"] = "ns"


class TableQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The roles of the columns of an Arrow body."""

    measurement: str
    at: str = "at"
    tags: str = ""
    """Names of tag columns, separated by commas."""


class MetricsWriteResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The seqs of the appended records; 0 when there was nothing to write."""

    first_seq: int
    last_seq: int
    head_seq: int


class MetricsQueryRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    query: str
    """A query in the pipe language."""


class MetricsReadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    measurement: str
    field: str | None = None
    tags: dict[str, str] = {}
    first_ns: Time | None = None
    next_ns: Time | None = None
    limit: int | None = None


class AggregateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    measurement: str
    aggregate: str
    field: str | None = None
    window: Duration | None = None
    by: list[str] | Literal["*"] = []
    tags: dict[str, str] = {}
    first_ns: Time | None = None
    next_ns: Time | None = None


class MetricsResultHeader(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    groups: list[dict[str, str]]


class MetricsResultSeries(msgspec.Struct, frozen=True, kw_only=True):
    tags: dict[str, str]
    at_ns: list[int]
    values: list[Number | None]


class MetricsResponse(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    series: list[MetricsResultSeries]
    """One series for each group that has values."""


class MeasurementsResponse(msgspec.Struct, frozen=True, kw_only=True):
    measurements: list[str]


class FieldsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    measurement: str


class FieldsResponse(msgspec.Struct, frozen=True, kw_only=True):
    fields: dict[str, str]


class MetricsSeriesRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    measurement: str
    tags: dict[str, str] = {}


class MetricsSeriesResponse(msgspec.Struct, frozen=True, kw_only=True):
    series: list[dict[str, str]]


class MeasurementCardinalityResponse(msgspec.Struct, frozen=True, kw_only=True):
    series: int
    fields: int
    tags: dict[str, int]


class CardinalityResponse(msgspec.Struct, frozen=True, kw_only=True):
    series: int
    measurements: dict[str, MeasurementCardinalityResponse]


class KeepRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    measurement: str
    keep: Duration | None = None
    """How long points are kept; forever by default."""


class DownsampleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    into: str
    window: Duration
    aggregates: tuple[str, ...] = ("avg",)
    by: list[str] | Literal["*"] = "*"
    delay: Duration = 0


class StopDownsamplingRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    into: str


class KeepRuleInfo(msgspec.Struct, frozen=True, kw_only=True, tag="keep"):
    measurement: str
    keep_ns: int


class DownsampleRuleInfo(msgspec.Struct, frozen=True, kw_only=True, tag="downsample"):
    source: str
    into: str
    window_ns: int
    aggregates: list[str]
    by: list[str] | None = None
    delay_ns: int = 0


class RulesResponse(msgspec.Struct, frozen=True, kw_only=True):
    rules: list[KeepRuleInfo | DownsampleRuleInfo]


class MetricsState(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the view; docs/guide/metrics.md explains them."""

    points: int
    blocks: int
    runs: int
    memory_bytes: int
    ignored_records: int
    other_kind_points: int
    below_floor_points: int
    refused_writes: int


class MetricsDoneResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
