"""Promise: an event is refused exactly when a slow and plain reading of it does not fit, and what a
newer version of a table says of old rows is what it would have said of their events.

Random schemas; events that fit, events with a few things wrong, alone and in batches; chains of
changes that are allowed.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.errors import Invalid
from strandline.schema import FieldType, Schema, checked_fields
from strandline.testing.strategies import garbled
from strandline.views.table.rows import arrow_schema, table_of
from strandline.views.table.schema_evolution import check_change
from strandline.views.table.upcast import upcast
from strandline.views.table.validation import validator_of
from tests.unit.lake.plain_types import plain_rows

NAMES = ["a", "b", "from", "f0", "Url"]
VARIANTS = ["EUR", "eur", "ü", 'q"uote', "null"]
TYPES = st.one_of(
    st.sampled_from(["string", "u64", "i64", "f64", "bool", "datetime", "date"]),
    st.lists(st.sampled_from(VARIANTS), min_size=1, max_size=3, unique=True).map(json.dumps),
)
FULL_TYPES = st.builds(lambda told, end: told + end, TYPES, st.sampled_from(["", " | null"]))
SCHEMAS = st.dictionaries(st.sampled_from(NAMES), FULL_TYPES, min_size=1).map(
    lambda fields: Schema(1, checked_fields(fields))
)

MOMENTS = st.sampled_from(
    [
        '"2026-01-02T03:04:05Z"',
        '"2026-01-02T03:04:05.678901+01:30"',
        '"2026-01-02 03:04:05z"',
        '"2026-01-02"',
        '"1969-12-31T23:59:59.5Z"',
        '"0001-01-01T00:00:00Z"',
        '"9999-12-31T23:59:59.999999Z"',
        '"9999-12-31T23:00:00+05:00"',
        "0",
        "-1",
        "1767323045",
        "1767323045123",
        "1767323045123456",
        "1767323045123456789",
        "1767323045.5",
        "-1e3",
    ]
)
WRONG_MOMENTS = st.sampled_from(
    [
        '"2026-01-02T03:04:05"',
        '"2026-02-30"',
        '"0001-01-01T00:00:00+05:00"',
        '"9999-12-31T23:00:00-05:00"',
        '"9999-12-31T23:59:59.9999999Z"',
        "-99999999999",
        "1e13",
        "253402300799.5",
        "10000000000000000000",
        "9999999999999999999",
    ]
)
TEXTS = st.text(max_size=5).flatmap(
    lambda text: st.sampled_from(
        [
            json.dumps(text),
            json.dumps(text, ensure_ascii=False),
            '"' + "".join(f"\\u{ord(each):04x}" for each in text if ord(each) < 0x10000) + '"',
        ]
    )
) | st.sampled_from(
    ['"\\""', '"\\u0022\\u0022"', '"\\u0022\\u0022\\\\"', '"\\\\"', '"a\\":1,\\"b"']
)
WHOLE = st.integers(-(2**63), 2**63 - 1).map(str)
ANY = st.one_of(
    MOMENTS,
    WRONG_MOMENTS,
    TEXTS,
    st.sampled_from(VARIANTS).map(json.dumps),
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["null", "true", "false", "[]", "{}", '[{"a":"b"}]', "1e999", "01", "nul", ""]),
)


def fitting(kind: FieldType) -> st.SearchStrategy[str]:
    """Pieces of JSON that fit a type."""
    by_name: dict[str, st.SearchStrategy[str]] = {
        "string": TEXTS,
        "u64": st.integers(0, 2**64 - 1).map(str),
        "i64": WHOLE,
        "f64": st.floats(allow_nan=False, allow_infinity=False).map(repr) | WHOLE,
        "bool": st.sampled_from(["true", "false"]),
        "datetime": MOMENTS,
        "date": MOMENTS,
        "enum": st.sampled_from(kind.variants or ("",)).map(json.dumps),
    }
    found = by_name[kind.name]
    return found | st.just("null") if kind.optional else found


def written(fields: list[tuple[str, str]], space: str = "") -> bytes:
    inside = f",{space}".join(f'"{name}"{space}:{space}{value}' for name, value in fields)
    return ("{" + inside + "}").encode(errors="surrogatepass")


@st.composite
def good_fields(draw: st.DrawFn, schema: Schema) -> list[tuple[str, str]]:
    kinds = schema.types()
    there = [name for name, kind in kinds.items() if not kind.optional or draw(st.booleans())]
    return [(name, draw(fitting(kinds[name]))) for name in draw(st.permutations(there))]


@st.composite
def events(draw: st.DrawFn, schema: Schema) -> bytes:
    """Events that fit or nearly do."""
    fields = draw(good_fields(schema))
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
        place = draw(st.integers(0, len(fields)))
        change = draw(st.sampled_from(["drop", "add", "twice", "value", "name"]))
        if change == "add":
            fields.insert(place, (draw(st.sampled_from([*NAMES, "\\u0061", "x"])), draw(ANY)))
        elif fields:
            name, value = fields[place % len(fields)]
            if change == "drop":
                fields.remove((name, value))
            elif change == "twice":
                fields.insert(place, (name, draw(st.just(value) | ANY)))
            elif change == "value":
                fields[place % len(fields)] = (name, draw(ANY))
            else:
                fields[place % len(fields)] = (name.swapcase(), value)
    data = written(fields, draw(st.sampled_from(["", "", " ", "\n\t"])))
    return draw(garbled(data)) if draw(st.integers(0, 9)) == 0 else data


def plainly(schema: Schema, data: bytes) -> dict[str, Any] | None:
    """The row of an event, one thing after the other; None if it is no event of the table."""
    try:
        text = data.decode()
        pairs = json.loads(text, object_pairs_hook=list)
        if not text.strip(" \t\r\n").startswith("{"):
            return None
    except ValueError:
        return None
    given = dict(pairs)
    kinds = schema.types()
    if len(given) < len(pairs) or not set(given) <= set(kinds):
        return None
    typed = plain_rows([data], kinds)
    for name, kind in kinds.items():
        if given.get(name) is None:
            if not kind.optional:
                return None
        elif typed[name][0] is None:
            return None
    return {name: typed[name][0] for name in kinds}


def table(schema: Schema, data: list[bytes]) -> Any:
    rows = validator_of(schema).decode_many(data)
    return table_of(schema, range(len(data)), [0] * len(data), ["c"] * len(data), rows)


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_the_verdict_and_the_row_are_those_of_a_plain_reading(data):
    schema = data.draw(SCHEMAS)
    event = data.draw(events(schema))
    expected = plainly(schema, event)

    if expected is None:
        with pytest.raises(Invalid):
            validator_of(schema).check(event)
    else:
        (row,) = table(schema, [event]).select([*schema.fields]).to_pylist()
        assert row == expected


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_batch_is_taken_when_all_of_it_fits_and_the_first_that_does_not_is_told(data):
    schema = data.draw(SCHEMAS)
    batch = data.draw(st.lists(events(schema), min_size=2, max_size=8))
    expected = [plainly(schema, event) for event in batch]

    assert [row is not None for row in validator_of(schema).decode_fitting(batch)] == [
        row is not None for row in expected
    ]
    if None in expected:
        with pytest.raises(Invalid, match=f"^event {expected.index(None) + 1} of {len(batch)}, "):
            validator_of(schema).decode_many(batch)
    else:
        assert table(schema, batch).select([*schema.fields]).to_pylist() == expected


@st.composite
def next_versions(draw: st.DrawFn, old: Schema) -> Schema:
    """Some change that is allowed."""
    fields = dict(old.fields)
    for name, kind in old.types().items():
        wider = {"u64": "f64", "i64": "f64", "date": "datetime", "enum": "string"}.get(kind.name)
        if draw(st.booleans()) and wider:
            more = tuple(each for each in VARIANTS if each not in kind.variants)
            if kind.name == "enum" and more and draw(st.booleans()):
                wider = json.dumps([more[0], *kind.variants])
            fields[name] = wider + (" | null" if kind.optional else "")
        if draw(st.booleans()) and not kind.optional:
            fields[name] += " | null"
    spare = [name for name in NAMES if name not in fields]
    if spare and draw(st.booleans()):
        fields[spare[0]] = draw(TYPES) + " | null"
    return check_change(old, checked_fields(fields))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_old_rows_are_told_as_if_their_events_had_come_to_the_newest_version(data):
    versions = [data.draw(SCHEMAS)]
    batch = [
        written(data.draw(good_fields(versions[0]))) for _ in range(data.draw(st.integers(1, 4)))
    ]
    found = table(versions[0], batch)
    for _ in range(data.draw(st.integers(1, 3))):
        versions.append(data.draw(next_versions(versions[-1])))
        names = arrow_schema(versions[-1]).names
        found = upcast(found, versions[-2], versions[-1], names)

    expected = table(versions[-1], batch)

    at_once = upcast(table(versions[0], batch), versions[0], versions[-1], expected.column_names)
    assert found.equals(at_once)
    assert found.to_pylist() == _days_begin(expected.to_pylist(), versions[0], versions[-1])


def _days_begin(rows: list[dict[str, Any]], old: Schema, new: Schema) -> list[dict[str, Any]]:
    """Of a moment that was a day the time of day was not kept."""
    before, after = old.types(), new.types()
    for name in before:
        if before[name].name == "date" and after[name].name == "datetime":
            for row in rows:
                moment = row[name]
                if moment is not None:
                    row[name] = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return rows
