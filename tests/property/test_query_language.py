"""Promise: what can be written is read back as it was meant; whatever else is a Mistake."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strandline.query.language import parser
from strandline.query.language.ast import (
    Aggregate,
    BatchCommand,
    CreateUser,
    Define,
    DeleteEvents,
    Explain,
    Flush,
    Forget,
    Grant,
    ListUsers,
    Metric,
    Name,
    Ping,
    Plot,
    Query,
    Remember,
    ReplayCommand,
    Revoke,
    RevokeKey,
    Show,
    ShowPermissions,
    Step,
    StoreEvent,
)
from strandline.query.language.binding import bind
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.language.errors import QueryError
from strandline.query.language.parser import parse
from strandline.schema import Schema
from strandline.views.table.condition import And, Compare, In, Not, Or, Truth
from tests.property.command_text import Writer

PERIODS = ["HOUR", "DAY", "WEEK", "MONTH", "YEAR"]
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
PLACES = {"at", "since_at", "offset_at", "payload_at"}
SCHEMAS = {
    "a": Schema(1, {"x": "f64", "n": "u64 | null", "e": '["p","q"]', "t": "datetime | null"}),
    "b": Schema(1, {"x": "i64", "s": "string", "d": "date", "ok": "bool", "t": "datetime"}),
}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
filled = texts.filter(bool)
fields = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True) | st.sampled_from(
    ["by", "limit", "unique", "time", "not", "in", "x", "t"]
)
events = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,8}", fullmatch=True) | st.sampled_from(
    ["for", "a", "b"]
)
aliases = st.from_regex(r"[A-Za-z0-9_-]{1,10}", fullmatch=True)
names = st.builds(Name, fields, st.just(-1), st.just("") | events)
plain_names = st.builds(Name, fields)
event_names = st.builds(Name, events)
numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
values = st.none() | st.booleans() | numbers | texts
counts = st.integers(0, 2**63 - 1)


def _compares(field: str, op: str, value: Any, event: str) -> Compare:
    return Compare(field, op if value is not None or op in ("=", "!=") else "!=", value, event)


leaves = (
    st.builds(Truth, fields, st.just("") | events)
    | st.builds(_compares, fields, st.sampled_from(OPERATORS), values, st.just("") | events)
    | st.builds(In, fields, st.lists(values, min_size=1, max_size=4).map(tuple))
)


def _joined(kind: type, parts: list) -> Any:
    """AND and OR do not hold themselves."""
    flat = [each for part in parts for each in (part.of if isinstance(part, kind) else (part,))]
    return kind(tuple(flat))


conditions = st.recursive(
    leaves,
    lambda inner: (
        st.builds(Not, inner)
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: _joined(And, parts))
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: _joined(Or, parts))
    ),
    max_leaves=8,
)
aggregates = st.builds(Aggregate, function=st.just("count")) | st.builds(
    Aggregate,
    function=st.sampled_from(["count", "count_unique", "total", "avg", "min", "max"]),
    field=names,
)
steps = st.builds(
    Step,
    direction=st.sampled_from(["followed", "preceded"]),
    event=event_names,
    within_us=st.none() | st.integers(0, 10**15),
)
moments = st.integers(0, 10**18) | st.floats(0, 1e12) | texts
queries = st.builds(
    Query,
    event=event_names,
    steps=st.lists(steps, max_size=3).map(tuple),
    context=st.none() | filled,
    since=st.none() | moments,
    using=st.none() | names,
    returning=st.none() | st.lists(names, max_size=3).map(tuple),
    linked_by=st.none() | names,
    where=st.none() | conditions,
    aggregates=st.lists(aggregates, max_size=3).map(tuple),
    per=st.none() | st.sampled_from(PERIODS),
    by=st.lists(names, max_size=3).map(tuple),
    order_by=st.none() | names,
    descending=st.booleans(),
    limit=st.none() | counts,
    offset=st.none() | counts,
).map(lambda query: query if query.order_by else msgspec.structs.replace(query, descending=False))
replays = st.builds(
    ReplayCommand,
    context=filled,
    event=st.none() | event_names,
    since=st.none() | moments,
    using=st.none() | names,
    returning=st.none() | st.lists(names, max_size=3).map(tuple),
)
types = st.sampled_from(
    ["string", "u64 | null", "Float", "datetime", '["a","b c"]', '["a"] | null', "bool|null"]
) | st.lists(filled, min_size=1, max_size=3, unique=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
payloads = st.dictionaries(texts, json_values, max_size=4).map(msgspec.json.encode)
stores = st.builds(StoreEvent, event=event_names, context=filled, payload=payloads)
metrics = st.builds(
    Metric,
    aggregate=aggregates,
    event=event_names,
    then=st.none() | event_names,
    where=st.none() | conditions,
)
plots = st.builds(
    Plot,
    metrics=st.lists(metrics, min_size=1, max_size=3).map(tuple),
    breakdown=st.lists(names, max_size=2).map(tuple),
    over=st.sampled_from(PERIODS),
    over_field=st.none() | names,
    top=st.integers(1, 10**6),
    top_by=st.none() | names,
)
permissions = st.sampled_from([("READ",), ("WRITE",), ("READ", "WRITE"), ("WRITE", "READ")])
grantable = st.lists(event_names, min_size=1, max_size=3).map(tuple)
singles = (
    queries
    | replays
    | stores
    | plots
    | st.builds(Define, event=event_names, fields=st.dictionaries(fields, types, min_size=1))
    | st.builds(
        Define,
        event=event_names,
        fields=st.dictionaries(texts, types, min_size=1, max_size=3),
        version=st.integers(1, 99),
    )
    | st.builds(
        DeleteEvents, event=event_names, context=st.none() | filled, where=st.none() | conditions
    )
    | st.builds(Explain, queries | replays)
    | st.builds(
        Remember,
        query=queries,
        alias=aliases,
        text=st.just(""),
        rows_max=st.none() | st.integers(1, 10**9),
        age_max_us=st.none() | st.integers(0, 10**15),
    )
    | st.builds(Show, aliases)
    | st.builds(Forget, aliases)
    | st.builds(Flush)
    | st.builds(Ping)
    | st.builds(
        CreateUser,
        user=filled,
        key=st.none() | texts,
        roles=st.lists(filled, max_size=2).map(tuple),
    )
    | st.builds(RevokeKey, filled)
    | st.builds(ListUsers)
    | st.builds(Grant, permissions=permissions, events=grantable, user=filled)
    | st.builds(Revoke, permissions=st.just(()) | permissions, events=grantable, user=filled)
    | st.builds(ShowPermissions, filled)
)
batches = st.builds(BatchCommand, st.lists(singles, min_size=1, max_size=3).map(tuple), st.just(()))
commands = singles | batches
seeds = st.integers(0, 2**32)


def without_places(value: Any) -> Any:
    """The same without offsets and kept texts, which the text decides."""
    if isinstance(value, tuple | list):
        return type(value)(without_places(each) for each in value)
    if not isinstance(value, msgspec.Struct):
        return value
    kept = {name: without_places(getattr(value, name)) for name in value.__struct_fields__}
    for name in PLACES & kept.keys():
        kept[name] = -1
    if isinstance(value, Remember):
        kept["text"] = ""
    if isinstance(value, BatchCommand):
        kept["texts"] = ()
    return type(value)(**kept)


@settings(max_examples=120, deadline=None)
@given(commands, seeds)
def test_a_command_that_was_written_is_read_as_it_was_meant(command, seed):
    text = Writer(random.Random(seed)).command(command)

    found = parse(text)

    assert without_places(found) == command
    assert repr(without_places(found)) == repr(command)  # 1 is not 1.0, and not true


@settings(max_examples=60, deadline=None)
@given(queries | replays, seeds)
def test_places_are_where_names_stand(command, seed):
    text = Writer(random.Random(seed)).command(command)

    for name in _names_in(parse(text)):
        there = text[name.at :].replace("`", "").lstrip('"')
        told = f"{name.event}.{name.text}" if name.event else name.text
        assert there.startswith(told)


def _names_in(value: Any) -> list[Name]:
    if isinstance(value, Name):
        return [value]
    if isinstance(value, tuple):
        return [name for each in value for name in _names_in(each)]
    if isinstance(value, msgspec.Struct):
        inside = tuple(getattr(value, name) for name in value.__struct_fields__)
        return _names_in(inside)
    return []


@settings(max_examples=60, deadline=None)
@given(batches | st.builds(Remember, query=queries, alias=aliases, text=st.just("")), seeds)
def test_kept_texts_are_commands_again(command, seed):
    found = parse(Writer(random.Random(seed)).command(command))

    if isinstance(found, Remember):
        assert without_places(parse(found.text)) == without_places(found.query)
    else:
        again = [without_places(parse(text)) for text in found.texts]
        assert again == [without_places(each) for each in found.commands]


pieces = st.sampled_from(
    [
        *("STORE", "store", "a", "a.b", "x-y", "`a`", "FOR", "for", '"c d"', '"c\\td"', "PAYLOAD"),
        *("{}", '{"x":1}', '{"x":{"y":"}"}}', '{"x":01}', '{"x":"\x01"}', '{"x":"\\q"}', "{"),
        *(
            '{"x":1}{',
            '{"a":"\ud800"}',
            "\ud800",
            ";",
            "# c",
            "\n",
            '{"a" :\n[1 , 2]}',
            '{"é":"é"}',
        ),
    ]
)
tails = st.sampled_from(["", " ", "\n", ";", " ; ", " # c", " x", "\u3000", "}"])


@settings(max_examples=120, deadline=None)
@given(st.lists(pieces, max_size=3), st.builds("{}{}".format, pieces, tails), stores, seeds)
def test_the_quick_way_to_read_a_store_gives_what_the_grammar_gives(parts, tail, store, seed):
    written = Writer(random.Random(seed)).command(store)
    header = "STORE a FOR " + " ".join(parts) + " PAYLOAD " + tail

    for text in (written, header):
        quick = parser._plain_store(text)
        if quick is not None:
            assert quick == parser._parsed(text)


words = st.sampled_from(
    [
        *re.findall(r'"([A-Z]+)"i', parser._parser().source_grammar),
        *("a", "b", "x", "t", "n", "s", "5", "-1", "1.5", '"y"', "(", ")", "[", "]", "{", "}", ","),
        *(";", "=", "<", "!=", "->", "a.x", "b.x", "`x`", '"', "`", "#", "\n", "null", "true"),
        *("5m", "MINUTES", "1970-01-02", ":", "|", "\\", "'", "é", "\0"),
    ]
)


def read(text: str) -> Any:
    """The command, or the mistake that it is; whatever else is raised travels."""
    try:
        return parse(text)
    except QueryError as error:
        return error


@settings(max_examples=200, deadline=None)
@given(
    st.text()
    | st.text(st.characters(categories=["Cs", "Ll", "Zs"]))
    | st.lists(words, max_size=14).map(" ".join)
    | st.lists(words, max_size=10).map("".join)
    | st.lists(words, max_size=14).map(lambda found: "QUERY a " + " ".join(found))
)
@example("QUERY a WHERE x = " + "9" * 10_000)
@example("QUERY a WHERE " + "(" * 3000)
@example("QUERY a WHERE " + "NOT " * 3000 + "x")
@example("STORE a FOR b PAYLOAD " + '{"x":' * 3000)
@example("STORE a FOR b PAYLOAD " + '{"x":' * 3000 + "1" + "}" * 3000)
def test_any_text_is_a_command_or_a_mistake(text):
    found = read(text)

    if isinstance(found, QueryError):
        assert 0 <= found.at <= len(text)
        assert found.message.isprintable()
    else:
        assert isinstance(found, msgspec.Struct)


@settings(max_examples=200, deadline=None)
@given(commands, seeds, st.data())
def test_a_command_with_a_piece_cut_out_is_a_command_or_a_mistake(command, seed, data):
    text = Writer(random.Random(seed)).command(command)
    first = data.draw(st.integers(0, len(text)))
    next_ = data.draw(st.integers(first, min(len(text), first + 5)))

    found = read(text[:first] + text[next_:])

    assert isinstance(found, msgspec.Struct) or found.line >= 1


known_fields = st.sampled_from(["x", "n", "e", "t", "s", "d", "ok", "seq", "ts", "context", "zz"])
known_events = st.sampled_from(["a", "b", "a2", "c", ""])
known_names = st.builds(Name, known_fields, st.just(-1), known_events)
likely = values | st.sampled_from(["p", "q", 1, 2.5, "1970-01-02", True])
known_conditions = st.recursive(
    st.builds(_compares, known_fields, st.sampled_from(OPERATORS), likely, known_events)
    | st.builds(In, known_fields, st.lists(likely, min_size=1, max_size=3).map(tuple))
    | st.builds(Truth, known_fields, known_events),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.tuples(inner, inner))
        | st.builds(Or, st.tuples(inner, inner))
    ),
    max_leaves=4,
)
known_queries = st.builds(
    Query,
    event=st.builds(Name, st.sampled_from(["a", "b"])),
    steps=st.lists(
        st.builds(
            Step, direction=st.just("followed"), event=st.builds(Name, st.sampled_from(["a", "b"]))
        ),
        max_size=2,
    ).map(tuple),
    since=st.none() | st.sampled_from([1, "1970-01-02", "soon"]),
    using=st.none() | st.builds(Name, st.sampled_from(["t", "ts", "d"])),
    returning=st.none() | st.lists(known_names, max_size=2).map(tuple),
    linked_by=st.none() | st.builds(Name, st.sampled_from(["x", "context"])),
    where=st.none() | known_conditions,
    aggregates=st.lists(aggregates, max_size=1).map(tuple),
    order_by=st.none() | known_names,
)


@settings(max_examples=120, deadline=None)
@given(known_queries)
def test_a_question_is_bound_or_a_mistake_and_what_is_bound_is_whole(query):
    try:
        bound = bind(query, SCHEMAS.get, events=SCHEMAS)
    except QueryError:
        return

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(bound), type=BoundQuery) == bound
    for column in (*bound.columns, *bound.by):
        assert column.field in bound.events[column.event].kinds()
    assert len(set(bound.names)) == len(bound.names) > 0
