"""``strandline series``: points of sources by time.

``at`` counts in the unit of the series, which is one of its options. A time such as
2026-03-28T14:05:00Z is accepted if that is a unit of time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from strandline.cli.input.confirm import Yes, confirm
from strandline.cli.input.input import value_of
from strandline.cli.open_view import (
    ReadOnlyView,
    check_view_exists,
    open_or_create_view,
    open_to_write,
    series_of,
)
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget, microseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow, fact_row, row_of
from strandline.cli.output.output import output
from strandline.errors import Invalid, NotFound
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.values import Point

if TYPE_CHECKING:  # a view is imported when it is opened
    from strandline.views.series.series import Series

_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

app = App(name="series")

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the series, and of its topic.")]


@app.command(name="write", alias="append")
def append(
    name: Name,
    source: str,
    payload: str | None = None,
    /,
    *,
    at: str | None = None,
    version: int = 0,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Append a point of a source, and create series, topic and store if they do not exist.

    Parameters
    ----------
    source
        Source of the point, any text.
    payload
        Content of the point. Default: all of a piped stdin.
    at
        Its time: a whole number in the unit of the series, or 2026-03-28T14:05:00Z. Default: now.
    version
        Version of the payload format, for readers.
    """
    stored = value_of(payload, "payload")
    with open_or_create_view(target, "series", name, series_of) as series:
        unit = series.statistics().unit
        when = _now(unit) if at is None else _at(at, unit)
        appended = series.append(os.fsencode(source), when, stored, version=version)
        json: Json = {"name": name, "source": source, "at": when, "seq": appended.first_seq}
        output(target.output).one(fact_row(json))


