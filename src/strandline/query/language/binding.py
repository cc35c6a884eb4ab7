"""Binds a command: resolves and checks every name and literal against the schemas. Pure.

A query error with its place is raised for: an unknown event or field, a literal that does not fit
its field (literals.py), a field that several events have (scope.py), a time that cannot be parsed,
an aggregate that does not fit its field, and clauses that cannot be combined:

    OFFSET                 requires LIMIT: the size of a page
    LINKED BY              requires a sequence; without it the events of a sequence share a context
    PER, BY                require an aggregate
    RETURN                 is not allowed with aggregates: they are the result
    ORDER BY               with aggregates, takes a column of the result

USING names a datetime or date field of every event. SINCE uses it, or ``ts`` without it, and
applies to every event of a sequence, as FOR does. Rows where that field is null are left out.

conditions.py describes how WHERE of a sequence is split among its events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from strandline.errors import Invalid
from strandline.query.language import times
from strandline.query.language.ast import (
    Aggregate,
    DeleteEvents,
    Metric,
    Name,
    Query,
    ReplayCommand,
    Step,
)
from strandline.query.language.bound_ast import (
    BUCKET,
    BoundAggregate,
    BoundEvent,
    BoundQuery,
    BoundStep,
    Column,
)
from strandline.query.language.conditions import split
from strandline.query.language.errors import QueryError, did_you_mean, join_words
from strandline.query.language.literals import NUMBERS, ORDERED
from strandline.query.language.periods import DEFAULT_CALENDAR, Calendar
from strandline.query.language.scope import NameScope, ScopeEvent, event_names, event_of
from strandline.schema import Schema
from strandline.views.table.condition import Compare, Condition, all_of

Schemas = Callable[[str], Schema | None]
_TIMES = frozenset({"datetime", "date"})


def bind(
    command: Query | ReplayCommand | DeleteEvents | Metric,
    schemas: Schemas,
    text: str = "",
    *,
    events: Collection[str] = (),
    calendar: Calendar = DEFAULT_CALENDAR,
) -> BoundQuery:
    """The bound query of a command.

    ``text`` is the whole text that the command was parsed from: for a command of a BATCH, the text
    of the BATCH. ``events`` are all event types, for hints, and for a REPLAY without an event.
    """
    catalog = _Catalog(schemas, text, events)
    match command:
        case Query():
            return _query(command, catalog, calendar)
        case Metric():
            return _query(query_of(command), catalog, calendar)
        case ReplayCommand():
            return _replay(command, catalog)
        case DeleteEvents():
            return _delete(command, catalog)


def query_of(metric: Metric) -> Query:
    """The query of a metric of a plot, without its time and groups."""
    then = metric.then
    return Query(
        event=metric.event,
        steps=(Step(direction="followed", event=then),) if then else (),
        where=metric.where,
        aggregates=(metric.aggregate,),
    )


class _Catalog:
    """The defined events. Owned by one thread."""

    def __init__(self, schemas: Schemas, text: str, events: Collection[str]) -> None:
        self._schemas = schemas
        self.text = text
        self.events = events

    def schema(self, name: Name) -> Schema:
        schema = self._schemas(name.text)
        if schema is None:
            hint = did_you_mean(name.text, sorted(self.events), called="events are")
            raise QueryError(f"unknown event {name.text!r}", self.text, name.at, hint=hint)
        return schema

    def scope(self, names: Sequence[Name], linked_by: Name | None = None) -> NameScope:
        self._check_case(names)
        called = event_names([name.text for name in names])
        events = [
            event_of(name.text, event_name, self.schema(name))
            for name, event_name in zip(names, called, strict=True)
        ]
        link = linked_by.text if linked_by else "__context"
        return NameScope(events, self.text, link if len(names) > 1 else None)

    def _check_case(self, names: Sequence[Name]) -> None:
        """Reject events of a sequence whose names differ only in case: engines confuse them."""
        first: dict[str, str] = {}
        for name in names:
            first_name = first.setdefault(name.text.lower(), name.text)
            if first_name != name.text:
                raise QueryError(
                    f"{first_name!r} and {name.text!r} differ only in case, and column names "
                    "are not case-sensitive: use two queries",
                    self.text,
                    name.at,
                )


def _query(query: Query, catalog: _Catalog, calendar: Calendar) -> BoundQuery:
    scope = catalog.scope([query.event, *(step.event for step in query.steps)], query.linked_by)
    _check_clauses(query, scope)
    own, cross = split(query.where, scope)
    events = tuple(
        _event(event, scope, query, where) for event, where in zip(scope.events, own, strict=True)
    )
    aggregates = tuple(_aggregate(each, scope) for each in query.aggregates)
    bound = BoundQuery(
        events=events,
        steps=tuple(
            BoundStep(direction=step.direction, within_us=step.within_us) for step in query.steps
        ),
        link=_link(query, scope),
        cross=cross,
        columns=() if aggregates else _returned(query.returning, scope),
        aggregates=aggregates,
        per=query.per,
        by=tuple(scope.result_column(name) for name in query.by),
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


def _delete(command: DeleteEvents, catalog: _Catalog) -> BoundQuery:
    scope = catalog.scope([command.event])
    (own,), _ = split(command.where, scope)
    (event,) = scope.events
    where = all_of(_context(command.context), own)
    bound_event = BoundEvent(name=event.name, called=event.called, schema=event.schema, where=where)
    return BoundQuery(kind="delete", events=(bound_event,))


def _replay(command: ReplayCommand, catalog: _Catalog) -> BoundQuery:
    """A replay. Without an event, of all events, or of those that have the field of USING."""
    names = [command.event] if command.event else [Name(name) for name in sorted(catalog.events)]
    scope = catalog.scope(names)
    using = command.using
    events = scope.events
    if using is not None and command.event is None:
        events = tuple(
            event for event in events if _is_time(event, scope.find_column(event, using.text))
        )
    if not events:
        raise scope.error(
            f"no event has a time field {using.text!r}" if using else "no events are defined yet",
            using.at if using else -1,
        )
    columns_of = _returned if command.event else _replayed
    return BoundQuery(
        kind="replay" if command.event else "replay_all",
        events=tuple(_event(event, scope, command, None) for event in events),
        columns=columns_of(command.returning, NameScope(events, catalog.text)),
    )


def _event(
    event: ScopeEvent, scope: NameScope, command: Query | ReplayCommand, where: Condition | None
) -> BoundEvent:
    """An event with the conditions of FOR, SINCE and USING."""
    time = _time(event, scope, command.using)
    kind = event.kinds[time]
    since: Condition | None = None
    if command.since is not None:
        try:
            convert = times.parse_day if kind.name == "date" else times.parse_time
            since = Compare(time, ">=", convert(command.since))
        except Invalid as error:
            raise scope.error(str(error), command.since_at) from error
    elif kind.optional:
        since = Compare(time, "!=", None)
    return BoundEvent(
        name=event.name,
        called=event.called,
        schema=event.schema,
        time=time,
        where=all_of(_context(command.context), since, where),
    )


def _context(context: str | None) -> Condition | None:
    return None if context is None else Compare("context", "=", context)


def _time(event: ScopeEvent, scope: NameScope, using: Name | None) -> str:
    if using is None:
        return "ts"
    if using.event and (scope.is_sequence or using.event != event.called):
        raise scope.error(
            f"USING applies to every event, not to {using.event!r} alone",
            using.at,
            f"write USING {using.text}",
        )
    column = scope.column(event, using.text, using.at)
    if event.kinds[column].name not in _TIMES:
        raise scope.error(
            f"{column} is {event.kinds[column]}, not a time", using.at, _time_fields(event)
        )
    return column


def _is_time(event: ScopeEvent, column: str | None) -> bool:
    return column is not None and event.kinds[column].name in _TIMES


def _time_fields(event: ScopeEvent) -> str:
    fields = [event.shown[name] for name, kind in event.kinds.items() if kind.name in _TIMES]
    return f"time fields of {event.name} are {join_words(fields, 'and')}"


def _link(query: Query, scope: NameScope) -> str | None:
    if not query.steps:
        return None
    name = query.linked_by
    if name is None:
        return "context"
    if name.event:
        raise scope.error("LINKED BY requires a field that every event has", name.at)
    columns = [scope.column(event, name.text, name.at) for event in scope.events]
    if len(set(columns)) > 1:
        sources = [
            f"{event.shown[own]} of {event.name}"
            for event, own in zip(scope.events, columns, strict=True)
        ]
        raise scope.error(
            f"{name.text} is a field of some events and a system column of others",
            name.at,
            "system columns are __seq, __ts and __context; here it is "
            + join_words(sources, "and"),
        )
    kinds = [event.kinds[own] for event, own in zip(scope.events, columns, strict=True)]
    families = {_family(kind.name) for kind in kinds}
    if len(families) > 1:
        shown = [
            f"{kind.name} in {event.name}" for event, kind in zip(scope.events, kinds, strict=True)
        ]
        raise scope.error(
            f"{name.text} cannot link events: it is {join_words(shown, 'and')}", name.at
        )
    return columns[0]


def _family(kind: str) -> str:
    """The family of a type: only values of one family can be equal."""
    return "number" if kind in NUMBERS else "string" if kind == "enum" else kind


def _returned(names: tuple[Name, ...] | None, scope: NameScope) -> tuple[Column, ...]:
    if names:
        return tuple(scope.result_column(name) for name in names)
    return tuple(
        Column(place, field, f"{event.called}.{shown}" if scope.is_sequence else shown)
        for place, event in enumerate(scope.events)
        for field, shown in event.shown.items()
    )


def _replayed(names: tuple[Name, ...] | None, scope: NameScope) -> tuple[Column, ...]:
    """The columns of a replay of all events: each name once, of the first event that has it."""
    by_name: dict[str, Column] = {}
    for place, event in enumerate(scope.events):
        for column, shown in event.shown.items():
            by_name.setdefault(shown, Column(place, column, shown))
    if not names:
        return tuple(by_name.values())
    by_name.setdefault("timestamp", Column(0, "ts", "timestamp"))
    for name in names:
        if name.text not in by_name or name.event:
            hint = did_you_mean(name.text, list(by_name), called="fields are")
            raise scope.error(f"no event has a field {name.text!r}", name.at, hint)
    return tuple(by_name[name.text] for name in names)


def _aggregate(aggregate: Aggregate, scope: NameScope) -> BoundAggregate:
    function, field = aggregate.function, aggregate.field
    if field is None:
        return BoundAggregate(function=function, column=None, name=aggregate.column)
    column = scope.result_column(field)
    kind = scope.kind(column)
    if function in ("total", "avg") and kind.name not in NUMBERS:
        raise scope.error(
            f"{function.upper()} requires a number, but {field.text} is {kind}",
            field.at,
            "COUNT and COUNT UNIQUE work with every field",
        )
    if function in ("min", "max") and kind.name not in ORDERED:
        raise scope.error(
            f"{function.upper()} requires an order, but {field.text} is {kind}", field.at
        )
    return BoundAggregate(function=function, column=column, name=f"{function}_{column.name}")


def _order(name: Name, bound: BoundQuery, scope: NameScope) -> Column:
    if not bound.aggregates:
        return scope.result_column(name)
    full = f"{name.event}.{name.text}" if name.event else name.text
    fitting = [each for each in bound.names if each == full] or [
        each for each in bound.names if each.lower() == full.lower() or each.endswith(f".{full}")
    ]
    if len(fitting) != 1:
        hint = did_you_mean(full, list(bound.names), called="columns are")
        problem = "no column" if not fitting else "more than one column"
        raise scope.error(f"{problem} of the result has the name {full!r}", name.at, hint)
    return Column(-1, "", fitting[0])


def _check_clauses(query: Query, scope: NameScope) -> None:
    """Reject clauses that cannot be combined."""
    for word, number in (("LIMIT", query.limit), ("OFFSET", query.offset)):
        if number is not None and number < 0:
            raise scope.error(f"{word} must be a whole number >= 0, not {number}", -1)
    if query.offset is not None and query.limit is None:
        raise scope.error("OFFSET requires LIMIT", query.offset_at, "add LIMIT and a number")
    if query.linked_by is not None and not query.steps:
        raise scope.error(
            "LINKED BY requires a sequence", query.linked_by.at, "add FOLLOWED BY and an event"
        )
    if query.aggregates and query.returning is not None:
        at = query.returning[0].at if query.returning else query.event.at
        raise scope.error(
            "RETURN is not allowed with aggregates", at, "they are the result; group it with BY"
        )
    if not query.aggregates and (query.by or query.per):
        at = query.by[0].at if query.by else query.event.at
        clause = "BY" if query.by else "PER"
        raise scope.error(f"{clause} requires an aggregate", at, "add COUNT or TOTAL field")


def _check_names(bound: BoundQuery, query: Query, scope: NameScope) -> None:
    """Reject a result with two columns of one name."""
    seen: set[str] = set()
    for name in bound.names:
        if name in seen:
            hint = f"with PER a group cannot have the name {BUCKET!r}" if name == BUCKET else ""
            raise scope.error(
                f"two columns of the result have the name {name!r}", _place(name, query), hint
            )
        seen.add(name)


def _place(name: str, query: Query) -> int:
    """The place where the last column of this name is requested."""
    fields = [each.field for each in query.aggregates if each.field]
    names = [*(query.returning or ()), *query.by, *fields]
    places = [each.at for each in names if name.endswith(each.text)]
    return places[-1] if places else query.event.at
