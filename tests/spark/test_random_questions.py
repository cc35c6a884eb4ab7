"""Promise: Spark answers whatever is asked as the embedded engine does, and as a plain loop over
rows would, in the same order; rows in files of all versions, deleted, or in no file yet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from strandline.query.execute.executor import run
from strandline.query.execute.result import Result
from strandline.query.language.binding import bind
from strandline.query.language.periods import Calendar
from strandline.spark.isolated_sessions import isolated_session
from strandline.spark.sql.query import execute
from tests.property.query_cases import EVENTS, cases
from tests.property.query_oracle import Case
from tests.property.query_oracle import answer as plain_answer
from tests.spark.tables_everywhere import Everywhere, fields_of, filled

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]
FIELDS = {event: fields_of(event) for event in EVENTS}
FEW = settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink would take minutes
    suppress_health_check=[HealthCheck.too_slow],
)
MANY = settings(FEW, max_examples=250)
QUESTIONS = cases(steps_max=0, fields=FIELDS)
SEQUENCES = cases(steps_max=2, fields=FIELDS)
LONG_SEQUENCES = cases(steps_max=3, fields=FIELDS)


@pytest.fixture(scope="module")
def everywhere(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Everywhere]:
    isolated_session(spark).conf.set(
        "spark.sql.codegen.wholeStage", "false"
    )  # compiling takes longer
    with filled(str(tmp_path_factory.mktemp("questions") / "data"), seed=1, rows=48) as made:
        yield made
    isolated_session(spark).conf.unset("spark.sql.codegen.wholeStage")


def _check(spark: SparkSession, tables: Everywhere, case: Case) -> None:
    names, wanted = plain_answer(case, tables.rows)
    store = tables.store
    snapshots = {event: store.table(event).snapshot() for event in EVENTS}
    schemas = {event: snapshot.schema for event, snapshot in snapshots.items()}
    calendar = Calendar(case.timezone, case.week_start)
    bound = bind(case.query, schemas.get, events=list(schemas), calendar=calendar)

    found = execute(spark, bound, snapshots.__getitem__)

    assert found.columns == names
    assert found.schema == run(bound, snapshots.__getitem__).schema
    _same_rows(found, wanted)


def _same_rows(found: Result, wanted: list[tuple[Any, ...]]) -> None:
    assert len(found) == len(wanted), (found.tuples(), wanted)
    for row, right in zip(found.tuples(), wanted, strict=True):
        assert all(map(_same, row, right)), (row, right)


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return type(found) is type(wanted) and bool(found == wanted)


@FEW
@given(case=QUESTIONS)
def test_questions_to_one_event_have_the_answer_of_a_plain_loop(spark, everywhere, case):
    _check(spark, everywhere, case)


@FEW
@given(case=SEQUENCES)
def test_sequences_have_the_answer_of_a_plain_loop(spark, everywhere, case):
    _check(spark, everywhere, case)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@MANY
@given(case=st.one_of(QUESTIONS, LONG_SEQUENCES))
def test_many_more_questions_have_the_answer_of_a_plain_loop(spark, everywhere, case):
    _check(spark, everywhere, case)
