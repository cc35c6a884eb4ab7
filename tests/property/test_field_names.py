"""Promise: whatever the fields of an event are called, QUERY and SHOW return what a plain loop over
the rows returns, with rows in memory, in passive tables and in files."""

from __future__ import annotations

import math
import random
from datetime import date
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strandline.query.execute.executor import run
from strandline.query.execute.result import Result
from strandline.query.language.ast import Query
from strandline.query.language.errors import QueryError
from strandline.query.language.parser import parse
from strandline.query.language.periods import Calendar
from tests.property.command_text import Writer
from tests.property.query_cases import cases, rows_of
from tests.property.query_oracle import Case, Row, Rows, answer
from tests.property.renamed_fields import Renamed, renames
from tests.unit.query.materialized.world import World, bound_of, remembered_in

Stored = dict[str, list[Row]]
STATES = ("memory", "passive", "files")


@st.composite
def _drawn(draw: st.DrawFn, *, steps_max: int) -> tuple[Case, Renamed, Stored, str]:
    case = draw(cases(steps_max=steps_max))
    renamed = Renamed(case, draw(renames()))
    names = [case.query.event.text, *(step.event.text for step in case.query.steps)]
    stored = {name: draw(rows_of(case.fields[name], [0, 3, 12])) for name in dict.fromkeys(names)}
    chance = random.Random(draw(st.integers(0, 2**32)))
    return case, renamed, stored, Writer(chance).command(renamed.query).replace(";", " ")


class Asked:
    """A store with the events of a case under other names, and rows where ``state`` says."""

    def __init__(self, case: Case, renamed: Renamed, text: str, state: str) -> None:
        self._world = World()
        self._case = case
        self._renamed = renamed
        self._text = text
        self._calendar = Calendar(case.timezone, case.week_start)
        self._flush_rows = 1000 if state == "memory" else 4
        self._state = state
        self.rows: Rows = {}

    def define(self, event: str) -> None:
        table = self._world.store.table(event, flush_rows=self._flush_rows, zone_rows=256)
        table.define(self._renamed.fields(event))
        self.rows[event] = []

    def store(self, event: str, stored: list[Row]) -> None:
        table = self._world.store.table(event)
        fields = self._case.fields[event]
        for row in stored:
            self._world.clock.advance(row["pause_us"] / 1e6)
            values = {name: _json(row[name]) for name in fields}
            seq = table.store(row["context"], self._renamed.row(values)).first_seq
            own = {name: row[name] for name in ("context", *fields)}
            self.rows[event].append({"seq": seq} | own)
        if self._state == "files":
            table.flush()
        times = {
            row["seq"]: row["ts"]
            for part in table.snapshot().read(["seq", "ts"]).tables()
            for row in part.to_pylist()
        }
        for row in self.rows[event]:
            row["ts"] = times[row["seq"]]

    def remember(self) -> None:
        asked = f"REMEMBER {self._text}\nAS kept"
        self._remembered().remember(parse(asked))

    def query(self) -> Result:
        bound = bound_of(self._world.store, self._text, self._calendar)
        return run(bound, lambda name: self._world.store.table(name).snapshot())

    def show(self) -> Result:
        return self._remembered().show("kept")

    def close(self) -> None:
        self._world.store.close()

    def _remembered(self) -> Any:
        return remembered_in(
            self._world.store, self._world, frame_bytes=1 << 16, calendar=self._calendar
        )


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _check(result: Result, columns: list[str], wanted: list[tuple[Any, ...]]) -> None:
    assert result.columns == columns
    found = result.tuples()
    assert len(found) == len(wanted), (found, wanted)
    for row, right in zip(found, wanted, strict=True):
        assert all(map(_alike, row, right)), (row, right)


def _alike(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return type(found) is type(wanted) and bool(found == wanted)


def _is_twice(error: QueryError) -> bool:
    """A group may have the name of a figure: this is refused, and the message says so."""
    return "two columns of the result have the name" in str(error)


def _compare(drawn: tuple[Case, Renamed, Stored, str], state: str) -> None:
    case, renamed, stored, text = drawn
    assert isinstance(parse(text), Query)
    asked = Asked(case, renamed, text, state)
    try:
        for event in stored:
            asked.define(event)
        try:
            asked.remember()
        except QueryError as error:
            assume(not _is_twice(error))
            raise
        for event, rows in stored.items():
            asked.store(event, rows[: len(rows) // 2])
        for half in (0, 1):
            for event, rows in stored.items():
                asked.store(event, rows[len(rows) // 2 :] if half else [])
            columns, wanted = answer(case, asked.rows)
            columns = renamed.columns(columns)
            _check(asked.query(), columns, wanted)
            _check(asked.show(), columns, wanted)
    finally:
        asked.close()


@pytest.mark.parametrize("state", STATES)
@settings(max_examples=60, deadline=None)
@given(drawn=_drawn(steps_max=0))
def test_fields_of_one_event_may_have_any_name(state, drawn):
    _compare(drawn, state)


@pytest.mark.parametrize("state", STATES)
@settings(max_examples=20, deadline=None)
@given(drawn=_drawn(steps_max=2))
def test_fields_of_a_sequence_may_have_any_name(state, drawn):
    _compare(drawn, state)
