"""Questions answered the slow way, in plain Python, from what the documents promise.

Rows are dicts of Python values. Nothing of ``strandline.query`` is used but the commands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from strandline.query.language.ast import Aggregate, Name, Query, Step
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth

Row = dict[str, Any]
Rows = dict[str, list[Row]]
WEEK_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class Case(msgspec.Struct, kw_only=True):
    """A question, with WHERE taken apart."""

    query: Query
    fields: dict[str, dict[str, str]]
    """The types of each event's fields."""
    called: list[str]
    own: list[Condition | None]
    cross: Condition | None = None
    timezone: str = "UTC"
    week_start: str = "monday"


def answer(case: Case, rows: Rows) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows, in order."""
    query = case.query
    found = _matches(case, [_own_rows(case, place, rows) for place in range(len(case.called))])
    if case.cross is not None:
        found = [match for match in found if holds(case.cross, match)]
    if query.aggregates:
        names, result = _grouped(case, found)
    else:
        names, result = _selected(case, found)
    first = query.offset or 0
    last = None if query.limit is None else first + query.limit
    return names, result[first:last]


def holds(condition: Condition, row: Row) -> bool:
    """Two truth values: a comparison with a missing value is false, NOT turns it around."""
    match condition:
        case Not(of):
            return not holds(of, row)
        case And(of):
            return all(holds(part, row) for part in of)
        case Or(of):
            return any(holds(part, row) for part in of)
        case Truth(field, event):
            return _value(row, field, event) is True
        case In(field, values, event):
            value = _value(row, field, event)
            return any(value == _literal(each, value) for each in values)
        case Compare(field, op, wanted, event):
            value = _value(row, field, event)
            if wanted is None or op in ("=", "!="):
                return (value == _literal(wanted, value)) is (op == "=")
            return value is not None and _ORDERS[op](value, _literal(wanted, value))


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _value(row: Row, field: str, event: str) -> Any:
    return row[f"{event}.{field}" if event else field]


def _literal(told: Any, beside: Any) -> Any:
    """Times are written as text."""
    if isinstance(beside, datetime) and isinstance(told, str):
        return datetime.fromisoformat(told)
    if isinstance(beside, date) and isinstance(told, str):
        return date.fromisoformat(told)
    return told


def _time(case: Case) -> str:
    return case.query.using.text if case.query.using else "ts"


def _moment(value: date | datetime) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, time(), UTC)


def _own_rows(case: Case, place: int, rows: Rows) -> list[Row]:
    query = case.query
    event = query.event if place == 0 else query.steps[place - 1].event
    own, at = case.own[place], _time(case)
    return [
        row
        for row in rows[event.text]
        if row[at] is not None
        and (query.context is None or row["context"] == query.context)
        and (query.since is None or row[at] >= _literal(query.since, row[at]))
        and (own is None or holds(own, row))
    ]


def _matches(case: Case, events: list[list[Row]]) -> list[Row]:
    """Rows of one event as they are; of a sequence joined, with the event in front of fields."""
    query = case.query
    if not query.steps:
        return events[0]
    names = [query.event.text, *(step.event.text for step in query.steps)]
    link = query.linked_by.text if query.linked_by else "context"
    found = []
    for first in events[0]:
        chain = [first]
        for place, step in enumerate(query.steps, 1):
            same = names[place] == names[place - 1]
            picked = _picked(chain[-1], events[place], step, link, _time(case), same=same)
            if picked is None:
                break
            chain.append(picked)
        else:
            found.append(
                {
                    f"{called}.{field}": value
                    for called, row in zip(case.called, chain, strict=True)
                    for field, value in row.items()
                }
            )
    return found


def _picked(
    before: Row, rows: list[Row], step: Step, link: str, at: str, *, same: bool
) -> Row | None:
    if before[link] is None:
        return None
    start = _moment(before[at])
    fitting = []
    for row in rows:
        if row[link] is None or row[link] != before[link]:
            continue
        when = _moment(row[at])
        distance = abs(when - start) / timedelta(microseconds=1)
        if step.within_us is not None and distance > step.within_us:
            continue
        if step.direction == "preceded":
            fits = when < start
        elif same:
            fits = (when, row["seq"]) > (start, before["seq"])
        else:
            fits = when >= start
        if fits:
            fitting.append(row)
    key = lambda row: (_moment(row[at]), row["seq"])  # noqa: E731 -- one for both
    choose = max if step.direction == "preceded" else min
    return choose(fitting, key=key) if fitting else None


def _column(case: Case, name: Name) -> str:
    if not case.query.steps:
        return name.text
    return f"{name.event or case.called[0]}.{name.text}"


def _selected(case: Case, found: list[Row]) -> tuple[list[str], list[tuple[Any, ...]]]:
    query = case.query
    names = [_column(case, name) for name in query.returning or ()] or _all_columns(case)
    natural = ["seq"]
    if query.steps:
        natural = [f"{case.called[0]}.{_time(case)}", f"{case.called[0]}.seq"]
    found = sorted(found, key=lambda row: [row[column] for column in natural])
    if query.order_by:
        found = _by(found, _column(case, query.order_by), descending=query.descending)
    return names, [tuple(row[name] for name in names) for row in found]


def _all_columns(case: Case) -> list[str]:
    query = case.query
    names = [query.event.text, *(step.event.text for step in query.steps)]
    return [
        f"{called}.{field}" if query.steps else field
        for called, name in zip(case.called, names, strict=True)
        for field in ("seq", "ts", "context", *case.fields[name])
    ]


def _by(rows: Sequence[Row], column: str, *, descending: bool) -> list[Row]:
    """Sorted without disturbing the order there is; missing values last."""
    there = [row for row in rows if row[column] is not None]
    missing = [row for row in rows if row[column] is None]
    there.sort(key=lambda row: row[column], reverse=descending)
    return there + missing


def _grouped(case: Case, found: list[Row]) -> tuple[list[str], list[tuple[Any, ...]]]:
    query = case.query
    keys = [_column(case, name) for name in query.by]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    if not keys and not query.per:
        groups[()] = []
    for row in found:
        bucket = [_bucket(case, row)] if query.per else []
        groups.setdefault((*bucket, *(row[key] for key in keys)), []).append(row)
    names = (["bucket"] if query.per else []) + keys
    figures = {_figure_name(case, each): each for each in query.aggregates}
    rows = [
        dict(zip(names, key, strict=True))
        | {name: _figure(case, each, group) for name, each in figures.items()}
        for key, group in groups.items()
    ]
    for name in reversed(names):
        rows = _by(rows, name, descending=False)
    if query.order_by:
        asked = query.order_by
        full = f"{asked.event}.{asked.text}" if asked.event else asked.text
        rows = _by(rows, full, descending=query.descending)
    names += figures
    return names, [tuple(row[name] for name in names) for row in rows]


def _figure_name(case: Case, figure: Aggregate) -> str:
    return f"{figure.function}_{_column(case, figure.field)}" if figure.field else figure.function


def _figure(case: Case, figure: Aggregate, group: list[Row]) -> Any:
    if figure.field is None:
        return len(group)
    column = _column(case, figure.field)
    values = [row[column] for row in group if row[column] is not None]
    match figure.function:
        case "count":
            return len(values)
        case "count_unique":
            return len(set(values))
    if not values:
        return None
    match figure.function:
        case "min":
            return min(values)
        case "max":
            return max(values)
    total = math.fsum(values) if isinstance(values[0], float) else sum(values)
    return total if figure.function == "total" else total / len(values)


def _bucket(case: Case, row: Row) -> datetime:
    value = row[f"{case.called[0]}.{_time(case)}" if case.query.steps else _time(case)]
    zone = ZoneInfo(case.timezone)
    clock = value.astimezone(zone) if isinstance(value, datetime) else _moment(value)
    label = _cut(clock.replace(tzinfo=None, minute=0, second=0, microsecond=0), case)
    return label.replace(tzinfo=zone, fold=0).astimezone(UTC)


def _cut(clock: datetime, case: Case) -> datetime:
    match case.query.per:
        case "HOUR":
            return clock
        case "DAY":
            return clock.replace(hour=0)
        case "WEEK":
            into = (clock.weekday() - WEEK_DAYS.index(case.week_start)) % 7
            return clock.replace(hour=0) - timedelta(days=into)
        case "MONTH":
            return clock.replace(day=1, hour=0)
    return clock.replace(month=1, day=1, hour=0)
