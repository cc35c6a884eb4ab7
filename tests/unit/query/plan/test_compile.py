"""Promise: a plan is the same question in DuckDB's SQL and in Spark's; names are quoted, values are
typed literals, and what nobody asked for is not in it."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from strandline.query.language.periods import Calendar
from strandline.query.plan.compile import sql
from strandline.query.plan.plan import plan_of
from strandline.query.plan.predicates import Operand, predicate
from strandline.query.plan.sql_dialect import literal
from strandline.schema import FieldType, parse_type
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth
from tests.unit.query.asking import Tables, table

FIELDS = {
    "amount": "f64",
    "cur": ["EUR", "USD"],
    "note": "string | null",
    "n": "u64",
    "i": "i64",
    "at": "datetime",
    "day": "date | null",
}
QUESTIONS = [
    'QUERY pay WHERE note = "it\'s" AND NOT cur IN ("EUR") ORDER BY amount DESC LIMIT 3 OFFSET 2',
    "QUERY pay COUNT, COUNT UNIQUE note, TOTAL n, TOTAL i, AVG n, MIN at, MAX note BY cur PER WEEK",
    "QUERY pay FOLLOWED BY view LINKED BY user WHERE pay.n > 5 RETURN [pay.n, view.page]",
    "QUERY pay PRECEDED BY pay WITHIN 2 HOURS LINKED BY user COUNT BY pay2.user PER MONTH",
]


@pytest.fixture
def tables() -> Tables:
    return Tables(
        table("pay", FIELDS | {"user": "string"}, []),
        table("view", {"page": "string", "user": "string"}, []),
        calendar=Calendar("Europe/Amsterdam"),
    )


def _sql(tables: Tables, command: str, dialect: str = "duckdb") -> str:
    return sql(plan_of(tables.bound(command)), dialect, years=[2026])


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("dialect", ["duckdb", "spark"])
def test_the_text_is_one_statement_of_its_dialect(tables, question, dialect):
    statements = sqlglot.parse(_sql(tables, question, dialect), dialect=dialect)

    assert [type(each) for each in statements] == [exp.Select]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("QUERY pay WHERE n = 5", "QUERY pay WHERE n = 6"),
        ("QUERY pay WHERE amount = 0.5", "QUERY pay WHERE amount = 0.25"),
        ("QUERY pay LIMIT 5", "QUERY pay LIMIT 6"),
        ("QUERY pay COUNT BY cur", "QUERY pay COUNT BY note"),
        ("QUERY pay COUNT PER DAY", "QUERY pay COUNT PER WEEK"),
    ],
)
def test_questions_that_differ_have_texts_that_differ(tables, one, other):
    """Texts are remembered: what one was made of must all count."""
    texts = [_sql(tables, question) for question in (one, other, one, other)]

    assert texts[0] == texts[2] != texts[1] == texts[3]


def test_the_same_plan_is_told_anew_for_another_engine_other_years_and_numbered_enums(tables):
    plan = plan_of(tables.bound('QUERY pay WHERE cur = "EUR" COUNT PER DAY'))

    texts = {
        sql(plan, "duckdb", years=[2026]),
        sql(plan, "duckdb", years=[2025, 2026]),
        sql(plan, "spark", years=[2026]),
        sql(plan, "duckdb", years=[2026], numbered=plan.numbered),
    }

    assert len(texts) == 4


@pytest.mark.parametrize("question", QUESTIONS)
def test_both_dialects_have_the_same_columns(tables, question):
    bound = tables.bound(question)

    for dialect in ("duckdb", "spark"):
        (statement,) = sqlglot.parse(_sql(tables, question, dialect), dialect=dialect)
        names = [each.alias_or_name for each in statement.selects]
        assert names == [f"__c{place}" for place in range(len(bound.names))]


def test_required_columns_are_compared_plainly(tables):
    assert _where(tables, 'QUERY pay WHERE NOT cur = "EUR"') == "\"cur\" <> 'EUR'"
    assert "IS NULL" not in _sql(tables, "QUERY pay WHERE NOT amount < 5")


def test_missing_values_are_named_where_they_count(tables):
    assert _where(tables, 'QUERY pay WHERE NOT note = "x"') == (
        '("note" <> \'x\' OR "note" IS NULL)'
    )
    assert _where(tables, 'QUERY pay WHERE note = "x"') == "\"note\" = 'x'"


_EITHER = "((NOT f OR f IS NULL) OR (f <= 1 OR f IS NULL))"


def _where(tables: Tables, command: str) -> str:
    (statement,) = sqlglot.parse(_sql(tables, command), dialect="duckdb")
    return statement.args["where"].this.sql("duckdb")


@pytest.mark.parametrize(
    ("type_", "value", "duckdb", "spark"),
    [
        ("u64", 2**64 - 1, "CAST('18446744073709551615' AS UBIGINT)", "DECIMAL(20, 0)"),
        ("i64", -(2**63), "CAST('-9223372036854775808' AS BIGINT)", "BIGINT"),
        ("f64", 0.1, "CAST('0.1' AS DOUBLE)", "DOUBLE"),
        ("datetime", -1, "CAST('1969-12-31 23:59:59.999999' AS TIMESTAMP)", "TIMESTAMP"),
        ("date", -719162, "CAST('0001-01-01' AS DATE)", "DATE"),
        ("string", "it's", "'it''s'", r"'it\'s'"),
        ("bool", True, "TRUE", "TRUE"),
    ],
)
def test_a_literal_has_the_type_of_its_field(type_, value, duckdb, spark):
    kind = parse_type(type_, "f")

    assert literal(value, kind, "duckdb").sql("duckdb") == duckdb
    assert spark in literal(value, kind, "spark").sql("spark")


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Not(Not(Compare("f", "<", 1))), "f < 1"),
        (Not(Compare("f", "<=", 1)), "(f > 1 OR f IS NULL)"),
        (Not(And((Truth("f"), Compare("f", ">", 1)))), _EITHER),
        (Compare("f", "!=", None), "NOT f IS NULL"),
        (Not(Compare("f", "!=", 1)), "f = 1"),
        (In("f", (1, None)), "(f IN (1) OR f IS NULL)"),
        (Not(In("f", (1, None))), "NOT f IN (1)"),
        (Not(In("f", (1,))), "(NOT f IN (1) OR f IS NULL)"),
        (In("f", (None,)), "f IS NULL"),
        (Or(()), "FALSE"),
        (And(()), "TRUE"),
    ],
)  # fmt: skip
def test_not_is_pushed_down_to_comparisons(condition: Condition, text: str):
    kind = FieldType("i64", optional=True)

    told = predicate(condition, lambda _: Operand(exp.column("f"), kind), "duckdb").sql("duckdb")

    assert told.replace("CAST('1' AS BIGINT)", "1") == text


def test_many_parts_do_not_make_a_deep_expression():
    many = Or(tuple(Compare("f", "=", n) for n in range(3000)))

    tree = predicate(many, lambda _: Operand(exp.column("f"), FieldType("i64")), "duckdb")

    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for each in level for child in each.iter_expressions()]
    assert depth < 50


def test_only_columns_that_are_needed_are_read(tables):
    plan = plan_of(tables.bound('QUERY pay WHERE cur = "EUR" TOTAL amount BY user'))

    assert plan.scans[0].columns == ("amount", "cur", "user")


def test_a_sequence_reads_links_times_and_what_is_shown(tables):
    question = "QUERY pay FOLLOWED BY view LINKED BY user WHERE pay.n > 5 RETURN [view.page]"
    plan = plan_of(tables.bound(question))

    assert [scan.columns for scan in plan.scans] == [
        ("seq", "ts", "n", "user"),
        ("seq", "ts", "page", "user"),
    ]
    assert plan.scans[0].kept == ("seq", "ts", "user")


def test_buckets_of_utc_are_cut_and_nothing_else(tables):
    plain = Tables(*tables.snapshots.values())

    assert "EPOCH_US" not in _sql(plain, "QUERY pay COUNT PER DAY").upper()
    assert "EPOCH_US" in _sql(tables, "QUERY pay COUNT PER DAY").upper()


def test_clocks_of_years_without_rows_are_not_asked(tables):
    plan = plan_of(tables.bound("QUERY pay COUNT PER DAY"))

    one = sql(plan, "duckdb", years=[2026]).count("CASE")
    far = sql(plan, "duckdb", years=[2, 2026, 9998]).count("CASE")

    assert 0 < one < far < 4 * one


VARIANTS = ("b", "a", "c")


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize(
    "condition",
    [
        *(Compare("f", op, value) for op in ("=", "!=") for value in "abx"),
        Compare("f", "=", None),
        Compare("f", "!=", None),
        In("f", ("a", "x")),
        In("f", ("a", "b", None)),
        In("f", ("x",)),
        In("f", ()),
    ],
)
@pytest.mark.parametrize("turn", [lambda each: each, Not])
def test_an_enum_as_numbers_selects_the_rows_that_its_text_selects(condition, optional, turn):
    kind = FieldType("enum", VARIANTS, optional)
    rows = [("a", 1), ("b", 0), ("c", 2), *([(None, None)] if optional else [])]
    values = ", ".join(f"({told(text)}, {told(number)})" for text, number in rows)

    def selected(column: str, *, is_number: bool) -> list[tuple[object, ...]]:
        operand = Operand(exp.column(column), kind, is_number=is_number)
        where = predicate(turn(condition), lambda _: operand, "duckdb").sql("duckdb")
        given = f"(VALUES {values}) AS given(f, n)"
        return duckdb.sql(f"SELECT f FROM {given} WHERE {where} ORDER BY f").fetchall()

    assert selected("n", is_number=True) == selected("f", is_number=False)


def told(value: object) -> str:
    return "NULL" if value is None else repr(value)


def test_columns_of_which_the_text_is_seen_do_not_come_as_numbers(tables):
    def numbered(command: str) -> set[str]:
        return set(plan_of(tables.bound(command)).numbered)

    assert numbered('QUERY pay WHERE cur = "EUR" COUNT') == {"cur"}
    assert numbered("QUERY pay COUNT, COUNT UNIQUE cur BY cur") == {"cur"}
    assert numbered('QUERY pay WHERE cur = "EUR" RETURN [n]') == {"cur"}
    assert numbered("QUERY pay RETURN [cur]") == set()
    assert numbered("QUERY pay ORDER BY cur RETURN [n]") == set()


def test_a_count_of_some_rows_reads_what_its_condition_names_and_no_more(tables):
    [scan] = plan_of(tables.bound('QUERY pay WHERE cur = "EUR" COUNT')).scans

    assert scan.columns == ("cur",)
