"""Random tables and random questions to them, of every shape that the language has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from hypothesis import strategies as st

from strandline.query.language.ast import Aggregate, Name, Query, Step
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth
from tests.property.query_oracle import WEEK_DAYS, Case

Stored = dict[str, Any]
EVENTS = ("a", "b", "c")
CONTEXTS = ("u1", "u2", "it's")
ZONES = ("UTC", "Europe/Amsterdam", "America/Sao_Paulo", "Asia/Kathmandu", "Atlantic/Azores")
PAUSES_US = (0, 0, 1, 999_999, 3_600_000_000, 86_400_000_000, 40 * 86_400_000_000)
BEGIN = datetime(2017, 10, 14, 22, 30, tzinfo=UTC)

_MOMENTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(2018, 2, 18, 1, 30, tzinfo=UTC),  # midnight comes twice in Sao Paulo
    datetime(2024, 10, 27, 0, 30, tzinfo=UTC),  # and on the Azores, and an hour in Amsterdam
    datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    datetime(2024, 3, 31, 1, 0, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 4, 23, 30, tzinfo=UTC),  # a Sunday
    datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC),
]
VALUES: dict[str, list[Any]] = {
    "string": ["", "x", "X", 'it\'s \\ "so"', "é", "日本"],
    "enum": ["red", "Green", "blue"],
    "u64": [0, 1, 2, 2**63, 2**64 - 1],
    "i64": [-(2**63), -1, 0, 1, 2**63 - 1],
    "f64": [-1.5, 0.0, 0.25, 3.0, 2.0**40],
    "bool": [False, True],
    "datetime": _MOMENTS,
    "date": [date(1969, 12, 31), date(2024, 2, 29), date(2025, 12, 31), date(2026, 1, 4)],
}
FIELDS = {f"{kind[0]}_{kind}": kind for kind in VALUES}
"""A field for each type: s_string, u_u64 and so on."""
CORE = {"seq": "u64", "ts": "datetime", "context": "string"}
NUMBERS = {"u64", "i64", "f64"}
UNORDERED = {"enum", "bool"}


def type_text(kind: str, *, optional: bool) -> str:
    told = '["red","Green","blue"]' if kind == "enum" else kind
    return f"{told} | null" if optional else told


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, str]:
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, unique=True))
    return {name: type_text(FIELDS[name], optional=draw(st.booleans())) for name in names}


def rows_of(fields: dict[str, str], counts: Sequence[int]) -> st.SearchStrategy[list[Stored]]:
    """What is to be stored: a context, a pause before it, and values.

    Drawn by a seed: so many values one by one would take longer than all questions to them."""
    return st.builds(_rows, st.just(fields), st.sampled_from(counts), st.integers(0, 2**32))


def _rows(fields: dict[str, str], count: int, seed: int) -> list[Stored]:
    random = Random(seed)
    return [
        {"context": random.choice(CONTEXTS), "pause_us": random.choice(PAUSES_US)}
        | {
            name: None
            if told.endswith("null") and random.random() < 0.25
            else random.choice(VALUES[FIELDS[name]])
            for name, told in fields.items()
        }
        for _ in range(count)
    ]


def _literals(field: str, kind: str) -> st.SearchStrategy[Any]:
    if field == "context":
        return st.sampled_from(CONTEXTS)
    if field == "seq":
        return st.integers(0, 20)
    if field == "ts":
        pauses = st.sampled_from(PAUSES_US)
        return pauses.map(lambda pause: (BEGIN + timedelta(microseconds=pause)).isoformat())
    values = st.sampled_from(VALUES[kind])
    return values.map(lambda value: value.isoformat()) if kind in ("datetime", "date") else values


@st.composite
def leaves(draw: st.DrawFn, kinds: dict[str, str], event: str) -> Condition:
    field = draw(st.sampled_from(sorted(kinds)))
    kind = kinds[field]
    values = _literals(field, kind)
    shape = draw(st.sampled_from(["compare", "in", "null", "truth"]))
    if shape == "truth" and kind == "bool":
        return Truth(field, event)
    if shape == "null":
        return Compare(field, draw(st.sampled_from(["=", "!="])), None, event)
    if shape == "in":
        missing = st.none() if draw(st.booleans()) else st.nothing()
        found = draw(st.lists(values | missing, min_size=1, max_size=4))
        return In(field, tuple(found), event)
    operators = ["=", "!="] if kind in UNORDERED else ["=", "!=", "<", "<=", ">", ">="]
    return Compare(field, draw(st.sampled_from(operators)), draw(values), event)


def conditions(kinds: dict[str, str], event: str = "") -> st.SearchStrategy[Condition]:
    return st.recursive(
        leaves(kinds, event),
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
        ),
        max_leaves=5,
    )


@st.composite
def cases(
    draw: st.DrawFn, *, steps_max: int, fields: dict[str, dict[str, str]] | None = None
) -> Case:
    """A question to one event, or a sequence; to tables with these fields, or any."""
    fields = fields or {event: draw(schemas()) for event in EVENTS}
    count = draw(st.integers(1, steps_max)) if steps_max else 0
    names = draw(st.lists(st.sampled_from(EVENTS), min_size=count + 1, max_size=count + 1))
    called = _called(names)
    kinds = [CORE | {field: FIELDS[field] for field in fields[name]} for name in names]
    shared = sorted(set.intersection(*map(set, kinds)))
    own = [
        draw(st.none() | conditions(each, name if count else ""))
        for each, name in zip(kinds, called, strict=True)
    ]
    cross = draw(st.none() | _crossing(kinds, called)) if count else None
    parts = tuple(part for part in (*own, cross) if part is not None)
    everything = dict(zip(called, kinds, strict=True))
    times = [name for name in shared if FIELDS.get(name) in ("datetime", "date")]
    using = draw(st.none() | st.sampled_from(times)) if times else None
    link = draw(st.none() | st.sampled_from(shared)) if count else None
    query = Query(
        event=Name(names[0]),
        steps=tuple(draw(_steps(name)) for name in names[1:]),
        context=draw(st.none() | st.none() | st.sampled_from(CONTEXTS)),
        since=draw(st.none() | _literals(using or "ts", FIELDS.get(using or "", "datetime"))),
        using=Name(using) if using else None,
        linked_by=Name(link) if link else None,
        where=And(parts) if parts else None,
        **draw(st.one_of(_selection(everything), _grouping(everything))),
    )
    return Case(
        query=query,
        fields=fields,
        called=called,
        own=[_unprefixed(part) if count else part for part in own],
        cross=cross,
        timezone=draw(st.sampled_from(ZONES)),
        week_start=draw(st.sampled_from(WEEK_DAYS)),
    )


def _called(names: list[str]) -> list[str]:
    return [
        name if names.index(name) == place else f"{name}{names[: place + 1].count(name)}"
        for place, name in enumerate(names)
    ]


def _crossing(kinds: list[dict[str, str]], called: list[str]) -> st.SearchStrategy[Condition]:
    """About the first event and another one, in a way that cannot be taken apart."""
    first = leaves(kinds[0], called[0])
    last = leaves(kinds[-1], called[-1])
    either = st.tuples(first, last).map(Or)
    return either | st.tuples(first, last).map(lambda parts: Not(And(parts)))


def _unprefixed(condition: Condition | None) -> Condition | None:
    match condition:
        case None:
            return None
        case Not(of):
            return Not(_unprefixed(of))
        case And(of):
            return And(tuple(map(_unprefixed, of)))
        case Or(of):
            return Or(tuple(map(_unprefixed, of)))
        case Compare(field, op, value):
            return Compare(field, op, value)
        case In(field, values):
            return In(field, values)
        case Truth(field):
            return Truth(field)


@st.composite
def _steps(draw: st.DrawFn, event: str) -> Step:
    within = st.none() | st.sampled_from([*PAUSES_US, 100 * 86_400_000_000])
    direction = draw(st.sampled_from(["followed", "preceded"]))
    return Step(direction=direction, event=Name(event), within_us=draw(within))


def _names(kinds: dict[str, dict[str, str]], wanted: set[str] | None = None) -> list[Name]:
    """Every column there is, of these types."""
    alone = len(kinds) == 1
    return [
        Name(field, event="" if alone else called)
        for called, own in kinds.items()
        for field, kind in own.items()
        if wanted is None or kind in wanted
    ]


@st.composite
def _page(draw: st.DrawFn, names: list[Name]) -> dict[str, Any]:
    limit = draw(st.none() | st.integers(0, 6))
    return {
        "order_by": draw(st.none() | st.sampled_from(names)),
        "descending": draw(st.booleans()),
        "limit": limit,
        "offset": None if limit is None else draw(st.none() | st.integers(0, 4)),
    }


@st.composite
def _selection(draw: st.DrawFn, kinds: dict[str, dict[str, str]]) -> dict[str, Any]:
    names = _names(kinds)
    returning = draw(st.none() | st.lists(st.sampled_from(names), max_size=4, unique=True))
    chosen = None if returning is None else tuple(returning)
    return {"returning": chosen} | draw(_page(names))


@st.composite
def _grouping(draw: st.DrawFn, kinds: dict[str, dict[str, str]]) -> dict[str, Any]:
    names = _names(kinds)
    ordered = set(VALUES) - UNORDERED
    options = [Aggregate(function="count")]
    options += [Aggregate(function="count", field=name) for name in names]
    options += [Aggregate(function="count_unique", field=name) for name in names]
    for function, wanted in (("total", NUMBERS), ("avg", NUMBERS), ("min", ordered)):
        options += [Aggregate(function=function, field=name) for name in _names(kinds, wanted)]
    options += [Aggregate(function="max", field=name) for name in _names(kinds, ordered)]
    aggregates = draw(st.lists(st.sampled_from(options), min_size=1, max_size=4, unique=True))
    per = draw(st.none() | st.sampled_from(["HOUR", "DAY", "WEEK", "MONTH", "YEAR"]))
    by = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    shown = [Name("bucket")] * (per is not None) + by
    for each in aggregates:
        prefix = f"{each.field.event}." if each.field and each.field.event else ""
        told = f"{each.function}_{prefix}{each.field.text}" if each.field else each.function
        shown.append(Name(told))
    return {"aggregates": tuple(aggregates), "per": per, "by": tuple(by)} | draw(_page(shown))
