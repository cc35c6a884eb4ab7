"""Binds WHERE to the events of a query: resolves names, types literals, splits by event. Pure.

A condition is split where all parts must be true: at AND, and at NOT of an OR. A part about one
event is assigned to that event, and filters its rows before rows are matched. A part about the link
alone applies to every event. The other parts are about several events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from strandline.query.language.literals import LiteralTypeError, bind_leaf
from strandline.query.language.scope import ALL_EVENTS, NameScope
from strandline.views.table.condition import And, Condition, Leaf, Not, Or, all_of, leaves


def split(
    where: Condition | None, scope: NameScope
) -> tuple[list[Condition | None], Condition | None]:
    """The condition of each event, and the condition on several events."""
    own: list[Condition | None] = [None] * len(scope.events)
    cross: Condition | None = None
    for part in _parts(where):
        places = _events_of(part, scope)
        if len(places) > 1:
            cross = all_of(cross, _bind(part, partial(_leaf_in_matches, scope)))
            continue
        for place in places or range(len(scope.events)):
            own[place] = all_of(own[place], _bind(part, partial(_leaf_of_event, scope, place)))
    return own, cross


def _parts(condition: Condition | None) -> Iterator[Condition]:
    """The conditions that must all be true."""
    match condition:
        case None:
            return
        case And(of):
            for each in of:
                yield from _parts(each)
        case Not(Or(of)):
            for each in of:
                yield from _parts(Not(each))
        case Not(Not(of)):
            yield from _parts(of)
        case _:
            yield condition


def _events_of(condition: Condition, scope: NameScope) -> set[int]:
    """The events that a condition is about; none when it is about the link."""
    events = {scope.find(leaf.field, leaf.event, leaf.at)[0] for leaf in leaves(condition)}
    return events - {ALL_EVENTS}


def _bind(condition: Condition, leaf_of: Callable[[Leaf], Condition]) -> Condition:
    match condition:
        case Not(of):
            return Not(_bind(of, leaf_of))
        case And(of):
            return And(tuple(_bind(each, leaf_of) for each in of))
        case Or(of):
            return Or(tuple(_bind(each, leaf_of) for each in of))
        case leaf:
            return leaf_of(leaf)


def _leaf_of_event(scope: NameScope, place: int, leaf: Leaf, called: str = "") -> Condition:
    """A comparison with a column of this event."""
    event = scope.events[place]
    field = scope.column(event, leaf.field, leaf.at)
    try:
        return bind_leaf(leaf, field, event.kinds[field], called)
    except LiteralTypeError as error:
        raise scope.error(str(error), leaf.at, error.hint) from error


def _leaf_in_matches(scope: NameScope, leaf: Leaf) -> Condition:
    place, _ = scope.find(leaf.field, leaf.event, leaf.at)
    place = max(place, 0)
    return _leaf_of_event(scope, place, leaf, scope.events[place].called)
