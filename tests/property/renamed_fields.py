"""Random field names, and random queries whose fields are renamed to them.

A case is drawn and answered by the model (``query_oracle.py``) with plain names. The store gets the
same case under drawn names, so that the model needs no rule about names. The rule is applied here:
a field keeps its name in results, and a system column that a field has the name of is ``__seq``,
``__ts`` or ``__context``.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from hypothesis import strategies as st

from strandline.query.language.ast import Aggregate, Name, Query
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth
from tests.property.command_text import KEYWORDS
from tests.property.query_cases import CORE, FIELDS
from tests.property.query_oracle import Case

HIDDEN = (
    *("count", "Count", "bucket", "k0", "s0", "c0", "f0", "u1", "p0", "m", "different", "states"),
    *("rows0", "rows0_0", "labelled", "deciding", "matches", "joined", "event0", "matched0"),
    *("link", "at", "is_next", "found_at", "found_seq", "seq0", "list1", "picked1"),
    *("timestamp", "event", "payload", "version", "total_n", "count_unique", "a", "b", "c"),
)
"""Names that the compile step, remembered states or results have for their own columns."""
OFTEN = ("count", "Count", "bucket", "seq", "ts", "context")
"""Those of them that most results have."""
COLUMNS = (
    *("key", "tag", "data", "meta", "node", "topic", "lost", "text", "KEY", "Seq", "Context"),
    *("größe", "Ärger", "цена", "価格", "मूल्य", "ราคา", "السعر", "μ", "_x"),
)
"""Names of system columns, and words of several scripts."""
FUNCTIONS = ("count_unique", "count", "total", "avg", "min", "max")
_SHOWN = re.compile(rf"(?:({'|'.join(FUNCTIONS)})_)?(?:(\w+)\.)?({'|'.join([*CORE, *FIELDS])})")

Names = dict[str, str]
"""The plain name of a field to the drawn one."""


def _same(name: str) -> str:
    return name.lower()


NAMES = (
    st.sampled_from(sorted(KEYWORDS)).flatmap(
        lambda word: st.sampled_from([word, word.lower(), word.title()])
    )
    | st.sampled_from(HIDDEN)
    | st.sampled_from(OFTEN)
)


@st.composite
def renames(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> Names:
    found = st.lists(names, min_size=len(FIELDS), max_size=len(FIELDS), unique_by=_same)
    return dict(zip(FIELDS, draw(found), strict=True))


class Renamed:
    """A case under other names. Immutable."""

    def __init__(self, case: Case, names: Names) -> None:
        self._case = case
        self._names = names
        query = case.query
        self._events = dict(
            zip(
                case.called,
                [query.event.text, *(step.event.text for step in query.steps)],
                strict=True,
            )
        )
        self.query = self._query()

    def fields(self, event: str) -> dict[str, str]:
        """What to define an event with."""
        return {self._names[name]: told for name, told in self._case.fields[event].items()}

    def row(self, values: dict[str, Any]) -> dict[str, Any]:
        return {self._names[name]: value for name, value in values.items()}

    def columns(self, plain: list[str]) -> list[str]:
        """What columns of the model are called in the store's result."""
        return [self._shown(name) for name in plain]

    def _shown(self, plain: str) -> str:
        parts = _SHOWN.fullmatch(plain)
        if parts is None:
            return plain  # bucket, count
        function, called, column = parts.groups()
        own = self._column(column, called or self._case.called[0])
        own = f"{called}.{own}" if called else own
        return f"{function}_{own}" if function else own

    def _column(self, plain: str, called: str) -> str:
        if plain in self._names:
            return self._names[plain]
        taken = {_same(name) for name in self.fields(self._events[called])}
        return f"__{plain}" if plain in taken else plain

    def _of_all(self, plain: str) -> str:
        """A column that every event has."""
        found = [self._column(plain, called) for called in self._case.called]
        return max(found, key=len)

    def _name(self, name: Name) -> Name:
        called = name.event or self._case.called[0]
        return msgspec.structs.replace(name, text=self._column(name.text, called))

    def _aggregate(self, aggregate: Aggregate) -> Aggregate:
        field = None if aggregate.field is None else self._name(aggregate.field)
        return msgspec.structs.replace(aggregate, field=field)

    def _ordered(self, name: Name) -> Name:
        if not self._case.query.aggregates:
            return self._name(name)
        full = f"{name.event}.{name.text}" if name.event else name.text
        return Name(self._shown(full))

    def _query(self) -> Query:
        query = self._case.query
        returning = query.returning
        return msgspec.structs.replace(
            query,
            where=None if query.where is None else self._condition(query.where),
            using=None if query.using is None else Name(self._of_all(query.using.text)),
            linked_by=(
                None if query.linked_by is None else Name(self._of_all(query.linked_by.text))
            ),
            returning=None if returning is None else tuple(map(self._name, returning)),
            aggregates=tuple(map(self._aggregate, query.aggregates)),
            by=tuple(map(self._name, query.by)),
            order_by=None if query.order_by is None else self._ordered(query.order_by),
        )

    def _condition(self, condition: Condition) -> Condition:
        match condition:
            case Not(of):
                return Not(self._condition(of))
            case And(of):
                return And(tuple(map(self._condition, of)))
            case Or(of):
                return Or(tuple(map(self._condition, of)))
            case Compare(field, op, value, event):
                return Compare(self._own(field, event), op, value, event)
            case In(field, values, event):
                return In(self._own(field, event), values, event)
            case Truth(field, event):
                return Truth(self._own(field, event), event)

    def _own(self, field: str, event: str) -> str:
        return self._column(field, event or self._case.called[0])