@app.command(name="range")
def read_range(
    name: Name,
    /,
    *source: str,
    first: Annotated[str | None, Parameter(name="--from")] = None,
    last: Annotated[str | None, Parameter(name="--to")] = None,
    limit: int = 100,
    everything: Annotated[Flag, Parameter(name=["--all", "-a"])] = False,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Print points of sources in order of time, source after source.

    Parameters
    ----------
    source
        Sources of the points. Default: all.
    first
        The earliest: a whole number in the unit of the series, or 2026-03-28T14:05:00Z.
    last
        The latest, inclusive.
    limit
        Print at most this many of each source.
    everything
        Print all points.
    """
    if limit < 1:
        raise Invalid("--limit is 1 or more")
    out = output(target.output)
    more: list[Point] = []
    with _view(name, target) as view:
        unit = view.run(lambda series: series.statistics().unit)
        start = AT_MIN if first is None else _at(first, unit)
        end = AT_MAX if last is None else _at(last, unit)
        for each in _sources(view, source):
            points = view.run(_points_of(each, start, end, 0 if everything else limit + 1))
            shown = points if everything else points[:limit]
            out.rows([_point_row(point, unit) for point in shown])
            more += points[len(shown) :]
    out.end()
    if more and target.output == "table":
        sys.stdout.flush()
        starts = ", ".join(f"{formatting.plain(each.source)} --from {each.at}" for each in more[:3])
        rest = f" and {len(more) - 3} more sources" if len(more) > 3 else ""
        print(f"more points: {starts}{rest}", file=sys.stderr)


@app.command
def latest(name: Name, /, *source: str, target: ViewTarget = VIEW_TARGET) -> None:
    """Print the newest point of each source.

    Parameters
    ----------
    source
        Sources of the points. Default: all.
    """
    sources = [os.fsencode(each) for each in source]
    out = output(target.output)
    with _view(name, target) as view:
        unit = view.run(lambda series: series.statistics().unit)
        newest = view.run(lambda series: _newest(series, sources))
        for each in sources:
            if each not in newest:
                raise _no_source(name, each)
        out.rows([_point_row(point, unit) for point in newest.values()])
    out.end()


@app.command(name="ls")
def list_sources(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """List the sources, with the times of their newest points."""
    out = output(target.output)
    with _view(name, target) as view:
        unit = view.run(lambda series: series.statistics().unit)
        newest = view.run(lambda series: series.read_latest())
        out.rows([_source_row(point, unit) for point in newest.values()])
    out.end()


@app.command
def stats(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print statistics of sources, points, arrivals and the index."""
    with _view(name, target) as view:
        numbers = view.run(lambda series: series.statistics())
    output(target.output).one(row_of(numbers))


@app.command
def retain(
    name: Name,
    /,
    *,
    floor: str | None = None,
    yes: Yes = False,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Delete all points before a floor permanently, with their records in the log.

    With `--floor` it asks first; without a terminal it needs `--yes`.

    Points that the saved view has not applied wait for the next save. A store does this by itself
    if the series has a retention, after every save of its views.

    Parameters
    ----------
    floor
        The earliest point to keep: a whole number in the unit of the series, or
        2026-03-28T14:05:00Z. Default: the distance `retention` before the newest point or before
        now (option `retention_by`).
    """
    with open_to_write(target) as store:
        check_view_exists(store, "series", name)
        series = store.series(name)
        config = store.existing_topic(name).config.views.series
        if floor is None and (config is None or not config.effective_retention):
            error = Invalid(f"the series {name!r} has no retention: give a floor with --floor")
            error.add_note(f"`strandline view alter series {name} --option retention=N` sets one")
            raise error
        at = None if floor is None else _at(floor, series.statistics().unit)
        if at is not None and not yes:
            confirm(f"Delete the points of {name!r} before {floor}?")
        output(target.output).one(row_of(series.run_retention(at)))


def _view(name: str, target: ViewTarget) -> ReadOnlyView[Series]:
    return ReadOnlyView(target, "series", name, series_of)


def _sources(view: ReadOnlyView[Series], names: Sequence[str]) -> list[bytes]:
    if names:
        return [os.fsencode(each) for each in dict.fromkeys(names)]
    return view.run(lambda series: list(series.read_latest()))


def _points_of(source: bytes, start: int, end: int, limit: int) -> Callable[[Series], list[Point]]:
    return lambda series: series.range(source, start, end, limit=limit)


def _newest(series: Series, sources: Sequence[bytes]) -> dict[bytes, Point]:
    if not sources:
        return series.read_latest()
    points = {source: series.latest(source) for source in sources}
    return {source: point for source, point in points.items() if point is not None}


def _no_source(name: str, source: bytes) -> NotFound:
    error = NotFound(f"there is no point of source {formatting.plain(source)!r} in {name!r}")
    error.add_note(f"`strandline series ls {name}` lists the sources")
    return error


def _now(unit: str) -> int:
    if unit not in _NS:
        raise Invalid(f"the series counts in {unit!r}, not in time: give --at, a whole number")
    return time.time_ns() // _NS[unit]


def _at(text: str, unit: str) -> int:
    """A whole number as it is, or a time in the unit of the series."""
    if text.lstrip("-").isdigit():
        return int(text)
    if unit not in _NS:
        raise Invalid(
            f"{text!r} is not a valid time: the series counts in {unit!r}, in whole numbers"
        )
    try:
        return microseconds(text) * 1_000 // _NS[unit]
    except Invalid as error:
        raise Invalid(
            f"{text!r} is not a valid time: write a whole number in {unit}, or 2026-03-28T14:05:00Z"
        ) from error


def _source_row(newest: Point, unit: str) -> OutputRow:
    json: Json = {}
    formatting.put_bytes(json, "source", newest.source)
    json |= {"newest_at": newest.at, "seq": newest.seq}
    when = formatting.time_text(newest.at * _NS[unit] // 1_000) if unit in _NS else None
    columns = {"source": formatting.plain(newest.source), "newest at": str(newest.at), "time": when}
    return PreparedRow(json, columns)


def _point_row(point: Point, unit: str) -> OutputRow:
    json: Json = {}
    formatting.put_bytes(json, "source", point.source)
    json |= {"at": point.at, "version": point.version, "seq": point.seq}
    formatting.put_bytes(json, "payload", point.payload)
    when = formatting.time_text(point.at * _NS[unit] // 1_000) if unit in _NS else None
    return PreparedRow(
        json,
        {
            "source": formatting.plain(point.source),
            "at": str(point.at),
            "time": when,
            "version": str(point.version),
            "payload": formatting.plain(point.payload),
        },
    )
