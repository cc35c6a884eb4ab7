"""Promise: every question has the answer that a plain loop over the rows gives, in the same order;
wherever the rows are: in tables of Arrow, in a store's memory, in its files, or in all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.query.execute import executor
from strandline.query.execute.arrow_snapshot import ArrowSnapshot, columns_of
from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.execute.executor import run
from strandline.query.language.ast import Name, Query
from strandline.query.language.binding import bind
from strandline.query.language.periods import Calendar
from strandline.schema import Schema
from strandline.views.table.condition import Condition
from strandline.views.table.snapshot import EventTableSnapshot
from tests.property.query_cases import (
    BEGIN,
    CORE,
    FIELDS,
    cases,
    conditions,
    rows_of,
    type_text,
)
from tests.property.query_oracle import Case, Row, Rows, answer
from tests.unit.store.world import World

Stored = dict[str, list[dict[str, Any]]]
FEW, MANY = [0, 3, 8], [0, 3, 12, 40]
Snapshots = dict[str, EventTableSnapshot]
Maker = Callable[[Case, Stored], AbstractContextManager[tuple[Snapshots, Rows]]]
ENGINE = DuckDbEngine(threads=2)
NO_MEMORY = DuckDbEngine(threads=2, memory_max=1)
"""Every table is too large for it, and is streamed."""


def _numbered(stored: list[dict[str, Any]]) -> list[Row]:
    """Rows as a store would number them, with gaps."""
    at, rows = BEGIN, []
    for place, row in enumerate(stored):
        at += timedelta(microseconds=row["pause_us"])
        fields = {name: value for name, value in row.items() if name != "pause_us"}
        rows.append({"seq": 2 * place + 1, "ts": at} | fields)
    return rows


@contextmanager
def arrow_tables(case: Case, stored: Stored) -> Iterator[tuple[Snapshots, Rows]]:
    """Two pieces of each table, out of order, text in one of them as a dictionary."""
    snapshots: Snapshots = {}
    rows = {event: _numbered(own) for event, own in stored.items()}
    for event, own in rows.items():
        schema = Schema(1, case.fields[event])
        whole = pa.Table.from_pylist(own, schema=columns_of(schema))
        half = len(own) // 2
        pieces = [_coded(whole.slice(half)), whole.slice(0, half)]
        snapshots[event] = ArrowSnapshot(event, schema, pieces)
    yield snapshots, rows


def _coded(table: pa.Table) -> pa.Table:
    for place, field in enumerate(table.schema):
        if field.type == pa.string():
            table = table.set_column(place, field.name, table[field.name].dictionary_encode())
    return table


def in_store(state: str) -> Maker:
    """Tables of a store, whose rows are where the name says."""

    @contextmanager
    def make(case: Case, stored: Stored) -> Iterator[tuple[Snapshots, Rows]]:
        world = World()
        rows = {
            event: _filled(world, state, event, case.fields[event], own)
            for event, own in stored.items()
        }
        tables = {event: world.store.table(event).snapshot() for event in stored}
        for event, snapshot in tables.items():
            _add_times(rows[event], snapshot)
        yield tables, rows
        world.store.close()

    return make


def _filled(
    world: World, state: str, event: str, fields: dict[str, str], stored: list[dict[str, Any]]
) -> list[Row]:
    flush_rows = 1000 if state == "memory" else 4
    table = world.store.table(event, flush_rows=flush_rows, zone_rows=256)
    table.define(fields)
    rows = []
    for place, row in enumerate(stored):
        world.clock.advance(row["pause_us"] / 1e6)
        values = {name: _json(row[name]) for name in fields}
        seq = table.store(row["context"], values).first_seq
        rows.append({"seq": seq} | {name: row[name] for name in ("context", *fields)})
        if state == "mixed" and place % 9 == 5:
            table.flush()
    if state in ("files", "merged"):
        table.flush()
    if state == "merged":
        table.compact()
    return rows


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _add_times(rows: list[Row], snapshot: EventTableSnapshot) -> None:
    """The time of an append is the store's business."""
    parts = snapshot.read(["seq", "ts"]).tables()
    times = {row["seq"]: row["ts"] for part in parts for row in part.to_pylist()}
    for row in rows:
        row["ts"] = times[row["seq"]]


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return type(found) is type(wanted) and bool(found == wanted)


