"""Promise: an event that does not fit its table is refused, and the error says which field, what
was expected and what came."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import Any

import pytest
from msgspec import UNSET

from strandline.errors import Invalid
from strandline.schema import Schema, checked_fields
from strandline.views.table.validation import BLOCK, Validator, validator_of

FIELDS = {
    "plan": "string",
    "n": "u64",
    "i": "i64",
    "f": "f64",
    "on": "bool",
    "at": "datetime",
    "day": "date",
    "cur": ["EUR", "USD"],
    "note": "string | null",
}
SCHEMA = Schema(1, checked_fields(FIELDS))
SIGNUP = validator_of(SCHEMA, "signup")
GOOD: dict[str, Any] = {
    "plan": '"pro"',
    "n": "1",
    "i": "-1",
    "f": "1.5",
    "on": "true",
    "at": '"2026-01-02T03:04:05Z"',
    "day": '"2026-01-02"',
    "cur": '"EUR"',
    "note": "null",
}
EVENT = "{" + ",".join(f'"{name}":{value}' for name, value in GOOD.items()) + "}"


def event(**values: str | None) -> bytes:
    """A good event but for these pieces of JSON; None leaves a field out."""
    fields = {name: value for name, value in {**GOOD, **values}.items() if value is not None}
    return ("{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}").encode()


def values(data: bytes, validator: Validator = SIGNUP) -> list[Any]:
    row = validator.decode(data)
    return [getattr(row, f"f{place}") for place in range(len(validator.schema.fields))]


def refused(data: bytes, validator: Validator = SIGNUP) -> str:
    """The error, which is the same for one event and for a batch of it."""
    with pytest.raises(Invalid) as alone:
        validator.check(data)
    with pytest.raises(Invalid, match=re.escape(str(alone.value))):
        validator.decode_many([data])
    assert validator.decode_fitting([data]) == [None]
    return str(alone.value)


def test_a_good_event_is_its_values():
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    expected = ["pro", 1, -1, 1.5, True, moment, date(2026, 1, 2), "EUR", None]

    assert values(event()) == expected
    assert (
        values(event().replace(b":", b" :\n ").replace(b"03 :\n 04 :\n 05", b"03:04:05"))
        == expected
    )


def test_an_optional_field_may_be_absent():
    assert values(event(note=None))[-1] is UNSET


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "note"])
def test_every_required_field_is_missed(name):
    assert refused(event(**{name: None})).startswith(f"signup.{name}: missing, expected ")


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "note"])
def test_null_is_for_optional_fields_alone(name):
    assert refused(event(**{name: "null"})).endswith(", got null: it is not optional")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("plam", "unknown field, did you mean 'plan'?"),
        ("Plan", "unknown field, it is written 'plan'"),
        ("zzz", 'unknown field, there are "plan", "n", "i"'),
    ],
)
def test_an_unknown_field_is_refused_with_what_may_be_meant(name, hint):
    assert refused(event(**{name: "1"})).startswith(f"signup.{name}: {hint}")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("plan", "5", "a string"),
        ("plan", "true", "a string"),
        ("plan", "[]", "a string"),
        ("plan", '{"a":[1,{"b":2}]}', "a string"),
        ("n", "-1", "a whole number from 0 to 2^64 - 1"),
        ("n", "18446744073709551616", "a whole number from 0 to 2^64 - 1"),
        ("n", "1.0", "a whole number from 0 to 2^64 - 1"),
        ("n", '"1"', "a whole number from 0 to 2^64 - 1"),
        ("i", "9223372036854775808", "a whole number from -2^63 to 2^63 - 1"),
        ("i", "-9223372036854775809", "a whole number from -2^63 to 2^63 - 1"),
        ("i", "true", "a whole number from -2^63 to 2^63 - 1"),
        ("f", "1e999", "a number"),
        ("f", '"1"', "a number"),
        ("on", "1", "true or false"),
        ("on", '"true"', "true or false"),
        ("at", '"yesterday"', "a time (2026-01-02T03:04:05Z, a day, or a number since 1970)"),
        ("at", "true", "a time (2026-01-02T03:04:05Z, a day, or a number since 1970)"),
        ("at", "10000000000000000000", "a time (2026-01-02T03:04:05Z"),
        ("at", "-99999999999", "a time (2026-01-02T03:04:05Z"),
        ("at", "253402300800.0", "a time (2026-01-02T03:04:05Z"),
        ("at", '"2026-02-30"', "a time (2026-01-02T03:04:05Z"),
        ("at", '"0001-01-01T00:00:00+05:00"', "a time (2026-01-02T03:04:05Z"),
        ("at", '"9999-12-31T23:00:00-05:00"', "a time (2026-01-02T03:04:05Z"),
        (
            "day",
            '"2026-02-30"',
            "a day (2026-01-02, a time with an offset, or a number since 1970)",
        ),
        ("day", '"0001-01-01T00:00:00+05:00"', "a day (2026-01-02"),
        ("cur", '"GBP"', 'one of "EUR", "USD"'),
        ("cur", "0", 'one of "EUR", "USD"'),
        ("note", "5", "a string or null"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_what_was_expected(name, value, expected):
    found = refused(event(**{name: value}))

    assert found.startswith(f"signup.{name}: expected {expected}")
    assert f", got {value}" in found


def test_a_variant_in_another_case_is_told_as_such():
    found = refused(event(cur='"eur"'))

    assert found.endswith(
        'expected one of "EUR", "USD", got "eur": only the case differs from "EUR"'
    )


def test_a_time_without_an_offset_is_told_as_such():
    assert refused(event(at='"2026-01-02T03:04:05"')).endswith(
        "it lacks an offset, such as Z for UTC"
    )


def test_text_that_is_none_is_refused():
    expected = "signup.plan: expected a string, got text that is not UTF-8"

    assert refused(event().replace(b"pro", b"\xff")).startswith(expected)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"[]",
        b"5",
        b'"x"',
        b"null",
        b"{",
        b"{}}",
        b'{"a":1,}',
        b"\xff",
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_json_object_is_refused(data):
    assert refused(data).startswith("signup: expected a JSON object, got ")


def test_a_value_that_nests_without_end_is_refused():
    deep = "[" * 100_000 + "]" * 100_000

    assert "expected a JSON object of plain values" in refused(event(plan=deep))


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        *[(name, value, value) for name, value in GOOD.items()],
        ("plan", "5", '"pro"'),
        ("plan", '"a"', '"b"'),
        ("plan", '"\\""', '"b"'),
        ("plan", '"a"', '"\\u0022"'),
        ("plan", "1", '"\\u0022\\u0022"'),
        ("plan", '"a"', '"\\\\"'),
        ("note", "null", '"x"'),
        ("at", '"2026-01-02"', "5"),
        ("at", "[[]]", "5"),
    ],
)
def test_a_field_that_comes_twice_is_refused(name, first, last):
    data = event(**{name: first})[:-1] + f',"{name}":{last}}}'.encode()

    assert f"signup.{name}: comes twice" in refused(data)


@pytest.mark.parametrize("rest", ["", ',"t":null', ',"t":1', ',"t":"2026-01-02"', ',"s":"x"'])
def test_a_field_that_comes_twice_is_not_hidden_by_one_that_is_absent(rest):
    schema = Schema(1, checked_fields({"a": "i64", "s": "string | null", "t": "datetime | null"}))
    data = f'{{"a":1,"a":2{rest}}}'.encode()

    assert "a: comes twice" in refused(data, validator_of(schema))


@pytest.mark.parametrize("text", ["\\u0022\\u0022", "\\u0022\\u0022\\\\", '\\"\\u0022\\u0022'])
def test_a_field_that_comes_twice_is_not_hidden_by_marks_that_are_escaped(text):
    data = event(plan=f'"{text}"')[:-1] + b',"n":2}'

    assert "signup.n: comes twice" in refused(data)


def test_a_field_that_comes_twice_is_not_hidden_by_texts_that_end_with_a_backslash():
    ends = '"\\\\"'
    data = event(plan=ends, note=ends)[:-1] + b',"n":2}'

    assert values(event(plan=ends, note=ends))[0] == "\\"
    assert "signup.n: comes twice" in refused(data)


def test_a_key_may_be_written_with_escapes_but_not_twice():
    escaped = event(plan=None)[:-1] + b',"pl\\u0061n":"pro"}'

    assert values(escaped) == values(event())
    assert "signup.plan: comes twice" in refused(escaped[:-1] + b',"plan":"pro"}')


@pytest.mark.parametrize(
    "text", ['"', '\\"', '""', 'a":1,"b', "\\", '\\"\\\\"', "ü", "\x00", ":{}"]
)
@pytest.mark.parametrize("ascii_alone", [True, False])
def test_text_may_hold_what_looks_like_json(text, ascii_alone):
    told = json.dumps(text, ensure_ascii=ascii_alone)
    escaped = '"' + "".join(f"\\u{ord(each):04x}" for each in text) + '"'

    assert values(event(plan=told))[0] == text
    assert values(event(plan=escaped))[0] == text
    assert values(event(note=told))[-1] == text


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n", "18446744073709551615", 2**64 - 1),
        ("n", "9223372036854775808", 2**63),
        ("at", '"2026-01-02"', datetime(2026, 1, 2, tzinfo=UTC)),
        ("at", "-1000000000000", datetime(1938, 4, 24, 22, 13, 20, tzinfo=UTC)),
        ("at", '"0001-01-01T00:00:00Z"', datetime(1, 1, 1, tzinfo=UTC)),
        ("at", '"9999-12-31T23:59:59.999999Z"', datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
        ("at", '"9999-12-31T23:00:00+05:00"', datetime(9999, 12, 31, 18, tzinfo=UTC)),
        ("day", '"2026-01-02T23:00:00-05:00"', date(2026, 1, 3)),
        ("day", "-1000000000000", date(1938, 4, 24)),
    ],
)
def test_what_is_seldom_fits_too(name, value, expected):
    place = [*FIELDS].index(name)

    assert values(event(**{name: value}))[place] == expected


def test_a_batch_with_a_bad_event_is_refused_with_its_number():
    bad = event(n="-1")
    for place in (0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 3):
        batch = [event()] * place + [bad] + [event()] * 5

        with pytest.raises(
            Invalid, match=rf"^event {place + 1} of {place + 6}.*signup\.n: expected"
        ):
            SIGNUP.decode_many(batch)


def test_a_doubled_field_is_found_in_a_large_batch():
    twice = event()[:-1] + b',"n":1}'
    fewer = event(note=None)
    batch = [event()] * 40 + [fewer, twice, fewer] + [event()] * 300

    with pytest.raises(Invalid, match=r"^event 42 of 343, none is stored: signup\.n: comes twice"):
        SIGNUP.decode_many(batch)


@pytest.mark.parametrize("other", [b'{"u":null}', b"{}", b'{"u":1}'])
def test_a_number_that_is_too_large_is_found_in_a_batch(other):
    validator = validator_of(Schema(1, checked_fields({"u": "u64 | null"})))

    with pytest.raises(Invalid, match=r"^event 2 of 3.*u: expected a whole number"):
        validator.decode_many([other, b'{"u":18446744073709551616}', other])


def test_a_batch_gives_what_its_events_give():
    batch = [
        event(),
        event(note=None),
        event(note='"\\""'),
        event(at="5"),
        event(at='"2026-01-02"'),
        event(n=str(2**64 - 1)),
    ] * 60

    assert SIGNUP.decode_many(batch) == [SIGNUP.decode(data) for data in batch]
    assert SIGNUP.decode_many([]) == []


def test_those_that_fit_are_found_among_others():
    batch = [event(), b"{}", event(at="5"), event()[:-1] + b',"n":1}'] * 100

    found = SIGNUP.decode_fitting(batch)

    assert [row is not None for row in found] == [True, False, True, False] * 100
    assert found[2] == SIGNUP.decode(batch[2])


def test_many_variants_are_told_in_part():
    schema = Schema(1, checked_fields({"x": [f"v{place}" for place in range(200)]}))

    found = refused(b'{"x":"w"}', validator_of(schema))

    assert '"v0", "v1"' in found
    assert "and 168 more, got " in found


def test_a_long_value_is_told_in_part():
    assert len(refused(event(plan="[" + "1," * 10_000 + "1]"))) < 200


def test_fields_may_have_the_names_of_words_of_the_language():
    schema = Schema(1, checked_fields({"from": "i64", "class": "i64", "f0": "i64", "self": "i64"}))

    assert values(b'{"f0":3,"from":1,"class":2,"self":4}', validator_of(schema)) == [1, 2, 3, 4]


def test_a_validator_is_made_once_for_a_schema_and_an_event():
    made = validator_of(SCHEMA, "signup")
    same = Schema(1, dict(SCHEMA.fields))

    assert validator_of(same, "signup") is made
    assert validator_of(same, "other") is not made
    assert refused(b"{}", validator_of(same)).startswith("plan: missing")
