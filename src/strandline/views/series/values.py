"""What a series gives out, and how its arguments are checked. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from strandline.errors import Invalid
from strandline.records import Appended
from strandline.views.series.meta import AT_MAX, AT_MIN

SourceName = int | str | bytes
"""A source as users name it: 17, "17" and b"17" are the same one."""


class Point(msgspec.Struct, frozen=True, gc=False):
    """One record of a series."""

    source: bytes
    at: int
    payload: bytes
    version: int
    """Of the payload, as it was stored."""
    seq: int
    """Its place in the topic: of equal ats the lower came first."""


class RefusedPoint(NamedTuple):
    """A point that a series does not take."""

    place: int
    """In the batch, from 0."""
    at: int
    reason: str
    """``floor``: it is before the floor. ``future``: it is too far in the future."""


class AppendedPoints(Appended, frozen=True, gc=False):
    """Where a batch of points landed. Of one whose points were all dropped, ``last_seq`` is before
    ``first_seq``."""

    refused: tuple[RefusedPoint, ...] = ()
    """Points that were dropped, in the order of the batch."""


class Available(NamedTuple):
    """The first points there are from some moment on."""

    end: int | None
    """The last at that was looked for; go on behind it. None when there is nothing."""
    points: dict[SourceName, list[Point]]


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    """What retention has done."""

    floor: int | None
    """No point is before this at; None when there is no floor."""
    released: int
    """Records that have left the log."""
    waiting: int
    """Records that leave it after the next save of views."""


class SeriesStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A series in numbers."""

    unit: str
    sources: int
    points: int
    """Points in the index: those before the floor leave it with the next retention."""
    newest: int | None
    """The greatest at of all."""
    floor: int | None
    normal: int
    """Points that came at or behind their source's newest, since the series began."""
    jitter_absorbed: int
    """Points that came a little before it, within the jitter window."""
    late_arrivals: int
    """Points that came longer before it."""
    below_floor: int
    """Plain records that came before the floor: they are never seen."""
    refused: int
    """Points that were refused or dropped for being before the floor or too far in the future,
    since the store was opened."""
    level: int
    """How coarse the index is, from 0 to 8."""
    spacing: int
    """Points of one index entry, at most."""
    batch: int
    """Index entries that are written together."""
    scale_up: int
    """How often the index became coarser, since the store was opened."""
    scale_down: int
    """How often it became finer."""
    pending: int
    """Index entries that wait to be written."""
    queue_full: int
    """How often the queue of those was full, and an append had to write some."""
    unreleased: int
    """Records before the floor that are still in the log."""


def name_of(source: SourceName) -> bytes:
    """The key that a source's records have."""
    if type(source) is int:
        return b"%d" % source
    if isinstance(source, bytes) and source:
        return bytes(source)
    if isinstance(source, str) and source:
        try:
            return source.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"source {source!r} is no text: {error}") from None
    raise Invalid(f"source {source!r} is no name: use a whole number, text or bytes, not empty")


def check_at(what: str, at: int) -> None:
    """Raise when this cannot be an at."""
    if type(at) is not int or not AT_MIN <= at <= AT_MAX:
        raise Invalid(f"{what} {at!r} is no whole number of 64 bits: give an int of your unit")


def check_limit(limit: int) -> None:
    """Raise when this cannot be how many points are wanted."""
    if type(limit) is not int or limit < 0:
        raise Invalid(f"limit {limit!r} is not 0 (all) or how many points of each source")
