"""Result types of a series, and validation of its arguments. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from strandline.errors import Invalid
from strandline.records import AppendResult
from strandline.views.series.meta import AT_MAX, AT_MIN

SourceName = int | str | bytes
"""The name of a source: 17, "17" and b"17" are the same source."""


class Point(msgspec.Struct, frozen=True, gc=False):
    """One record of a series."""

    source: bytes
    at: int
    payload: bytes
    version: int
    """The version of the payload."""
    seq: int
    """The seq of its record: of equal ats the lower one was appended first."""


class RefusedPoint(NamedTuple):
    """A point that a series refuses."""

    place: int
    """Its index in the batch, from 0."""
    at: int
    reason: str
    """``floor``: it is before the floor. ``future``: it is too far in the future."""


class AppendedPoints(AppendResult, frozen=True, gc=False):
    """The seqs of a batch of points. If all points were dropped, ``last_seq`` is less than
    ``first_seq``."""

    refused: tuple[RefusedPoint, ...] = ()
    """Points that were dropped, in the order of the batch."""


class AvailablePoints(NamedTuple):
    """The first points from some at on."""

    end: int | None
    """The end of the window: continue after it. None without points."""
    points: dict[SourceName, list[Point]]


class RetentionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of retention."""

    floor: int | None
    """No point is before this at; None without a floor."""
    released: int
    """Records that were removed from the log."""
    waiting: int
    """Records that will be removed after the next save of views."""


class SeriesStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a series."""

    unit: str
    sources: int
    points: int
    """Points in the index: the next retention removes those before the floor."""
    newest: int | None
    """The greatest at of all points."""
    floor: int | None
    normal: int
    """Points that were not before the newest of their source, since the series was created."""
    jitter_absorbed: int
    """Points that were before it, within the jitter window."""
    late_arrivals: int
    """Points that were earlier than that."""
    below_floor: int
    """Plain records that were before the floor when they were appended: they are not visible."""
    refused: int
    """Points that were refused or dropped because they were before the floor or too far in the
    future, since the store was opened."""
    level: int
    """The coarseness of the index, from 0 to 8."""
    spacing: int
    """Maximal points of one index entry."""
    batch: int
    """Index entries that are written together."""
    scale_up: int
    """How often the index became coarser since the store was opened."""
    scale_down: int
    """How often it became finer since then."""
    pending: int
    """Index entries that wait to be written."""
    queue_full: int
    """How often their queue was full, so that an append had to write some."""
    unreleased: int
    """Records before the floor that are still in the log."""


def name_of(source: SourceName) -> bytes:
    """The key of the records of a source."""
    if type(source) is int:
        return b"%d" % source
    if isinstance(source, bytes) and source:
        return bytes(source)
    if isinstance(source, str) and source:
        try:
            return source.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"source {source!r} is not text: {error}") from None
    raise Invalid(f"source {source!r} is not a name: use an integer, text or bytes, not empty")


def check_at(what: str, at: int) -> None:
    """Raise Invalid unless this is a valid at."""
    if type(at) is not int or not AT_MIN <= at <= AT_MAX:
        raise Invalid(
            f"{what} {at!r} is not an integer of 64 bits: pass an int in the unit of the series"
        )


def check_limit(limit: int) -> None:
    """Raise Invalid unless this is a valid limit."""
    if type(limit) is not int or limit < 0:
        raise Invalid(f"limit {limit!r} is not 0 (all) or the number of points per source")
