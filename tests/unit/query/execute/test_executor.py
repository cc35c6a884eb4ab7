"""Promise: an answer has the columns, types and order that the documents say; only what is needed
is read, and a question cannot reach anything but its tables."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest

from strandline.errors import MemoryPressure
from strandline.query.execute import executor
from strandline.query.execute.arrow_snapshot import ArrowSnapshot, columns_of
from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.execute.executor import run, stream
from strandline.query.language.periods import Calendar
from strandline.schema import Schema
from strandline.views.table.condition import And, Compare, In
from strandline.views.table.snapshot import Top
from tests.unit.query.asking import BEGIN_US, HOUR_US, Tables, table

FIELDS = {
    "amount": "f64",
    "cur": ["EUR", "USD"],
    "note": "string | null",
    "n": "u64",
    "day": "date",
    "paid": "bool | null",
}
ROWS = [
    {"amount": 4.5, "cur": "EUR", "note": "x", "n": 2**64 - 1, "day": date(2026, 1, 1)},
    {"amount": 1.0, "cur": "USD", "note": None, "n": 2**64 - 1, "day": date(2026, 1, 2)},
    {"amount": 4.5, "cur": "USD", "note": "y", "n": 3, "day": date(2026, 1, 2), "paid": True},
    {"amount": 9.0, "cur": "EUR", "note": None, "n": 4, "day": date(2026, 1, 9), "paid": False},
]


@pytest.fixture
def pay() -> Tables:
    return Tables(table("pay", FIELDS, ROWS))


class Noting:
    """A snapshot that notes what it was asked to read."""

    def __init__(self, inner: ArrowSnapshot) -> None:
        self._inner = inner
        self.asked: list[tuple] = []

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def read(self, columns, where=None, *, after=0, top=None):
        self.asked.append((list(columns), where, top))
        return self._inner.read(columns, where, after=after, top=top)


@pytest.fixture
def noting() -> Noting:
    return Noting(table("pay", FIELDS, ROWS))


def test_a_selection_comes_in_the_order_of_appends(pay):
    assert pay.column("QUERY pay") == [1, 2, 3, 4]


def test_equal_values_come_in_the_order_of_appends_in_both_directions(pay):
    assert pay.column("QUERY pay ORDER BY amount") == [2, 1, 3, 4]
    assert pay.column("QUERY pay ORDER BY amount DESC") == [4, 1, 3, 2]


def test_missing_values_come_last_in_both_directions(pay):
    assert pay.column("QUERY pay ORDER BY note") == [1, 3, 2, 4]
    assert pay.column("QUERY pay ORDER BY note DESC") == [3, 1, 2, 4]


def test_limit_and_offset_cut_a_page_out_of_the_order(pay):
    assert pay.column("QUERY pay ORDER BY amount DESC LIMIT 2 OFFSET 1") == [1, 3]


def test_an_offset_behind_the_last_row_leaves_nothing(pay):
    assert pay.tuples("QUERY pay LIMIT 5 OFFSET 100") == []


def test_limit_0_has_columns_and_no_rows(pay):
    result = pay.ask("QUERY pay LIMIT 0")

    assert len(result) == 0
    assert result.columns == ["seq", "ts", "context", *FIELDS]


def test_no_row_is_in_neither_half_of_a_condition(pay):
    for condition in ('note = "x"', 'note < "y"', "paid", 'note IN ("x")', "paid = false"):
        true = pay.column(f"QUERY pay WHERE {condition}")
        false = pay.column(f"QUERY pay WHERE NOT ({condition})")

        assert sorted(true + false) == [1, 2, 3, 4], condition


def test_a_comparison_with_a_missing_value_is_false_and_its_opposite_true(pay):
    assert pay.column('QUERY pay WHERE note != "x"') == [2, 3, 4]
    assert pay.column('QUERY pay WHERE note > "a"') == [1, 3]
    assert pay.column("QUERY pay WHERE note = null") == [2, 4]


def test_every_aggregate_in_the_order_it_was_asked_for(pay):
    result = pay.ask(
        "QUERY pay COUNT, COUNT note, COUNT UNIQUE cur, TOTAL n, AVG amount, MIN day, MAX note"
    )

    assert result.rows() == [
        {
            "count": 4,
            "count_note": 2,
            "count_unique_cur": 2,
            "total_n": 2 * (2**64 - 1) + 7,
            "avg_amount": 4.75,
            "min_day": date(2026, 1, 1),
            "max_note": "y",
        }
    ]


def test_figures_over_nothing_are_one_row(pay):
    question = "QUERY pay WHERE amount > 100 COUNT, TOTAL n, AVG amount, COUNT UNIQUE note"

    assert pay.tuples(question) == [(0, None, None, 0)]


def test_groups_over_nothing_are_no_rows(pay):
    assert pay.tuples("QUERY pay WHERE amount > 100 COUNT BY cur") == []


def test_groups_come_in_the_order_of_bucket_and_group_fields_with_missing_values_last(pay):
    found = pay.tuples("QUERY pay COUNT BY note, cur PER DAY USING day")

    assert found == [
        (datetime(2026, 1, 1, tzinfo=UTC), "x", "EUR", 1),
        (datetime(2026, 1, 2, tzinfo=UTC), "y", "USD", 1),
        (datetime(2026, 1, 2, tzinfo=UTC), None, "USD", 1),
        (datetime(2026, 1, 9, tzinfo=UTC), None, "EUR", 1),
    ]


def test_groups_can_be_ordered_by_a_figure_and_limited(pay):
    assert pay.tuples("QUERY pay TOTAL amount BY cur ORDER BY total_amount DESC LIMIT 1") == [
        ("EUR", 13.5)
    ]


def test_types_of_a_result_are_told_even_when_it_is_empty(pay):
    question = "QUERY pay WHERE n = 5 COUNT, TOTAL n, TOTAL amount, MIN n, MAX ts BY cur PER WEEK"

    assert pay.ask(question).schema == pa.schema(
        [
            ("bucket", pa.timestamp("us", tz="UTC")),
            ("cur", pa.string()),
            ("count", pa.int64()),
            ("total_n", pa.decimal128(38, 0)),
            ("total_amount", pa.float64()),
            ("min_n", pa.uint64()),
            ("max_ts", pa.timestamp("us", tz="UTC")),
        ]
    )


@pytest.mark.parametrize(
    ("zone", "bucket"),
    [
        ("UTC", datetime(2025, 12, 29, tzinfo=UTC)),
        ("Europe/Amsterdam", datetime(2025, 12, 28, 23, tzinfo=UTC)),
        ("America/New_York", datetime(2025, 12, 29, 5, tzinfo=UTC)),
        ("Asia/Kathmandu", datetime(2025, 12, 28, 18, 15, tzinfo=UTC)),
    ],
)
def test_a_week_begins_where_people_live(zone, bucket):
    pay = Tables(table("pay", FIELDS, ROWS[:1]), calendar=Calendar(zone))

    assert pay.tuples("QUERY pay COUNT PER WEEK") == [(bucket, 1)]


def test_a_week_begins_with_the_day_of_the_settings():
    pay = Tables(table("pay", FIELDS, ROWS[:1]), calendar=Calendar("UTC", "sunday"))

    assert pay.tuples("QUERY pay COUNT PER WEEK") == [(datetime(2025, 12, 28, tzinfo=UTC), 1)]


def test_an_hour_that_a_clock_shows_twice_is_one():
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    hours = [{"at": (first.timestamp() * 1e6 - BEGIN_US) / HOUR_US + each} for each in range(3)]
    pay = Tables(table("t", {"n": "i64 | null"}, hours), calendar=Calendar("Europe/Amsterdam"))

    assert pay.tuples("QUERY t COUNT PER HOUR") == [
        (datetime(2026, 10, 25, 0, tzinfo=UTC), 2),
        (datetime(2026, 10, 25, 2, tzinfo=UTC), 1),
    ]


def test_days_from_the_year_1_to_9999_have_buckets_in_every_zone():
    days = [{"at_day": date(1, 1, 2)}, {"at_day": date(9999, 12, 30)}]
    both = Tables(table("t", {"at_day": "date"}, days), calendar=Calendar("Europe/Amsterdam"))

    found = both.column("QUERY t COUNT PER DAY USING at_day", "bucket")

    assert [each.date() for each in found] == [date(1, 1, 1), date(9999, 12, 29)]


def test_rows_that_are_centuries_apart_are_told_by_the_clocks_of_their_time():
    moments = [datetime(year, 6, 1, 23, 50, tzinfo=UTC) for year in (1, 1935, 2026, 9998)]
    rows = [{"when": each} for each in moments]
    far = Tables(table("t", {"when": "datetime"}, rows), calendar=Calendar("Europe/Amsterdam"))
    zone = ZoneInfo("Europe/Amsterdam")

    found = far.column("QUERY t COUNT PER DAY USING when", "bucket")

    days = [each.astimezone(zone).replace(hour=0, minute=0, second=0) for each in moments]
    assert found == [day.astimezone(UTC) for day in days]


def test_only_needed_columns_are_read(noting):
    run(Tables(noting).bound('QUERY pay WHERE cur = "EUR" AVG amount'), lambda _: noting)

    assert noting.asked == [(["amount", "cur"], Compare("cur", "=", "EUR"), None)]


def test_whoever_reads_is_told_that_only_the_first_rows_are_wanted(noting):
    tables = Tables(noting)
    tables.ask("QUERY pay RETURN [n] ORDER BY amount DESC LIMIT 2 OFFSET 3")
    tables.ask("QUERY pay RETURN [n] LIMIT 2")
    tables.ask("QUERY pay COUNT BY cur LIMIT 2")

    assert [top for _, _, top in noting.asked] == [
        Top(field="amount", descending=True, rows=5),
        Top(field="seq", descending=False, rows=2),
        None,
    ]


def test_first_rows_of_many_are_looked_for_with_few_columns(noting, monkeypatch):
    monkeypatch.setattr(executor, "TWO_PASSES_ROWS_MIN", 1)

    found = Tables(noting).column("QUERY pay ORDER BY amount DESC LIMIT 1 OFFSET 1")

    assert found == [1]
    _, (few, _, _), (_, second, _) = noting.asked
    assert few == ["seq", "amount"]
    assert second == And((Compare("amount", ">=", 4.5), In("seq", (1,))))


def test_how_many_there_are_is_known_without_reading(noting):
    assert Tables(noting).tuples("QUERY pay COUNT") == [(4,)]
    assert noting.asked == []


def test_a_table_that_does_not_fit_is_streamed():
    small = Tables(table("pay", FIELDS, ROWS), engine=DuckDbEngine(threads=1, memory_max=1))

    assert small.tuples("QUERY pay COUNT, TOTAL n BY cur") == [
        ("EUR", 2, 2**64 + 3),
        ("USD", 2, 2**64 + 2),
    ]


def test_a_large_selection_can_be_read_as_it_is_found(pay):
    bound = pay.bound("QUERY pay WHERE amount > 1 RETURN [seq, ts]")

    batches = list(stream(bound, pay.snapshots.__getitem__))

    assert sorted(row["seq"] for batch in batches for row in batch.to_pylist()) == [1, 3, 4]
    assert batches[0].schema.field("ts").type == pa.timestamp("us", tz="UTC")


def test_a_large_selection_that_nobody_wants_in_order_is_not_sorted(pay, monkeypatch):
    monkeypatch.setattr(executor, "ORDERED_ROWS_MAX", 3)

    assert "ORDER BY" not in pay.ask("QUERY pay").profile.sql[0]
    assert "ORDER BY" in pay.ask("QUERY pay ORDER BY seq").profile.sql[0]
    assert "ORDER BY" in pay.ask("QUERY pay LIMIT 2").profile.sql[0]


def test_text_as_dictionaries_and_text_as_it_is_can_be_in_one_table():
    schema = Schema(1, {"cur": "string"})
    rows = [{"seq": n, "ts": BEGIN_US, "context": "c", "cur": "ab"[n % 2]} for n in range(1, 7)]
    plain = pa.Table.from_pylist(rows[:3], schema=columns_of(schema))
    coded = pa.Table.from_pylist(rows[3:], schema=columns_of(schema))
    coded = coded.set_column(3, "cur", coded["cur"].dictionary_encode())

    tables = Tables(ArrowSnapshot("t", schema, [plain, coded]))

    assert tables.tuples("QUERY t COUNT BY cur") == [("a", 3), ("b", 3)]
    assert tables.column('QUERY t WHERE cur = "a"') == [2, 4, 6]


@pytest.mark.parametrize("text", ["it's", 'a"b', "back\\slash", "new\nline", "nul\0", "'; --", "ﬁ"])
def test_any_text_can_be_asked_for(text):
    rows = [{"s": text}, {"s": "other"}]
    tables = Tables(table("t", {"s": "string"}, rows))
    event = tables.bound("QUERY t").events[0]
    where = Compare("s", "=", text)

    found = run(
        tables.bound("QUERY t").__class__(
            events=(event.__class__(name="t", called="t", schema=event.schema, where=where),),
            columns=tables.bound("QUERY t RETURN [seq]").columns,
        ),
        tables.snapshots.__getitem__,
    )

    assert found.tuples() == [(1,)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/never-written.csv'",
        "INSTALL httpfs",
        "SET threads = 1",
        "SET enable_external_access = true",
        "ATTACH '/tmp/never-written.db'",
    ],
)
def test_a_text_of_sql_reaches_neither_disk_nor_settings(text):
    with DuckDbEngine(threads=1).session() as session, pytest.raises(duckdb.Error):
        session.query(text)


def test_a_text_of_sql_does_not_see_variables_of_python():
    hidden = pa.table({"a": [1]})

    with DuckDbEngine(threads=1).session() as session, pytest.raises(duckdb.CatalogException):
        session.query("SELECT * FROM hidden")
    assert hidden.num_rows == 1


def test_relations_of_one_question_are_not_seen_by_another():
    engine = DuckDbEngine(threads=1)
    with engine.session() as first:
        first.register("rows0", [pa.table({"a": [1]})])

        with engine.session() as second, pytest.raises(duckdb.CatalogException):
            second.query("SELECT * FROM rows0")


def test_more_than_the_memory_allows_is_an_error_and_the_engine_goes_on():
    engine = DuckDbEngine(threads=1, memory_max=1)

    with pytest.raises(MemoryPressure, match="fewer rows or groups"), engine.session() as session:
        session.query("SELECT list(i) FROM range(200000000) t(i)")
    with engine.session() as session:
        assert session.query("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_closed_engine_begins_anew():
    engine = DuckDbEngine(threads=1)
    for _ in range(2):
        with engine.session() as session:
            assert session.query("SELECT 1 AS one").num_rows == 1
        engine.close()


def test_many_threads_ask_at_once(pay):
    wanted = pay.tuples("QUERY pay COUNT, TOTAL amount BY cur")
    found: list[object] = []

    def ask() -> None:
        for _ in range(5):
            found.append(pay.tuples("QUERY pay COUNT, TOTAL amount BY cur"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)

    assert found == [wanted] * 20
