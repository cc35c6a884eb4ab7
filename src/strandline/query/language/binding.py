"""A command -> a question whose every name and literal is checked against the schemas. Pure.

What is wrong is a Mistake at its place: an event or a field that is not there, a literal that its
field cannot have (literals.py), a field of several events (scope.py), a time that cannot be read,
an aggregate of what it cannot add up, and clauses that do not go together:

    OFFSET                 needs LIMIT: without it pages would have no size
    LINKED BY              needs a sequence; without it the events of a sequence share a context
    PER, BY                need an aggregate
    RETURN                 does not go with aggregates: they are the result
    ORDER BY               with aggregates, a column of the result

USING names a datetime or date field of every event. SINCE goes by it, and by ``ts`` without it, and
holds for every event of a sequence, as FOR does. Rows where that field is null are left out.

How WHERE of a sequence is split among its events is said in conditions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from strandline.errors import Invalid
from strandline.query.language import times
from strandline.query.language.ast import Aggregate, DeleteEvents, Metric, Name, Query, Replay, Step
from strandline.query.language.bound_ast import (
    BUCKET,
    Bound,
    BoundAggregate,
    BoundEvent,
    BoundStep,
    Column,
)
from strandline.query.language.conditions import split
from strandline.query.language.errors import Mistake, did_you_mean, told
from strandline.query.language.literals import NUMBERS, ORDERED
from strandline.query.language.periods import PLAIN, Calendar
from strandline.query.language.scope import Event, Scope, called_names, event_of
from strandline.schema import Schema
from strandline.views.table.condition import Compare, Condition, both

Schemas = Callable[[str], Schema | None]
_TIMES = frozenset({"datetime", "date"})


def bind(
    command: Query | Replay | DeleteEvents | Metric,
    schemas: Schemas,
    text: str = "",
    *,
    events: Collection[str] = (),
    calendar: Calendar = PLAIN,
) -> Bound:
    """The question that a command asks.

    ``text`` is what the command was parsed from, whole: a BATCH for a command of one. ``events``
    are those there are, for hints, and for a REPLAY that names none.
    """
    known = _Known(schemas, text, events)
    match command:
        case Query():
            return _query(command, known, calendar)
        case Metric():
            return _query(query_of(command), known, calendar)
        case Replay():
            return _replay(command, known)
        case DeleteEvents():
            return _delete(command, known)


def query_of(metric: Metric) -> Query:
    """What a metric of a plot asks, without its time and groups."""
    then = metric.then
    return Query(
        event=metric.event,
        steps=(Step(direction="followed", event=then),) if then else (),
        where=metric.where,
        aggregates=(metric.aggregate,),
    )


class _Known:
    """The events there are. Owned by one thread."""

    def __init__(self, schemas: Schemas, text: str, events: Collection[str]) -> None:
        self._schemas = schemas
        self.text = text
        self.events = events

    def schema(self, name: Name) -> Schema:
        found = self._schemas(name.text)
        if found is None:
            hint = did_you_mean(name.text, sorted(self.events), called="there are")
            raise Mistake(f"no event is called {name.text!r}", self.text, name.at, hint=hint)
        return found

    def scope(self, names: Sequence[Name], linked_by: Name | None = None) -> Scope:
        self._check_alike(names)
        called = called_names([name.text for name in names])
        found = [
            event_of(name.text, own, self.schema(name))
            for name, own in zip(names, called, strict=True)
        ]
        link = linked_by.text if linked_by else "__context"
        return Scope(found, self.text, link if len(names) > 1 else None)

    def _check_alike(self, names: Sequence[Name]) -> None:
        """Refuse events of a sequence that engines could not tell apart."""
        first: dict[str, str] = {}
        for name in names:
            other = first.setdefault(name.text.lower(), name.text)
            if other != name.text:
                raise Mistake(
                    f"{other!r} and {name.text!r} differ by capital letters alone, which columns "
                    "do not tell apart: ask for them in two questions",
                    self.text,
                    name.at,
                )


def _query(query: Query, known: _Known, calendar: Calendar) -> Bound:
    scope = known.scope([query.event, *(step.event for step in query.steps)], query.linked_by)
    _check_clauses(query, scope)
    own, cross = split(query.where, scope)
    events = tuple(
        _event(event, scope, query, where) for event, where in zip(scope.events, own, strict=True)
    )
    aggregates = tuple(_aggregate(each, scope) for each in query.aggregates)
    bound = Bound(
        events=events,
        steps=tuple(
            BoundStep(direction=step.direction, within_us=step.within_us) for step in query.steps
        ),
        link=_link(query, scope),
        cross=cross,
        columns=() if aggregates else _returned(query.returning, scope),
        aggregates=aggregates,
        per=query.per,
        by=tuple(scope.named(name) for name in query.by),
        order_by=None,
        descending=query.descending,
        limit=query.limit,
        offset=query.offset or 0,
        calendar=calendar,
    )
    _check_names(bound, query, scope)
    if query.order_by is None:
        return bound
    return msgspec.structs.replace(bound, order_by=_order(query.order_by, bound, scope))


def _delete(command: DeleteEvents, known: _Known) -> Bound:
    scope = known.scope([command.event])
    (own,), _ = split(command.where, scope)
    (event,) = scope.events
    where = both(_context(command.context), own)
    bound_event = BoundEvent(name=event.name, called=event.called, schema=event.schema, where=where)
    return Bound(kind="delete", events=(bound_event,))


def _replay(command: Replay, known: _Known) -> Bound:
    """Of all events there are when none is named: those that have the field of USING."""
    names = [command.event] if command.event else [Name(name) for name in sorted(known.events)]
    scope = known.scope(names)
    using = command.using
    taken = scope.events
    if using is not None and command.event is None:
        taken = tuple(event for event in taken if _is_time(event, scope.has(event, using.text)))
    if not taken:
        raise scope.mistake(
            f"no event has a time {using.text!r}" if using else "there are no events yet",
            using.at if using else -1,
        )
    returned = _returned if command.event else _replayed
    return Bound(
        kind="replay" if command.event else "replay_all",
        events=tuple(_event(event, scope, command, None) for event in taken),
        columns=returned(command.returning, Scope(taken, known.text)),
    )


def _event(
    event: Event, scope: Scope, command: Query | Replay, where: Condition | None
) -> BoundEvent:
    """An event with what FOR, SINCE and USING say about it."""
    time = _time(event, scope, command.using)
    kind = event.kinds[time]
    since: Condition | None = None
    if command.since is not None:
        try:
            convert = times.day if kind.name == "date" else times.moment
            since = Compare(time, ">=", convert(command.since))
        except Invalid as error:
            raise scope.mistake(str(error), command.since_at) from error
    elif kind.optional:
        since = Compare(time, "!=", None)
    return BoundEvent(
        name=event.name,
        called=event.called,
        schema=event.schema,
        time=time,
        where=both(_context(command.context), since, where),
    )


def _context(context: str | None) -> Condition | None:
    return None if context is None else Compare("context", "=", context)


def _time(event: Event, scope: Scope, using: Name | None) -> str:
    if using is None:
        return "ts"
    if using.event and (scope.is_sequence or using.event != event.called):
        raise scope.mistake(
            f"USING goes for every event, not for {using.event!r} alone",
            using.at,
            f"write USING {using.text}",
        )
    column = scope.column(event, using.text, using.at)
    if event.kinds[column].name not in _TIMES:
        raise scope.mistake(
            f"{column} is {event.kinds[column]}, and no time", using.at, _times_told(event)
        )
    return column


def _is_time(event: Event, column: str | None) -> bool:
    return column is not None and event.kinds[column].name in _TIMES


def _times_told(event: Event) -> str:
    found = [event.shown[name] for name, kind in event.kinds.items() if kind.name in _TIMES]
    return f"times of {event.name} are {told(found, 'and')}"


def _link(query: Query, scope: Scope) -> str | None:
    if not query.steps:
        return None
    name = query.linked_by
    if name is None:
        return "context"
    if name.event:
        raise scope.mistake("LINKED BY names a field that every event has", name.at)
    columns = [scope.column(event, name.text, name.at) for event in scope.events]
    if len(set(columns)) > 1:
        told_all = [
            f"{event.shown[own]} of {event.name}"
            for event, own in zip(scope.events, columns, strict=True)
        ]
        raise scope.mistake(
            f"{name.text} is a field of some events and a system column of others",
            name.at,
            f"a system column is __seq, __ts or __context; here it is {told(told_all, 'and')}",
        )
    kinds = [event.kinds[own] for event, own in zip(scope.events, columns, strict=True)]
    families = {_family(kind.name) for kind in kinds}
    if len(families) > 1:
        shown = [
            f"{kind.name} in {event.name}" for event, kind in zip(scope.events, kinds, strict=True)
        ]
        raise scope.mistake(f"{name.text} cannot link events: it is {told(shown, 'and')}", name.at)
    return columns[0]


def _family(kind: str) -> str:
    """Types whose values can be the same."""
    return "number" if kind in NUMBERS else "string" if kind == "enum" else kind


def _returned(names: tuple[Name, ...] | None, scope: Scope) -> tuple[Column, ...]:
    if names:
        return tuple(scope.named(name) for name in names)
    return tuple(
        Column(place, field, f"{event.called}.{shown}" if scope.is_sequence else shown)
        for place, event in enumerate(scope.events)
        for field, shown in event.shown.items()
    )


def _replayed(names: tuple[Name, ...] | None, scope: Scope) -> tuple[Column, ...]:
    """Of a replay of all events: columns by name, of the first event that has each."""
    found: dict[str, Column] = {}
    for place, event in enumerate(scope.events):
        for column, shown in event.shown.items():
            found.setdefault(shown, Column(place, column, shown))
    if not names:
        return tuple(found.values())
    found.setdefault("timestamp", Column(0, "ts", "timestamp"))
    for name in names:
        if name.text not in found or name.event:
            hint = did_you_mean(name.text, list(found), called="there are")
            raise scope.mistake(f"no event has a field {name.text!r}", name.at, hint)
    return tuple(found[name.text] for name in names)


def _aggregate(aggregate: Aggregate, scope: Scope) -> BoundAggregate:
    function, field = aggregate.function, aggregate.field
    if field is None:
        return BoundAggregate(function=function, column=None, name=aggregate.column)
    column = scope.named(field)
    kind = scope.kind(column)
    if function in ("total", "avg") and kind.name not in NUMBERS:
        raise scope.mistake(
            f"{function.upper()} is of numbers, and {field.text} is {kind}",
            field.at,
            "COUNT and COUNT UNIQUE go with every field",
        )
    if function in ("min", "max") and kind.name not in ORDERED:
        raise scope.mistake(
            f"{function.upper()} needs an order, and {field.text} is {kind}", field.at
        )
    return BoundAggregate(function=function, column=column, name=f"{function}_{column.name}")


def _order(name: Name, bound: Bound, scope: Scope) -> Column:
    if not bound.aggregates:
        return scope.named(name)
    full = f"{name.event}.{name.text}" if name.event else name.text
    fitting = [each for each in bound.names if each == full] or [
        each for each in bound.names if each.lower() == full.lower() or each.endswith(f".{full}")
    ]
    if len(fitting) != 1:
        hint = did_you_mean(full, list(bound.names), called="there are")
        problem = "no column" if not fitting else "more than one column"
        raise scope.mistake(f"{problem} of the result is called {full!r}", name.at, hint)
    return Column(-1, "", fitting[0])


def _check_clauses(query: Query, scope: Scope) -> None:
    """Clauses that do not go together."""
    for what, number in (("LIMIT", query.limit), ("OFFSET", query.offset)):
        if number is not None and number < 0:
            raise scope.mistake(f"{what} is a whole number from 0 on, not {number}", -1)
    if query.offset is not None and query.limit is None:
        raise scope.mistake("OFFSET requires LIMIT", query.offset_at, "add LIMIT and a number")
    if query.linked_by is not None and not query.steps:
        raise scope.mistake(
            "LINKED BY needs a sequence", query.linked_by.at, "add FOLLOWED BY and an event"
        )
    if query.aggregates and query.returning is not None:
        at = query.returning[0].at if query.returning else query.event.at
        raise scope.mistake(
            "RETURN does not go with aggregates", at, "they are the result; group it with BY"
        )
    if not query.aggregates and (query.by or query.per):
        at = query.by[0].at if query.by else query.event.at
        clause = "BY" if query.by else "PER"
        raise scope.mistake(f"{clause} needs an aggregate", at, "add COUNT, or TOTAL and a field")


def _check_names(bound: Bound, query: Query, scope: Scope) -> None:
    """No two columns of a result are called the same."""
    seen: set[str] = set()
    for name in bound.names:
        if name in seen:
            hint = f"a group cannot be called {BUCKET!r} with PER" if name == BUCKET else ""
            raise scope.mistake(
                f"two columns of the result are called {name!r}", _place(name, query), hint
            )
        seen.add(name)


def _place(name: str, query: Query) -> int:
    """Where the last column of this name is asked for."""
    fields = [each.field for each in query.aggregates if each.field]
    asked = [*(query.returning or ()), *query.by, *fields]
    places = [each.at for each in asked if name.endswith(each.text)]
    return places[-1] if places else query.event.at
