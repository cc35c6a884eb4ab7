"""Promise: a typed column holds what ``data`` says of its field, and null where it does not fit.

However a row is decoded, the result is that of a slow and plain reading (``plain_types.py``).
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strandline.errors import UnsupportedFormat
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.files.typed_columns import TypedColumns, typed_columns_of
from strandline.schema import Schema, checked_fields
from strandline.testing.strategies import garbled
from tests.unit.lake.cold_files import plain_rows as records
from tests.unit.lake.cold_files import table_of
from tests.unit.lake.plain_types import plain_rows

TYPES = ["string", "u64", "i64", "f64", "bool", "datetime", "date", ["EUR", "ü", "null"]]
NAMES = ["text", "u", "i", "f", "from", "at", "day", "cur"]
FIELDS = checked_fields(dict(zip(NAMES, TYPES, strict=True)))
SHAPE = typed_columns_of(Schema(1, FIELDS))


def derived(rows: list[bytes], shape: TypedColumns = SHAPE) -> dict[str, list[Any]]:
    arrays = shape.derive(pa.chunked_array([pa.array(rows, pa.binary())]))
    return {name: array.to_pylist() for name, array in zip(shape.kinds, arrays, strict=True)}


def one(type_text: str, value: str) -> Any:
    """The typed value of one piece of JSON."""
    shape = typed_columns_of(Schema(1, checked_fields({"x": type_text})))
    (found,) = derived([b'{"x":%s}' % value.encode()], shape)["x"]
    return found


NUMBERS = st.one_of(
    st.integers(-(2**64), 2**65).map(str),
    st.integers(10**9, 10**20).map(str),
    st.integers(-(10**400), 10**400).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["-0", "-0.0", "1.0", "1e3", "1E400", "1e-400", "01", "+1", "NaN", "Infinity"]),
)
MOMENTS = st.builds(
    "{}{}{}{}".format,
    st.dates().map(date.isoformat) | st.sampled_from(["2026-02-30", "0000-01-01", "2026-1-2"]),
    st.sampled_from(["T", "t", " ", ""]),
    st.times().map(lambda time: time.isoformat()) | st.sampled_from(["24:00:00", "03:04", ""]),
    st.sampled_from(["", "Z", "z", "+00:00", "-0130", "+23:59", "+24:00", ".5Z", ".1234565Z"]),
)
STRINGS = st.one_of(
    st.text(max_size=6).map(json.dumps),
    st.text(max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(["EUR", "eur", "ü", "null", "2026-01-02"]).map(json.dumps),
    MOMENTS.map(json.dumps),
    st.sampled_from(['"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '"\n"', '"open']),
)
VALUES = st.one_of(
    NUMBERS,
    STRINGS,
    st.sampled_from(["null", "true", "false", "[]", "{}", '[1,{"u":2}]', '{"u":3}', "nul"]),
)
FIELD = st.tuples(st.sampled_from([*NAMES, "other", "\\u0075"]), VALUES)
OBJECTS = st.lists(FIELD, max_size=10).map(
    lambda fields: "{" + ", ".join(f'"{name}": {value}' for name, value in fields) + "}"
)
ROWS = st.one_of(
    OBJECTS.map(lambda text: text.encode(errors="surrogatepass")),
    OBJECTS.flatmap(lambda text: garbled(text.encode(errors="surrogatepass"))),
    VALUES.map(lambda text: text.encode(errors="surrogatepass")),
    st.binary(max_size=12),
)


@settings(max_examples=600, deadline=None)
@given(st.lists(ROWS, max_size=8))
@example([b'{"text":"\xff","u":1}', b'{"other":"\xff","u":1}', b'{"\xff":1,"u":1}'])
@example([b'{"text": "\\ud800", "text": 0, "u": 0}'])
@example([b'{"u":1,"u":"x"}', b'{"u":"x","u":1}', b'{"f":%s}' % (b"1" * 5000)])
@example([b'{"other":%s,"u":1}' % (b"[" * 100_000 + b"]" * 100_000), b'{"u":1}'])
@example([b'{"at":"2026-01-02T03:04:05.9999999Z"}', b'{"at":"9999-12-31T23:59:59.9999999Z"}'])
@example([b'{"at":"0001-01-01T00:00:00+05:00","day":"0001-01-01T00:00:00+05:00","u":7}'])
def test_every_row_is_what_a_plain_reading_gives(rows):
    assert derived(rows) == plain_rows(rows, SHAPE.kinds)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"2026-01-02T03:04:05.678Z"', datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)),
        ('"2026-01-02T03:04:05+01:30"', datetime(2026, 1, 2, 1, 34, 5, 0, UTC)),
        ('"2026-01-02"', datetime(2026, 1, 2, tzinfo=UTC)),
        ("1767323045", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("1767323045123", datetime(2026, 1, 2, 3, 4, 5, 123_000, UTC)),
        ("1767323045123456", datetime(2026, 1, 2, 3, 4, 5, 123_456, UTC)),
        ("1767323045123456789", datetime(2026, 1, 2, 3, 4, 5, 123_456, UTC)),
        ("1767323045.123456", datetime(2026, 1, 2, 3, 4, 5, 123_456, UTC)),
        ('"2026-01-02T03:04:05"', None),  # of which zone?
        ('"1767323045"', None),
        ("true", None),
    ],
)
def test_a_time_is_text_with_an_offset_or_a_number_since_1970(value, expected):
    assert one("datetime", value) == expected
    assert one("date", value) == (expected and expected.date())


def test_numbers_keep_all_their_bits():
    assert one("u64", "18446744073709551615") == 2**64 - 1
    assert one("i64", "-9223372036854775808") == -(2**63)
    assert one("f64", "0.1") == 0.1
    assert one("f64", "9007199254740993") == 2.0**53
    assert (one("u64", "18446744073709551616"), one("i64", "1.0"), one("f64", "1e999")) == (
        None,
        None,
        None,
    )


def test_typed_columns_stand_behind_those_of_a_record_and_leave_them_alone():
    rows = [(*row[:6], b'{"u": %d}' % row[0]) for row in records(range(1, 4))]
    table = pa.concat_tables([table_of(rows[:1]), table_of(rows[1:])])

    found = SHAPE.add_typed_columns(table)

    assert found.select(SCHEMA.names).equals(table)
    assert found.schema.names == [*SCHEMA.names, *NAMES]
    assert found["u"].to_pylist() == [1, 2, 3]
    assert SHAPE.add_typed_columns(SCHEMA.empty_table()).schema == found.schema


def test_without_fields_nothing_is_derived():
    table = table_of(records(range(1, 4)))

    assert typed_columns_of(Schema(4, {})).add_typed_columns(table) is table


def test_a_type_of_a_newer_version_is_told():
    with pytest.raises(UnsupportedFormat, match=r"field 'price' has no type 'decimal'.*upgrade"):
        typed_columns_of(Schema(1, {"price": "decimal"}))
