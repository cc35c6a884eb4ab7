"""Promise: events become columns with the values that they say; what is no event is left out."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from strandline.schema import Schema, checked_fields
from strandline.views.table.rows import ENUM_TYPE, arrow_schema, fold_rows, plain_row, table_of
from strandline.views.table.snapshot import CORE
from strandline.views.table.validation import validator_of
from strandline.views.view import FoldColumns

SCHEMA = Schema(
    1,
    checked_fields(
        {
            "s": "string | null",
            "u": "u64 | null",
            "i": "i64 | null",
            "f": "f64 | null",
            "b": "bool | null",
            "at": "datetime | null",
            "day": "date | null",
            "cur": '["EUR","USD"] | null',
        }
    ),
)
FULL = (
    b'{"s":"x","u":18446744073709551615,"i":-9223372036854775808,"f":5,"b":false,'
    b'"at":"2026-01-02T03:04:05.000006+01:00","day":"2026-01-02","cur":"USD"}'
)
FULL_ROW = {
    "s": "x",
    "u": 2**64 - 1,
    "i": -(2**63),
    "f": 5.0,
    "b": False,
    "at": datetime(2026, 1, 2, 2, 4, 5, 6, UTC),
    "day": date(2026, 1, 2),
    "cur": "USD",
}
EMPTY_ROW: dict[str, Any] = dict.fromkeys(FULL_ROW)


def records(*pairs: tuple[bytes | None, bytes]) -> FoldColumns:
    """Plain records with these keys and data, from seq 11 on, a second apart."""
    count = len(pairs)
    return FoldColumns(
        seqs=range(11, 11 + count),
        stamps=[1_000_000 * place for place in range(count)],
        keys=[key for key, _ in pairs],
        tags=[None] * count,
        metas=[None] * count,
        data=[data for _, data in pairs],
    )


def fields(*events: bytes, schema: Schema = SCHEMA) -> list[dict[str, Any]]:
    table, misfits = fold_rows(schema, records(*((b"c", data) for data in events)))
    assert not misfits
    return table.drop_columns(CORE.names).to_pylist()


def test_a_row_has_the_values_of_its_event():
    nulls = b'{"s":null,"u":null,"i":null,"f":null,"b":null,"at":null,"day":null,"cur":null}'

    assert fields(FULL, nulls, b"{}", FULL) == [FULL_ROW, EMPTY_ROW, EMPTY_ROW, FULL_ROW]
    assert fields(FULL) == [FULL_ROW]


def test_times_may_be_told_in_several_ways_in_one_column():
    found = fields(
        b'{"at":"2026-01-02T00:00:00Z","day":"2026-01-02"}',
        b'{"at":1767312000,"day":1767312000}',
        b'{"at":1767312000000.0e-3,"day":1767312000.5}',
        b'{"at":"2026-01-02","day":"2026-01-02T23:59:59Z"}',
        b'{"at":1767312000000000000,"day":1767312000000000000}',
        b"{}",
    )

    assert {row["at"] for row in found[:-1]} == {datetime(2026, 1, 2, tzinfo=UTC)}
    assert {row["day"] for row in found[:-1]} == {date(2026, 1, 2)}
    assert found[-1] == EMPTY_ROW


def test_the_columns_of_every_table_stand_in_front():
    table, _ = fold_rows(SCHEMA, records((b"one", b"{}"), ("zwölf".encode(), b"{}")))

    assert table.column_names == arrow_schema(SCHEMA).names
    assert pa.schema(list(table.schema)[:3]) == CORE
    assert table["seq"].to_pylist() == [11, 12]
    assert table["ts"].cast(pa.int64()).to_pylist() == [0, 1_000_000]
    assert table["context"].to_pylist() == ["one", "zwölf"]


def test_an_enum_is_a_dictionary_of_its_variants_and_all_else_as_the_schema_says():
    table, _ = fold_rows(SCHEMA, records((b"c", FULL)))

    assert table["cur"].type == ENUM_TYPE
    assert table["cur"].chunk(0).dictionary.to_pylist() == ["EUR", "USD"]
    plain = table.set_column(len(CORE) + 7, "cur", table["cur"].cast(pa.string()))
    assert plain.schema == arrow_schema(SCHEMA)


def test_records_that_are_no_events_of_the_table_are_left_out_and_told():
    rows = records(
        (b"a", FULL),
        (None, FULL),
        (b"", FULL),
        (b"\xff", FULL),
        (b"a", b'{"u":-1}'),
        (b"a", b'{"u":1,"u":1}'),
        (b"a", b"no JSON"),
        (b"b", b"{}"),
    )

    table, misfits = fold_rows(SCHEMA, rows)

    assert misfits == [12, 13, 14, 15, 16, 17]
    assert table["seq"].to_pylist() == [11, 18]
    assert table["context"].to_pylist() == ["a", "b"]
    assert table["ts"].cast(pa.int64()).to_pylist() == [0, 7_000_000]


def test_no_rows_have_the_same_columns():
    some, _ = fold_rows(SCHEMA, records((b"c", FULL)))

    none, _ = fold_rows(SCHEMA, records())
    only_misfits, misfits = fold_rows(SCHEMA, records((None, FULL)))

    assert none.schema == only_misfits.schema == some.schema
    assert (none.num_rows, only_misfits.num_rows, misfits) == (0, 0, [11])


def test_rows_of_a_validator_become_the_same_columns_as_records():
    events = [FULL, b"{}", b'{"at":5}'] * 70
    decoded = validator_of(SCHEMA, "named").decode_many(events)
    rows = records(*((b"c", data) for data in events))

    found = table_of(SCHEMA, rows.seqs, rows.stamps, ["c"] * len(events), decoded)

    assert found.equals(fold_rows(SCHEMA, rows)[0])


def test_a_row_by_itself_has_the_values_of_its_columns():
    events = [FULL, b"{}", b'{"at":1767312000.5,"day":1767312000}']
    table, _ = fold_rows(SCHEMA, records(*((b"c", data) for data in events)))

    found = [
        plain_row(SCHEMA, 11 + place, 1_000_000 * place, "c", validator_of(SCHEMA).decode(data))
        for place, data in enumerate(events)
    ]

    micros = table.set_column(1, "ts", table["ts"].cast(pa.int64()))
    assert found == micros.to_pylist()
