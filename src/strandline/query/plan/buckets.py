"""Calendar periods as SQL: the ``bucket`` of a row, as ``query/language/periods.py`` defines it.
Pure.

For UTC a bucket is a truncated time. For other zones it takes three steps: the local time, its
truncation (the label, by which rows are grouped), and the first time with that label. Spark
supports time zones. DuckDB does, too, but in an extension that is twelve times slower than the
truncation, and that resolves an hour shown twice differently. So for DuckDB the offsets of the zone
are in the query: a tree of comparisons over the times at which the offset changes, as deep as the
logarithm of their number. Only the years of the rows are needed.
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
_DAILY_UNTIL = 2037
"""Later changes are by rule in the tz database, at most twice a year."""


Years = Sequence[int]
"""The years of rows, ascending."""


class _OffsetChange(NamedTuple):
    """A change of the offset to UTC, at a time."""

    at_us: int
    before_us: int
    after_us: int


def label(
    time: exp.Expression, period: Period, calendar: Calendar, years: Years | None, dialect: Dialect
) -> exp.Expression:
    """The expression to group by: the local time, cut to the start of the period."""
    local = time if calendar.is_utc else _local(time, calendar, years, dialect)
    days = WEEK_DAYS.index(calendar.week_start)
    if period != "WEEK" or not days:
        return _cut(local, period)
    shifted = _shift(local, exp.Neg(this=number(days * DAY_US)), dialect)
    return _shift(_cut(shifted, period), number(days * DAY_US), dialect)


def time_of_label(
    shown: exp.Expression, calendar: Calendar, years: Years | None, dialect: Dialect
) -> exp.Expression:
    """The first time that has a label."""
    if calendar.is_utc:
        return shown
    if dialect == "spark":
        return call("to_utc_timestamp", shown, exp.Literal.string(calendar.timezone))
    changes = _changes(calendar, years)
    # An hour shown twice is the first of the two; a skipped hour ends with the skip.
    bounds = [each.at_us + max(each.before_us, each.after_us) for each in changes]
    offset = _tree(_micros(shown), bounds, _offsets(calendar, years, changes))
    return _shift(shown, exp.Neg(this=exp.paren(offset)), dialect)


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
    return _shift(time, offset, dialect)


def _micros(time: exp.Expression) -> exp.Expression:
    return call("epoch_us", time.copy())


def _shift(time: exp.Expression, by: exp.Expression, dialect: Dialect) -> exp.Expression:
    if dialect == "spark":
        micros: exp.Expression = call("unix_micros", time.copy())
        return call("timestamp_micros", exp.Add(this=micros, expression=by))
    return call("make_timestamp", exp.Add(this=_micros(time), expression=exp.paren(by)))


def _tree(at: exp.Expression, bounds: Sequence[int], offsets: Sequence[int]) -> exp.Expression:
    """The offset of the last bound at or before a number."""
    if not bounds:
        return number(offsets[0])
    middle = len(bounds) // 2
    before = _tree(at, bounds[:middle], offsets[: middle + 1])
    after = _tree(at, bounds[middle + 1 :], offsets[middle + 1 :])
    early = exp.LT(this=at.copy(), expression=number(bounds[middle]))
    return exp.Case(ifs=[exp.If(this=early, true=before)], default=after)


def _offsets(
    calendar: Calendar, years: Years | None, changes: Sequence[_OffsetChange]
) -> list[int]:
    if changes:
        return [changes[0].before_us, *(change.after_us for change in changes)]
    return [_offset(_begin(years[0]) if years else 0, _zone(calendar.timezone))]


def _changes(calendar: Calendar, years: Years | None) -> list[_OffsetChange]:
    """The changes of offset that are relevant for rows of these years."""
    # The local year of a row may differ, and its week may start in the year before.
    candidates = {year + more for year in years or () for more in (-1, 0, 1)}
    needed = sorted(year for year in candidates if _YEAR_FIRST <= year <= _YEAR_LAST)
    changes: list[_OffsetChange] = []
    for before, year in zip([None, *needed], needed, strict=False):
        if before is not None and before + 1 != year:
            changes.append(_change_between(calendar, before, year))
        changes += _changes_in(calendar.timezone, year)
    return changes


def _change_between(calendar: Calendar, before: int, year: int) -> _OffsetChange:
    """A single change in place of the unknown ones between two years."""
    zone, begin = _zone(calendar.timezone), _begin(year)
    return _OffsetChange(begin, _offset(_begin(before + 1) - 1, zone), _offset(begin, zone))


def _begin(year: int) -> int:
    return (datetime(year, 1, 1) - _EPOCH) // _MICROSECOND


def _year(at_us: int) -> int:
    try:
        return (_EPOCH + at_us * _MICROSECOND).year
    except OverflowError:
        return _YEAR_FIRST if at_us < 0 else _YEAR_LAST


@functools.lru_cache(maxsize=16384)
def _changes_in(timezone: str, year: int) -> tuple[_OffsetChange, ...]:
    """Samples offsets at intervals; between two that differ, searches the time of the change."""
    zone = _zone(timezone)
    pace = DAY_US if year <= _DAILY_UNTIL else 20 * DAY_US
    at = _begin(year) - 1
    end = at + 366 * DAY_US
    changes = []
    before = _offset(at, zone)
    while at < end:
        after = _offset(at + pace, zone)
        if after != before:
            changes.append(_OffsetChange(_search(at, at + pace, zone), before, after))
        at, before = at + pace, after
    # The last sample is beyond the year.
    return tuple(change for change in changes if _year(change.at_us) == year)


def _search(low_us: int, high_us: int, zone: ZoneInfo) -> int:
    """The first time with the offset of the upper end, by binary search."""
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
    except OverflowError:  # within a day of the first or last datetime
        return _offset(at_us + (DAY_US if at_us < 0 else -DAY_US), zone)
    return (local.utcoffset() or timedelta()) // _MICROSECOND


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
