"""Time series on the wire. ``at`` is a signed 64-bit integer; 17 and "17" are the same source.

In Arrow points are rows of ``source`` (binary), ``at`` (int64), ``payload`` (binary), ``version``
(int64), ``seq`` (uint64), ordered by source, then (at, seq).
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from strandline.api.bytes_fields import Base64, Json

AT_MIN, AT_MAX = -(2**63), 2**63 - 1


class SourceName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str | int | None = None
    source_base64: bytes | None = None


class NewPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: int
    source: str | int | None = None
    source_base64: bytes | None = None
    payload: Json = UNSET
    payload_base64: Base64 = UNSET


class AppendPoints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Points, all or none."""

    points: list[NewPoint]
    version: int = 0
    """Version of the payloads."""
    drop_refused: bool = False
    """Drop points before the floor or too far in the future, and list them."""


class AppendPointsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = 0
    """Version of the payloads of an Arrow body."""
    drop_refused: bool = False
    """For an Arrow body: drop points before the floor or too far in the future."""


class DroppedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point that was dropped."""

    place: int
    """Index in the batch, from 0."""
    at: int
    reason: str
    """``floor`` or ``future``."""


class AppendPointsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The seqs of the appended points."""

    first_seq: int
    last_seq: int
    head_seq: int
    deduped: bool = False
    refused: list[DroppedPoint] = []
    """Points that were dropped because of ``drop_refused``."""


class RangeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Points from ``start`` to ``end``, both inclusive; without ``sources``, of all sources."""

    sources: list[SourceName] | None = None
    start: int = AT_MIN
    end: int = AT_MAX
    limit: int = 0
    """Most points of each source, the earliest first; 0: all."""


class WindowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Points in a window that begins with the earliest point at or after ``start``."""

    sources: list[SourceName]
    start: int
    window: int
    limit: int = 0


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    at: int
    seq: int
    version: int
    payload: Json = UNSET
    payload_base64: Base64 = UNSET


class SourcePoints(msgspec.Struct, frozen=True, kw_only=True):
    points: list[SeriesPoint]
    source: str | msgspec.UnsetType = UNSET
    source_base64: Base64 = UNSET


class PointsResponse(msgspec.Struct, frozen=True, kw_only=True):
    sources: list[SourcePoints]
    """In the order of the request; for all sources, in the order of their names."""
    end: int | msgspec.UnsetType = UNSET
    """For a window: the last ``at`` that it covers."""


class VisitedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A line of NDJSON."""

    at: int
    seq: int
    version: int
    source: str | msgspec.UnsetType = UNSET
    source_base64: Base64 = UNSET
    payload: Json = UNSET
    payload_base64: Base64 = UNSET


class LatestRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The newest point of a source; without a source, of every source."""

    source: str | int | None = None
    source_base64: bytes | None = None


class EarliestRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sources: list[SourceName] | None = None
    start: int = AT_MIN


class EarliestResponse(msgspec.Struct, frozen=True, kw_only=True):
    at: int | None


class RetainRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    floor: int | None = None


class RetainResponse(msgspec.Struct, frozen=True, kw_only=True):
    floor: int | None
    released: int
    waiting: int


class SeriesState(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a series; docs/guide/series.md explains them."""

    unit: str
    sources: int
    points: int
    newest: int | None
    floor: int | None
    normal: int
    jitter_absorbed: int
    late_arrivals: int
    below_floor: int
    refused: int
    level: int
    spacing: int
    batch: int
    scale_up: int
    scale_down: int
    pending: int
    queue_full: int
    unreleased: int