def _check(case: Case, stored: Stored, maker: Maker, engine: DuckDbEngine = ENGINE) -> None:
    with maker(case, stored) as (snapshots, rows):
        columns, wanted = answer(case, rows)
        schemas = {event: snapshot.schema for event, snapshot in snapshots.items()}
        calendar = Calendar(case.timezone, case.week_start)
        bound = bind(case.query, schemas.get, events=list(schemas), calendar=calendar)

        result = run(bound, snapshots.__getitem__, engine=engine)

        assert result.columns == columns
        found = result.tuples()
        assert len(found) == len(wanted), (found, wanted)
        for row, right in zip(found, wanted, strict=True):
            assert all(map(_same, row, right)), (row, right)


@st.composite
def _questions(draw: st.DrawFn, *, steps_max: int, rows: list[int]) -> tuple[Case, Stored]:
    case = draw(cases(steps_max=steps_max))
    names = [case.query.event.text, *(step.event.text for step in case.query.steps)]
    stored = {name: draw(rows_of(case.fields[name], rows)) for name in dict.fromkeys(names)}
    return case, stored


@st.composite
def _conditions(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, Any]], list[Condition]]:
    """A table with fields of every type, and what is asked of it."""
    fields = {name: type_text(kind, optional=draw(st.booleans())) for name, kind in FIELDS.items()}
    asked = draw(st.lists(conditions(CORE | FIELDS), min_size=8, max_size=8))
    return fields, draw(rows_of(fields, [30])), asked


@settings(max_examples=50, deadline=None)
@given(drawn=_conditions())
def test_conditions(drawn):
    fields, stored, asked = drawn
    for condition in asked:
        query = Query(event=Name("a"), where=condition, returning=(Name("seq"),))
        case = Case(query=query, fields={"a": fields}, called=["a"], own=[condition])
        _check(case, {"a": stored}, arrow_tables)


@settings(max_examples=150, deadline=None)
@given(question=_questions(steps_max=0, rows=MANY))
def test_questions_to_one_event(question):
    _check(*question, arrow_tables)


@settings(max_examples=150, deadline=None)
@given(question=_questions(steps_max=3, rows=[0, 5, 20]))
def test_sequences(question):
    _check(*question, arrow_tables)


@settings(max_examples=50, deadline=None)
@given(question=_questions(steps_max=3, rows=[0, 5, 20]))
def test_sequences_that_several_threads_match(question):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "PARTS_ROWS_MIN", 0)
        _check(*question, arrow_tables)


@settings(max_examples=50, deadline=None)
@given(question=_questions(steps_max=2, rows=MANY))
def test_questions_whose_tables_do_not_fit_in_memory(question):
    _check(*question, arrow_tables, NO_MEMORY)


@st.composite
def _pages(draw: st.DrawFn) -> tuple[Case, Stored]:
    """Questions for the first rows by a column, some left out in front."""
    case, stored = draw(_questions(steps_max=0, rows=[40]))
    names = [Name(name) for name in (*CORE, *case.fields[case.query.event.text])]
    page = msgspec.structs.replace(
        case.query,
        aggregates=(),
        per=None,
        by=(),
        returning=None,
        order_by=draw(st.none() | st.sampled_from(names)),
        limit=draw(st.integers(1, 6)),
        offset=draw(st.integers(0, 4)),
    )
    return msgspec.structs.replace(case, query=page), stored


@pytest.mark.parametrize("turns", [1, 2])
@settings(max_examples=30, deadline=None)
@given(question=_pages())
def test_first_rows_of_a_store_in_one_turn_and_in_two(turns, question):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "TWO_PASSES_ROWS_MIN", 1 if turns == 2 else 1000)
        _check(*question, in_store("files"))


@pytest.mark.parametrize("state", ["memory", "passive", "files", "merged", "mixed"])
@settings(max_examples=20, deadline=None)
@given(question=_questions(steps_max=0, rows=MANY))
def test_questions_to_one_event_of_a_store(state, question):
    _check(*question, in_store(state))


@pytest.mark.parametrize("state", ["memory", "passive", "files", "merged", "mixed"])
@settings(max_examples=20, deadline=None)
@given(question=_questions(steps_max=3, rows=FEW))
def test_sequences_of_a_store(state, question):
    _check(*question, in_store(state))
