"""Calendar periods as SQL: the ``bucket`` of a row, as ``query/language/periods.py`` tells it.
Pure.

For UTC a bucket is a moment cut down. Elsewhere it takes three steps: what a clock on the wall
shows, that cut down (the label, by which rows are grouped), and the first moment with that label.
Spark knows time zones. DuckDB does, too, but through an extension that takes twelve times as long
as cutting down, and that resolves an hour shown twice differently. So there the clock's offsets are
part of the question: a tree of comparisons over the moments at which the offset changes, as deep as
the logarithm of their number. They are needed only for the years that rows are from.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlglot import exp

from strandline.query.language.periods import DAY_US, WEEK_DAYS, Calendar, Period
from strandline.query.plan.sql_dialect import Dialect, call, number

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_YEAR_FIRST, _YEAR_LAST = 1, 9999
_TOLD_UNTIL = 2037
"""Later changes are by rule in the tz database, at most twice a year."""


Years = Sequence[int]
"""In which there are rows, ascending."""


class Change(NamedTuple):
    """From a moment on, a clock has this offset to UTC."""

    at_us: int
    before_us: int
    after_us: int


def label(
    time: exp.Expression, period: Period, calendar: Calendar, years: Years | None, dialect: Dialect
) -> exp.Expression:
    """What to group by: what clocks show, cut down to the beginning of the period."""
    local = time if calendar.is_utc else _local(time, calendar, years, dialect)
    days = WEEK_DAYS.index(calendar.week_start)
    if period != "WEEK" or not days:
        return _cut(local, period)
    shifted = _moved(local, exp.Neg(this=number(days * DAY_US)), dialect)
    return _moved(_cut(shifted, period), number(days * DAY_US), dialect)


def moment(
    shown: exp.Expression, calendar: Calendar, years: Years | None, dialect: Dialect
) -> exp.Expression:
    """The first moment that has a label."""
    if calendar.is_utc:
        return shown
    if dialect == "spark":
        return call("to_utc_timestamp", shown, exp.Literal.string(calendar.timezone))
    changes = _changes(calendar, years)
    # An hour shown twice is the first of the two; an hour that is jumped over ends with the jump.
    bounds = [each.at_us + max(each.before_us, each.after_us) for each in changes]
    offset = _tree(_micros(shown), bounds, _offsets(calendar, years, changes))
    return _moved(shown, exp.Neg(this=exp.paren(offset)), dialect)


def _cut(time: exp.Expression, period: Period) -> exp.Expression:
    return call("date_trunc", exp.Literal.string(period.lower()), time)


def _local(
    time: exp.Expression, calendar: Calendar, years: Years | None, dialect: Dialect
) -> exp.Expression:
    if dialect == "spark":
        return call("from_utc_timestamp", time, exp.Literal.string(calendar.timezone))
    changes = _changes(calendar, years)
    bounds = [change.at_us for change in changes]
    offset = _tree(_micros(time), bounds, _offsets(calendar, years, changes))
    return _moved(time, offset, dialect)


def _micros(time: exp.Expression) -> exp.Expression:
    return call("epoch_us", time.copy())


def _moved(time: exp.Expression, by: exp.Expression, dialect: Dialect) -> exp.Expression:
    if dialect == "spark":
        micros: exp.Expression = call("unix_micros", time.copy())
        return call("timestamp_micros", exp.Add(this=micros, expression=by))
    return call("make_timestamp", exp.Add(this=_micros(time), expression=exp.paren(by)))


def _tree(at: exp.Expression, bounds: Sequence[int], offsets: Sequence[int]) -> exp.Expression:
    """The offset of the last bound at or in front of a number."""
    if not bounds:
        return number(offsets[0])
    middle = len(bounds) // 2
    before = _tree(at, bounds[:middle], offsets[: middle + 1])
    after = _tree(at, bounds[middle + 1 :], offsets[middle + 1 :])
    early = exp.LT(this=at.copy(), expression=number(bounds[middle]))
    return exp.Case(ifs=[exp.If(this=early, true=before)], default=after)


def _offsets(calendar: Calendar, years: Years | None, changes: Sequence[Change]) -> list[int]:
    if changes:
        return [changes[0].before_us, *(change.after_us for change in changes)]
    return [_offset(_begin(years[0]) if years else 0, _zone(calendar.timezone))]


def _changes(calendar: Calendar, years: Years | None) -> list[Change]:
    """The changes of a clock that rows of these years can tell apart."""
    # A row may be in another year where people live, and a week begin in the one before.
    near = {year + more for year in years or () for more in (-1, 0, 1)}
    needed = sorted(year for year in near if _YEAR_FIRST <= year <= _YEAR_LAST)
    found: list[Change] = []
    for before, year in zip([None, *needed], needed, strict=False):
        if before is not None and before + 1 != year:
            found.append(_anew(calendar, before, year))
        found += _changes_in(calendar.timezone, year)
    return found


def _anew(calendar: Calendar, before: int, year: int) -> Change:
    """Between two years about which nothing is known."""
    zone, begin = _zone(calendar.timezone), _begin(year)
    return Change(begin, _offset(_begin(before + 1) - 1, zone), _offset(begin, zone))


def _begin(year: int) -> int:
    return (datetime(year, 1, 1) - _EPOCH) // _MICROSECOND


def _year(at_us: int) -> int:
    try:
        return (_EPOCH + at_us * _MICROSECOND).year
    except OverflowError:
        return _YEAR_FIRST if at_us < 0 else _YEAR_LAST


@functools.lru_cache(maxsize=16384)
def _changes_in(timezone: str, year: int) -> tuple[Change, ...]:
    """Offsets are looked at now and then; between two that differ the moment is searched."""
    zone = _zone(timezone)
    pace = DAY_US if year <= _TOLD_UNTIL else 20 * DAY_US
    at = _begin(year) - 1
    end = at + 366 * DAY_US
    found = []
    before = _offset(at, zone)
    while at < end:
        after = _offset(at + pace, zone)
        if after != before:
            found.append(Change(_searched(at, at + pace, zone), before, after))
        at, before = at + pace, after
    # The last look goes beyond the year.
    return tuple(change for change in found if _year(change.at_us) == year)


def _searched(low_us: int, high_us: int, zone: ZoneInfo) -> int:
    """The first moment with the offset that the upper end has."""
    old = _offset(low_us, zone)
    while high_us - low_us > 1:
        middle = (low_us + high_us) // 2
        if _offset(middle, zone) == old:
            low_us = middle
        else:
            high_us = middle
    return high_us


def _offset(at_us: int, zone: ZoneInfo) -> int:
    try:
        local = (_EPOCH + at_us * _MICROSECOND).replace(tzinfo=UTC).astimezone(zone)
    except OverflowError:  # within a day of the first or last moment there is
        return _offset(at_us + (DAY_US if at_us < 0 else -DAY_US), zone)
    return (local.utcoffset() or timedelta()) // _MICROSECOND


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
