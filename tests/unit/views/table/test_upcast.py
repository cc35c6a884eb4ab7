"""Promise: rows of an older version are told in the newer one, and nothing else changes."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from strandline.schema import Schema
from strandline.views.table.dictionary import ENUM_TYPE
from strandline.views.table.rows import arrow_schema, table_of
from strandline.views.table.snapshot import CORE
from strandline.views.table.upcast import upcast
from strandline.views.table.validation import validator_of


def rows(schema: Schema, *events: bytes) -> pa.Table:
    found = validator_of(schema).decode_many(events)
    return table_of(
        schema, range(1, len(events) + 1), [5] * len(events), ["c"] * len(events), found
    )


def one(old_type: str, new_type: str, value: bytes) -> tuple[pa.DataType, object]:
    old, new = Schema(1, {"x": old_type}), Schema(2, {"x": new_type})
    found = upcast(rows(old, b'{"x":%s}' % value), old, new, ["x"])
    return found["x"].type, found["x"].to_pylist()[0]


@pytest.mark.parametrize(
    ("old", "new", "value", "kind", "expected"),
    [
        ("i64", "f64", b"-9007199254740993", pa.float64(), -(2.0**53)),
        ("u64", "f64 | null", b"18446744073709551615", pa.float64(), 2.0**64),
        ("u64 | null", "f64 | null", b"null", pa.float64(), None),
        (
            "date",
            "datetime",
            b'"1969-12-31"',
            pa.timestamp("us", tz="UTC"),
            datetime(1969, 12, 31, tzinfo=UTC),
        ),
        ('["a","b"]', "string", b'"b"', pa.string(), "b"),
        ("string", "string | null", b'"b"', pa.string(), "b"),
        ("date", "date | null", b'"2026-01-02"', pa.date32(), date(2026, 1, 2)),
    ],
)
def test_a_value_is_told_in_the_newer_type(old, new, value, kind, expected):
    assert one(old, new, value) == (kind, expected)


@pytest.mark.parametrize(
    "told", ["string", "u64", "i64", "f64", "bool", "datetime", "date", '["a"]']
)
def test_a_field_that_was_not_there_is_null(told):
    old = Schema(1, {"x": "bool"})
    new = Schema(2, {"x": "bool", "more": f"{told} | null"})

    found = upcast(rows(old, b'{"x":true}', b'{"x":false}'), old, new, ["more", "x"])

    assert found.column_names == ["more", "x"]
    assert found["more"].to_pylist() == [None, None]
    plain = arrow_schema(new).field("more").type
    assert found["more"].type == (ENUM_TYPE if told == '["a"]' else plain)


def test_columns_come_as_asked_and_those_of_every_table_stay_as_they_are():
    old, new = Schema(1, {"x": "i64", "y": "bool"}), Schema(2, {"x": "f64", "y": "bool"})
    table = rows(old, b'{"x":1,"y":true}', b'{"x":2,"y":false}')

    found = upcast(table, old, new, ["y", "context", "x", "seq", "ts"])

    assert found.column_names == ["y", "context", "x", "seq", "ts"]
    assert found["x"].to_pylist() == [1.0, 2.0]
    for name in CORE.names:
        assert found.field(name).equals(CORE.field(name))
        assert found[name].equals(table[name])


def test_variants_of_several_versions_stand_in_one_column():
    old = Schema(1, {"cur": '["EUR"]'})
    new = Schema(2, {"cur": '["EUR","USD"]'})
    newer = rows(new, b'{"cur":"USD"}')

    older = upcast(rows(old, b'{"cur":"EUR"}'), old, new, newer.column_names)

    assert pa.types.is_dictionary(older["cur"].type)
    together = pa.concat_tables([older, newer])
    assert together["cur"].to_pylist() == ["EUR", "USD"]


def test_rows_are_counted_without_columns():
    old, new = Schema(1, {"x": "i64"}), Schema(2, {"x": "f64"})

    assert upcast(rows(old, b'{"x":1}', b'{"x":2}'), old, new, []).num_rows == 2


def test_no_rows_have_the_types_of_the_newer_version():
    old = Schema(1, {"x": "date", "cur": '["a"]'})
    new = Schema(2, {"x": "datetime", "cur": "string", "more": "u64 | null"})

    found = upcast(rows(old), old, new, arrow_schema(new).names)

    assert found.schema == arrow_schema(new)


def test_an_enum_has_the_numbers_of_the_newer_version():
    old, new = Schema(1, {"x": '["a","b"] | null'}), Schema(2, {"x": '["c","b","a"] | null'})

    found = upcast(rows(old, b'{"x":"a"}', b'{"x":null}', b'{"x":"b"}'), old, new, ["x"])["x"]

    assert found.to_pylist() == ["a", None, "b"]
    assert found.chunk(0).indices.to_pylist() == [2, None, 1]
    assert found.chunk(0).dictionary.to_pylist() == ["c", "b", "a"]
