"""Promise: a table becomes only what takes every event that it took before."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.schema import NO_SCHEMA, Schema, checked_fields
from strandline.views.table.schema_evolution import check_change, check_fields

BEFORE = Schema(
    3,
    checked_fields(
        {
            "name": "string",
            "note": "string | null",
            "u": "u64",
            "i": "i64",
            "f": "f64",
            "at": "datetime",
            "day": "date",
            "cur": ["EUR", "USD"],
        }
    ),
)


def changed(**fields: object) -> Schema:
    return check_change(BEFORE, {**BEFORE.fields, **check_fields(fields)})


def test_the_first_definition_is_version_1_and_may_require_its_fields():
    found = check_change(NO_SCHEMA, {"plan": "text", "age": "int | null"})

    assert found == Schema(1, {"plan": "string", "age": "i64 | null"})


@pytest.mark.parametrize(
    ("field", "told", "expected"),
    [
        ("extra", "bool | null", "bool | null"),
        ("name", "string | null", "string | null"),
        ("u", "f64", "f64"),
        ("i", "f64", "f64"),
        ("i", "f64 | null", "f64 | null"),
        ("day", "datetime", "datetime"),
        ("cur", ["GBP", "USD", "EUR"], '["EUR","USD","GBP"]'),
        ("cur", '["USD","EUR"] | null', '["EUR","USD"] | null'),
        ("cur", "string", "string"),
        ("cur", "string | null", "string | null"),
    ],
)
def test_what_takes_all_events_is_the_next_version(field, told, expected):
    found = changed(**{field: told})

    assert found == Schema(4, {**BEFORE.fields, field: expected})


@pytest.mark.parametrize(
    ("field", "told", "reason"),
    [
        ("extra", "bool", r"new field 'extra' must be optional.*write 'bool \| null'"),
        ("note", "string", r"field 'note' cannot become required.*write 'string \| null'"),
        ("u", "i64", r"'u' cannot become i64, it is u64: numbers from 2\^63 on"),
        ("i", "u64", "'i' cannot become u64, it is i64: numbers below 0"),
        ("f", "i64", "'f' cannot become i64, it is f64: fractions"),
        ("f", "u64", "'f' cannot become u64, it is f64: fractions"),
        ("at", "date", "'at' cannot become date, it is datetime: the time of day"),
        ("name", ["a"], "'name' cannot become enum, it is string: strings that are not a variant"),
        ("name", "u64", "'name' cannot become u64, it is string: older events do not fit"),
        ("u", "string", "'u' cannot become string, it is u64"),
        ("i", "datetime", "'i' cannot become datetime, it is i64"),
        ("day", "string", "'day' cannot become string, it is date"),
        ("cur", ["EUR"], "'cur' cannot lose the variant 'USD'"),
        ("cur", ["eur", "USD"], "'cur' cannot lose the variant 'EUR'"),
    ],
)
def test_everything_else_is_refused_with_the_field_and_the_reason(field, told, reason):
    with pytest.raises(Invalid, match=reason):
        changed(**{field: told})


def test_a_field_cannot_be_removed_or_written_otherwise():
    without = {name: told for name, told in BEFORE.fields.items() if name != "name"}

    with pytest.raises(Invalid, match=r"field 'name' cannot be removed.*keep it as 'name'"):
        check_change(BEFORE, without)
    with pytest.raises(Invalid, match="keep it as 'name', not 'Name'"):
        check_change(BEFORE, {**without, "Name": "string"})


def test_the_same_fields_are_the_same_schema_however_they_are_sorted():
    turned = dict(reversed(BEFORE.fields.items()))

    assert check_change(BEFORE, turned) is BEFORE
    assert check_change(BEFORE, {**turned, "cur": '["USD","EUR"]', "i": "integer"}) is BEFORE


def test_fields_keep_their_order_and_new_ones_stand_behind():
    found = check_change(BEFORE, {"new": "bool | null", **dict(reversed(BEFORE.fields.items()))})

    assert [*found.fields] == [*BEFORE.fields, "new"]


@pytest.mark.parametrize("name", ["context", "event", "Context", "EVENT", "seq", "ts", "Data"])
def test_a_field_may_have_the_name_of_a_system_column(name):
    assert check_fields({name: "string"}) == {name: "string"}


def test_a_table_has_a_field():
    with pytest.raises(Invalid, match="at least one field"):
        check_fields({})


def test_a_definition_that_grew_too_large_is_refused():
    many = Schema(1, {f"f{place}": "bool" for place in range(512)})

    with pytest.raises(Invalid, match="at most 512 fields"):
        check_change(many, {**many.fields, "one_more": "bool | null"})
