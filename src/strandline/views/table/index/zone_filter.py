"""Evaluates a condition with the indexes of one file: which zones may hold rows that fulfil it.

The result never lacks a zone with such a row. NOT is pushed down to the leaves, where each becomes
a positive test (predicate.py): the complement of "may hold" would be wrong. If several tests must
be true at once, bounds of one field are tested as one range: a zone with values on both sides of an
hour may have none within it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from strandline.schema import FieldType, Schema
from strandline.views.table.condition import And, Condition, Leaf, Not, Or
from strandline.views.table.index.column import CORE_KINDS
from strandline.views.table.index.min_max import MinMaxIndex
from strandline.views.table.index.predicate import (
    Between,
    FieldTest,
    Test,
    field_test_of,
    intersection,
)
from strandline.views.table.index.zone_sets import Mask


class ZoneIndex(Protocol):
    """An index that evaluates tests. Immutable; safe to use from many threads."""

    ram: int

    def may(self, test: Test) -> Mask | None:
        """Zones that may hold a value that passes; None if the index does not support the test."""
        ...


class ZoneIndexSource(Protocol):
    """The indexes of a file."""

    @property
    def zones(self) -> int: ...

    def kind(self, field: str) -> FieldType | None:
        """The kind of a field of the file; None if it has no such field."""
        ...

    def fence(self, field: str) -> MinMaxIndex | None: ...

    def indexes_for(self, field: str, test: Test) -> Iterator[tuple[str, ZoneIndex]]:
        """The indexes of a field that may support a test, each loaded when it is needed."""
        ...


class ZoneFilter:
    """Evaluates one condition for one file. Owned by one thread."""

    def __init__(self, source: ZoneIndexSource, schema: Schema | None) -> None:
        """``schema`` is the one that the condition is bound to; None for that of the file."""
        self._source = source
        self._kinds = None if schema is None else _kinds(tuple(schema.fields.items()))
        self.used: list[str] = []
        """The indexes that excluded zones, as ``field: kind``."""

    def may(self, condition: Condition, *, negated: bool) -> Mask:
        """Zones that may hold rows for which the condition, or its negation, is true."""
        match condition:
            case Not(of):
                return self.may(of, negated=not negated)
            case And() | Or() if isinstance(condition, And) is not negated:
                return self._all_of(condition, negated=negated)
            case And(of) | Or(of):
                zones = np.zeros(self._source.zones, bool)
                for part in of:
                    zones |= self.may(part, negated=negated)
                return zones
            case _:
                return self._zones(condition.field, self._field_test(condition, negated=negated))

    def _all_of(self, condition: Condition, *, negated: bool) -> Mask:
        """Zones for a conjunction: zones in which each part may be true."""
        zones = np.ones(self._source.zones, bool)
        ranges: dict[str, FieldTest] = {}
        for part, is_negated in _conjuncts(condition, negated=negated):
            if isinstance(part, And | Or | Not):
                zones &= self.may(part, negated=is_negated)
                continue
            field_test = self._field_test(part, negated=is_negated)
            if field_test is not None and isinstance(field_test.test, Between):
                ranges[part.field] = _intersect(ranges.get(part.field), field_test)
            else:
                zones &= self._zones(part.field, field_test)
        for field, field_test in ranges.items():
            zones &= self._zones(field, field_test)
        return zones

    def _field_test(self, leaf: Leaf, *, negated: bool) -> FieldTest | None:
        bound = None if self._kinds is None else self._kinds.get(leaf.field)
        stored = self._source.kind(leaf.field) or bound
        if stored is None:
            return None
        return field_test_of(leaf, stored, bound or stored, negated=negated)

    def _zones(self, field: str, field_test: FieldTest | None) -> Mask:
        zones = self._source.zones
        if field_test is None:
            return np.ones(zones, bool)
        if self._source.kind(field) is None:
            return np.full(zones, field_test.null)  # the field was added after the file was written
        bounds = self._source.fence(field)
        if bounds is None:
            return np.ones(zones, bool)
        result = np.ones(zones, bool)
        for kind, index in self._source.indexes_for(field, field_test.test):
            mask = index.may(field_test.test)
            if mask is not None and np.any(result & ~mask):
                result &= mask
                self._add_used(f"{field}: {kind}")
            if not result.any():
                break
        return result | bounds.nulls if field_test.null else result

    def _add_used(self, used: str) -> None:
        if used not in self.used:
            self.used.append(used)


@functools.lru_cache(maxsize=256)
def _kinds(fields: tuple[tuple[str, str], ...]) -> dict[str, FieldType]:
    """The kinds of a schema. Cached, as a query uses one schema for all files."""
    return CORE_KINDS | Schema(fields=dict(fields)).columns()


def _conjuncts(condition: Condition, *, negated: bool) -> Iterator[tuple[Condition, bool]]:
    """The parts that must all be true, each with whether it is negated."""
    match condition:
        case Not(of):
            yield from _conjuncts(of, negated=not negated)
        case And(of) | Or(of) if isinstance(condition, And) is not negated:
            for part in of:
                yield from _conjuncts(part, negated=negated)
        case _:
            yield condition, negated


def _intersect(before: FieldTest | None, field_test: FieldTest) -> FieldTest:
    """The intersection of two ranges of one field. A null passes if it passes both."""
    if before is None:
        return field_test
    assert isinstance(before.test, Between)
    assert isinstance(field_test.test, Between)
    return FieldTest(intersection(before.test, field_test.test), before.null and field_test.null)
