"""A condition, asked of the indexes of one file: which zones may hold rows that fulfil it.

The answer is never too small. NOT is pushed down to the leaves, where each becomes a wish that says
what it wants, not what it does not (predicate.py): the complement of "may be" would be wrong. Of
several wishes that must be fulfilled at once, those that are bounds of one field are asked as one
range: a zone with a value on both sides of an hour need not have one within it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from strandline.schema import Kind, Schema
from strandline.views.table.condition import And, Condition, Leaf, Not, Or
from strandline.views.table.index.column import CORE_KINDS
from strandline.views.table.index.min_max import Fence
from strandline.views.table.index.predicate import Between, Test, Wish, intersection, wish_of
from strandline.views.table.index.zone_sets import Mask


class Index(Protocol):
    """What answers tests. Immutable; safe from many threads."""

    ram: int

    def may(self, test: Test) -> Mask | None:
        """Zones that may hold a value as it is asked for; None when it cannot tell."""
        ...


class Source(Protocol):
    """The indexes of a file."""

    @property
    def zones(self) -> int: ...

    def kind(self, field: str) -> Kind | None:
        """What a field of the file is, None when it has no such field."""
        ...

    def fence(self, field: str) -> Fence | None: ...

    def answering(self, field: str, test: Test) -> Iterator[tuple[str, Index]]:
        """The indexes of a field that may answer a test, each read when it comes to it."""
        ...


class Asking:
    """One condition and one file. Owned by one thread."""

    def __init__(self, source: Source, schema: Schema | None) -> None:
        """``schema`` is what the condition is bound to, None for that of the file."""
        self._source = source
        self._asked = None if schema is None else _kinds(tuple(schema.fields.items()))
        self.used: list[str] = []
        """The indexes that ruled zones out, as ``field: kind``."""

    def may(self, condition: Condition, *, negated: bool) -> Mask:
        """Zones that may hold rows for which the condition, or its opposite, is true."""
        match condition:
            case Not(of):
                return self.may(of, negated=not negated)
            case And() | Or() if isinstance(condition, And) is not negated:
                return self._all_of(condition, negated=negated)
            case And(of) | Or(of):
                found = np.zeros(self._source.zones, bool)
                for part in of:
                    found |= self.may(part, negated=negated)
                return found
            case _:
                return self._zones(condition.field, self._wish(condition, negated=negated))

    def _all_of(self, condition: Condition, *, negated: bool) -> Mask:
        """Zones for a condition whose parts must all be true, at best in one row."""
        found = np.ones(self._source.zones, bool)
        ranges: dict[str, Wish] = {}
        for part, is_negated in _conjuncts(condition, negated=negated):
            if isinstance(part, And | Or | Not):
                found &= self.may(part, negated=is_negated)
                continue
            wish = self._wish(part, negated=is_negated)
            if wish is not None and isinstance(wish.test, Between):
                ranges[part.field] = _both(ranges.get(part.field), wish)
            else:
                found &= self._zones(part.field, wish)
        for field, wish in ranges.items():
            found &= self._zones(field, wish)
        return found

    def _wish(self, leaf: Leaf, *, negated: bool) -> Wish | None:
        asked = None if self._asked is None else self._asked.get(leaf.field)
        stored = self._source.kind(leaf.field) or asked
        if stored is None:
            return None
        return wish_of(leaf, stored, asked or stored, negated=negated)

    def _zones(self, field: str, wish: Wish | None) -> Mask:
        zones = self._source.zones
        if wish is None:
            return np.ones(zones, bool)
        if self._source.kind(field) is None:
            return np.full(zones, wish.null)  # the field is younger than the file
        bounds = self._source.fence(field)
        if bounds is None:
            return np.ones(zones, bool)
        found = np.ones(zones, bool)
        for kind, index in self._source.answering(field, wish.test):
            answer = index.may(wish.test)
            if answer is not None and np.any(found & ~answer):
                found &= answer
                self._tell(f"{field}: {kind}")
            if not found.any():
                break
        return found | bounds.nulls if wish.null else found

    def _tell(self, used: str) -> None:
        if used not in self.used:
            self.used.append(used)


@functools.lru_cache(maxsize=256)
def _kinds(fields: tuple[tuple[str, str], ...]) -> dict[str, Kind]:
    """Every file is asked with the same schema: its types are read once."""
    return CORE_KINDS | Schema(fields=dict(fields)).columns()


def _conjuncts(condition: Condition, *, negated: bool) -> Iterator[tuple[Condition, bool]]:
    """The parts that must all be true, each with whether it is turned around."""
    match condition:
        case Not(of):
            yield from _conjuncts(of, negated=not negated)
        case And(of) | Or(of) if isinstance(condition, And) is not negated:
            for part in of:
                yield from _conjuncts(part, negated=negated)
        case _:
            yield condition, negated


def _both(before: Wish | None, wish: Wish) -> Wish:
    """Two ranges of one field at once. A missing value counts when it does for both."""
    if before is None:
        return wish
    assert isinstance(before.test, Between)
    assert isinstance(wish.test, Between)
    return Wish(intersection(before.test, wish.test), before.null and wish.null)
