"""Promise: a time in nanoseconds is cut to the microsecond, whether it is text or a number.

Each place that reads a time is compared with whole-number arithmetic over random moments, before
and after 1970, most of them close to the next microsecond, second or day.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pyarrow as pa
import pytest

from strandline.backup.restore_point import parse as parse_restore_point
from strandline.cli.options import microseconds as parse_option
from strandline.lake.files.typed_columns import typed_columns_of
from strandline.pipelines.splits.predicates import time_of
from strandline.query.language.times import parse_day, parse_time
from strandline.schema import Schema
from strandline.server.serializers.result_formats import params_of
from strandline.views.metrics.query.durations import moment_ns
from strandline.views.table.rows import table_of
from strandline.views.table.validation import validator_of
from tests.unit.store.world import World

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_NS = 86_400 * 10**9
NANOSECONDS = sorted(
    (10**17 + number * DAY_NS * 97) * sign + back
    for number, sign, back in (
        (rng.randrange(150), rng.choice((1, -1)), -rng.choice((1, 49, 499, 501, 999, 10**9 - 1)))
        for rng in map(random.Random, range(60))
    )
)
SCHEMA = Schema(1, {"at": "datetime", "day": "date", "note": "string | null"})


def text_of(ns: int, digits: int = 9, offset_hours: int = 0) -> str:
    """RFC 3339 text with all digits that the moment has."""
    seconds, rest = divmod(ns, 10**9)
    clock = EPOCH + timedelta(seconds=seconds, hours=offset_hours)
    fraction = f"{rest:09}".ljust(digits, "7")
    zone = f"+{offset_hours:02}:00" if offset_hours else "Z"
    return f"{clock.strftime('%Y-%m-%dT%H:%M:%S')}.{fraction}{zone}"


def micros(value: datetime) -> int:
    return (value - EPOCH) // timedelta(microseconds=1)


def decoded(row: dict[str, object], *, once: bool) -> dict[str, object]:
    """An event as a row of a table, alone or among others."""
    validator = validator_of(SCHEMA)
    data = msgspec.json.encode(row)
    one = [validator.decode(data)] if once else validator.decode_many([data] * 3)[:1]
    return table_of(SCHEMA, [1], [0], ["c"], one).to_pylist()[0]


def typed(row: dict[str, object]) -> dict[str, object]:
    """The typed columns of a plain record."""
    columns = typed_columns_of(SCHEMA).derive(pa.chunked_array([[msgspec.json.encode(row)]]))
    return {name: column[0].as_py() for name, column in zip(SCHEMA.fields, columns, strict=True)}


def by_param(text: str) -> int:
    (value,) = params_of([{"$time": text}])
    return micros(value)


def by_escapes(text: str) -> int:
    data = msgspec.json.encode({"at": text, "day": text}).replace(b".", b"\\u002e")
    row = validator_of(SCHEMA).decode(data)
    return micros(table_of(SCHEMA, [1], [0], ["c"], [row]).to_pylist()[0]["at"])


READERS: dict[str, Callable[[str], int]] = {
    "a literal of a query": parse_time,
    "an event alone": lambda text: micros(decoded({"at": text, "day": text}, once=True)["at"]),
    "events": lambda text: micros(decoded({"at": text, "day": text}, once=False)["at"]),
    "an event with escapes": by_escapes,
    "a typed topic": lambda text: micros(typed({"at": text})["at"]),
    "a parameter of SQL": by_param,
    "an option of the command line": parse_option,
    "a restore point": lambda text: parse_restore_point(text).at_us,
    "a bound of Spark": time_of,
    "a literal of metrics": lambda text: moment_ns(text) // 1000,
}


@pytest.mark.parametrize("reader", READERS)
def test_text_is_cut_as_whole_numbers_are(reader):
    read = READERS[reader]
    for ns in NANOSECONDS:
        for digits, hours in ((9, 0), (12, 0), (9, 2)):
            text = text_of(ns, digits, hours)
            assert read(text) == ns // 1000, text
        short = text_of(ns // 1000 * 1000)[:-4] + "Z"
        assert read(short) == ns // 1000, short


def test_nanoseconds_of_metrics_are_exact():
    for ns in NANOSECONDS:
        assert moment_ns(text_of(ns)) == moment_ns(text_of(ns, 12)) == ns


def test_numbers_and_text_are_the_same_row():
    for ns in NANOSECONDS:
        text, whole = text_of(ns), ns
        days = (ns // DAY_NS) * timedelta(days=1)
        for once in (True, False):
            by_text = decoded({"at": text, "day": text}, once=once)
            assert by_text == decoded({"at": whole, "day": whole}, once=once), text
            assert by_text["day"] == (EPOCH + days).date(), text
        assert typed({"at": text, "day": text}) == typed({"at": whole, "day": whole}), text
        assert parse_day(text) == parse_day(whole) == ns // DAY_NS
        assert parse_time(text) == parse_time(whole)


def test_a_number_with_many_digits_next_to_a_time_changes_nothing():
    schema = Schema(1, {"at": "datetime", "x": "f64", "note": "string"})
    data = b'{"at": "2026-01-02T03:04:05.25Z", "x": 0.12345678901, "note": "12:00:00.1234567"}'

    row = validator_of(schema).decode(data)
    found = table_of(schema, [1], [0], ["c"], [row]).to_pylist()[0]

    assert found["at"] == datetime(2026, 1, 2, 3, 4, 5, 250_000, tzinfo=UTC)
    assert (found["x"], found["note"]) == (0.12345678901, "12:00:00.1234567")


def test_the_last_moment_of_a_year_stays_in_it_on_the_whole_way():
    store = World().store
    store.run("DEFINE pay FIELDS {at: datetime, day: date}")
    text, whole = "2024-12-31T23:59:59.9999999Z", 1_735_689_599_999_999_900
    for value in (f'"{text}"', whole):
        store.run(f'STORE pay FOR a PAYLOAD {{"at": {value}, "day": {value}}}')

    first, second = store.run("QUERY pay RETURN [at, day]").tuples()

    assert first == second
    assert (first[0].year, first[1].isoformat()) == (2024, "2024-12-31")
    assert store.run(f'QUERY pay WHERE at = "{text}" COUNT').rows() == [{"count": 2}]
    assert store.run(f'QUERY pay SINCE "{text}" USING at COUNT').rows() == [{"count": 2}]
    assert store.run("QUERY pay COUNT PER YEAR USING at").tuples()[0][1] == 2


def test_text_and_variants_that_look_like_times_are_stored_as_they_are():
    text = "2026-01-02T03:04:05.1234567Z"
    schema = Schema(1, {"at": "datetime", "note": "string", "one": f'["{text}", "b"]'})
    data = msgspec.json.encode({"at": text, "note": text, "one": text})

    (row,) = validator_of(schema).decode_many([data])
    found = table_of(schema, [1], [0], ["c"], [row]).to_pylist()[0]
    columns = typed_columns_of(schema).derive(pa.chunked_array([[data]]))

    assert (found["note"], found["one"]) == (text, text)
    assert [column[0].as_py() for column in columns] == [found["at"], text, text]
    assert found["at"].microsecond == 123_456
