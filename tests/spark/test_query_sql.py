"""Promise: what a plan says in Spark's SQL has the same answer as what it says in DuckDB's."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from strandline.query.execute.result import Result
from strandline.query.language.periods import Calendar
from strandline.query.plan.compile import sql
from strandline.query.plan.plan import plan_of
from tests.unit.query.asking import Tables, table

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

PAY = {
    "user": "string | null",
    "amount": "f64 | null",
    "cur": ["EUR", "USD"],
    "n": "u64",
    "i": "i64",
    "paid": "bool | null",
    "at": "datetime | null",
    "day": "date",
}
ODD = 'it\'s \\ "so" \n'
QUESTIONS = [
    "QUERY pay",
    'QUERY pay WHERE NOT (cur = "EUR" AND amount > 2) ORDER BY amount DESC LIMIT 9 OFFSET 2',
    "QUERY pay WHERE n >= 18446744073709551615 OR i = -9223372036854775808 OR NOT paid",
    'QUERY pay WHERE at < "2026-03-29T01:00:00Z" AND day IN ("2026-01-05", "2026-01-06")',
    "QUERY pay COUNT, COUNT amount, COUNT UNIQUE user, TOTAL n, TOTAL i, TOTAL amount, AVG n, "
    "MIN at, MAX day BY cur, paid ORDER BY total_n DESC",
    "QUERY pay COUNT PER HOUR",
    "QUERY pay COUNT BY cur PER WEEK USING at",
    "QUERY pay COUNT PER MONTH USING day",
    "QUERY pay WHERE n = 1 AND n = 2 COUNT, TOTAL n, AVG amount",
    "QUERY view FOLLOWED BY pay LINKED BY user",
    "QUERY view PRECEDED BY pay WITHIN 3 HOURS LINKED BY user ORDER BY pay.n LIMIT 5",
    "QUERY pay FOLLOWED BY pay FOLLOWED BY view LINKED BY user WHERE pay2.amount > 1 "
    "COUNT, AVG pay.amount BY view.page PER DAY",
]


def _tables() -> Tables:
    begin = datetime(2026, 3, 28, 20, tzinfo=UTC)
    rows = [
        {
            "at": n // 2 * 0.5,
            "user": None if n % 7 == 0 else [ODD, "b", "c"][n % 3],
            "amount": None if n % 5 == 0 else n / 4,
            "cur": "EUR" if n % 3 else "USD",
            "n": 2**64 - 1 - n % 2,
            "i": -(2**63) + n % 4,
            "paid": [True, False, None][n % 3],
            "day": date(2026, 1, 1) + timedelta(days=n),
        }
        for n in range(40)
    ]
    pay = table("pay", PAY, rows)
    times = pa.array([begin + timedelta(minutes=20 * n) for n in range(39)] + [None])
    place = pay.columns.names.index("at")
    moved = (
        pay.read(pay.columns.names)
        .tables()[0]
        .set_column(place, "at", times.cast(pay.columns.field("at").type))
    )
    views = [{"at": n, "user": [ODD, "b", "d"][n % 3], "page": f"/{n % 2}"} for n in range(9)]
    view = table("view", {"user": "string", "page": "string"}, views)
    snapshots = [type(pay)("pay", pay.schema, [moved]), view]
    return Tables(*snapshots, calendar=Calendar("Europe/Amsterdam", "sunday"))


def _by_spark(spark: SparkSession, tables: Tables, command: str) -> Result:
    plan = plan_of(tables.bound(command))
    for scan in plan.scans:
        (rows,) = tables.snapshots[scan.table].read(scan.columns).tables()
        for place, field in enumerate(rows.schema):
            if field.type == pa.uint64():  # Spark has no such type
                wide = rows[field.name].cast(pa.decimal128(20, 0))
                rows = rows.set_column(place, field.name, wide)
        spark.createDataFrame(rows).createOrReplaceTempView(scan.relation)
    return Result(spark.sql(sql(plan, "spark")).toDF(*plan.names).toArrow())


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-12)
    return type(found) is type(wanted) and bool(found == wanted)


def test_spark_answers_every_shape_of_question_as_duckdb_does(spark):
    tables = _tables()
    for question in QUESTIONS:
        wanted = tables.ask(question)

        found = _by_spark(spark, tables, question)

        assert found.columns == wanted.columns, question
        assert len(found) == len(wanted) > 0, question
        for row, right in zip(found.tuples(), wanted.tuples(), strict=True):
            assert all(map(_same, row, right)), (question, row, right)
