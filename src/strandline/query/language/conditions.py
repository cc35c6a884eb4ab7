"""WHERE of a question, bound to its events: names found, literals typed, and split by event. Pure.

A condition is taken apart where all parts must be true: at AND, and at NOT of an OR. Each part that
is about one event goes to that event, where it can rule out rows before anything is compared. A
part about the link alone holds for every event. The rest is about several events at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from strandline.query.language.literals import Unfit, typed
from strandline.query.language.scope import ALL_EVENTS, Scope
from strandline.views.table.condition import And, Condition, Leaf, Not, Or, both, leaves


def split(where: Condition | None, scope: Scope) -> tuple[list[Condition | None], Condition | None]:
    """What holds for each event by itself, and what for several."""
    own: list[Condition | None] = [None] * len(scope.events)
    cross: Condition | None = None
    for part in _parts(where):
        places = _places(part, scope)
        if len(places) > 1:
            cross = both(cross, _bound(part, partial(_of_its_event, scope)))
            continue
        for place in places or range(len(scope.events)):
            own[place] = both(own[place], _bound(part, partial(_of, scope, place)))
    return own, cross


def _parts(condition: Condition | None) -> Iterator[Condition]:
    """Conditions that must all be true."""
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


def _places(condition: Condition, scope: Scope) -> set[int]:
    """The events that it is about; none when it is about the link."""
    found = {scope.find(leaf.field, leaf.event, leaf.at)[0] for leaf in leaves(condition)}
    return found - {ALL_EVENTS}


def _bound(condition: Condition, leaf_of: Callable[[Leaf], Condition]) -> Condition:
    match condition:
        case Not(of):
            return Not(_bound(of, leaf_of))
        case And(of):
            return And(tuple(_bound(each, leaf_of) for each in of))
        case Or(of):
            return Or(tuple(_bound(each, leaf_of) for each in of))
        case leaf:
            return leaf_of(leaf)


def _of(scope: Scope, place: int, leaf: Leaf, called: str = "") -> Condition:
    """A comparison as one of this event."""
    event = scope.events[place]
    field = scope.column(event, leaf.field, leaf.at)
    try:
        return typed(leaf, field, event.kinds[field], called)
    except Unfit as error:
        raise scope.mistake(str(error), leaf.at, error.hint) from error


def _of_its_event(scope: Scope, leaf: Leaf) -> Condition:
    place, _ = scope.find(leaf.field, leaf.event, leaf.at)
    place = max(place, 0)
    return _of(scope, place, leaf, scope.events[place].called)
