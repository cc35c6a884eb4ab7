"""Promise: a table's files hold what a plain list of rows would, whatever is done to them in which
order: rows added, hidden, let go, merged, swept, read by halves, and the table opened anew."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pyroaring import BitMap64

from strandline.schema import Schema
from strandline.views.table.condition import Compare, Condition, In, Not
from strandline.views.table.files.row_reader import FileRead
from strandline.views.table.snapshot import Top
from tests.unit.views.table.files.small_table import Table, table_of

FIRST = Schema(1, {"plan": '["free","pro"]', "amount": "i64", "note": "string | null"})
SECOND = Schema(2, {**FIRST.fields, "amount": "f64", "city": "string | null"})

contexts = st.sampled_from(["a", "b", "c", "zz", "zé"])
events = st.fixed_dictionaries(
    {
        "context": contexts,
        "plan": st.sampled_from(["free", "pro"]),
        "amount": st.integers(-5, 5),
        "note": st.none() | st.text("xy", max_size=3),
    }
)
conditions: st.SearchStrategy[Condition] = st.one_of(
    st.builds(lambda value: Compare("context", "=", value), contexts),
    st.builds(lambda value: Compare("context", ">", value), contexts),
    st.builds(lambda value: Not(Compare("plan", "=", value)), st.sampled_from(["free", "pro"])),
    st.builds(lambda values: In("note", tuple(values)), st.lists(st.text("xy", max_size=2))),
    st.builds(lambda low: Compare("amount", ">=", float(low)), st.integers(-6, 6)),
    st.builds(lambda seq: Compare("seq", "<=", seq), st.integers(0, 60)),
)


def fulfils(row: dict[str, Any], condition: Condition) -> bool:
    match condition:
        case Not(inner):
            return not fulfils(row, inner)
        case In(field, values):
            return row[field] is not None and row[field] in values
        case Compare(field, op, value):
            found = row[field]
            compare = {"=": lambda: found == value, ">": lambda: found > value}
            compare |= {">=": lambda: found >= value, "<=": lambda: found <= value}
            return found is not None and compare[op]()
    raise AssertionError(condition)


class Files(RuleBasedStateMachine):
    """A table's files beside a list of rows, always told in the newest schema."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table(cache_bytes=40_000)
        self.schema = FIRST
        self.rows: dict[int, dict[str, Any]] = {}
        self.next_seq = 1
        self.floor = 1
        self.held: list[tuple[FileRead, Schema, list[dict[str, Any]]]] = []

    @rule(some=st.lists(events, max_size=14), holes=st.integers(0, 3))
    def add(self, some: list[dict[str, Any]], holes: int) -> None:
        first = self.next_seq
        seqs = range(first + holes, first + holes + len(some))
        rows = [{"seq": seq, **row} for seq, row in zip(seqs, some, strict=True)]
        last = first + holes + len(some)
        self.table.segments.add(table_of(rows, self.schema), first, last, self.schema)
        self.next_seq = last + 1
        self.rows |= {row["seq"]: self.told(row) for row in rows}

    def told(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"city": None, **row, "amount": float(row["amount"])}

    @rule(seqs=st.sets(st.integers(1, 60), max_size=6))
    def hide(self, seqs: set[int]) -> None:
        gone = {seq for seq in seqs if seq < self.next_seq}
        self.table.segments.hide(BitMap64(gone))
        self.rows = {seq: row for seq, row in self.rows.items() if seq not in gone}

    @rule(ahead=st.integers(1, 6))
    def let_go(self, ahead: int) -> None:
        self.floor = min(self.floor + ahead, self.next_seq)
        self.table.segments.set_floor(self.floor)
        self.rows = {seq: row for seq, row in self.rows.items() if seq >= self.floor}

    @rule()
    def define(self) -> None:
        self.schema = SECOND

    @rule(purge=st.booleans())
    def merge(self, purge: bool) -> None:
        self.table.segments.compact_once(self.schema, purge=purge)

    @rule(orphans=st.booleans())
    def sweep(self, orphans: bool) -> None:
        self.table.clock.advance(1)
        self.table.segments.sweep(orphans=orphans)

    @rule(cache_bytes=st.sampled_from([1, 40_000, 1 << 24]))
    def reopen(self, cache_bytes: int) -> None:
        self.held.clear()  # snapshots bind only the opening that they are of
        self.table = self.table.reopened(cache_bytes=cache_bytes, seed=self.next_seq + 1000)

    @rule(where=conditions, after=st.integers(0, 40), until=st.integers(0, 60))
    def ask(self, where: Condition, after: int, until: int) -> None:
        found = self.read(where=where, after=after, until=until)

        wanted = {seq: row for seq, row in self.rows.items() if after < seq <= until}
        assert found.items() <= wanted.items()
        for seq, row in wanted.items():
            assert seq in found or not fulfils(row, where), (where, row)

    @rule(field=st.sampled_from(["amount", "seq"]), rows=st.integers(1, 4), down=st.booleans())
    def ask_for_the_first(self, field: str, rows: int, down: bool) -> None:
        top = Top(field=field, descending=down, rows=rows)

        found = self.read(top=top)

        def first(some: dict[int, dict[str, Any]]) -> list[Any]:
            return sorted((row[field] for row in some.values()), reverse=down)[:rows]

        assert first(found) == first(self.rows)

    @rule()
    def hold(self) -> None:
        reading = self.table.read(self.columns(), schema=self.schema)
        self.held.append((reading, self.schema, list(self.rows.values())))

    @rule()
    def look_at_what_is_held(self) -> None:
        for reading, schema, rows in self.held:
            found = [row for table in reading.tables() for row in table.to_pylist()]
            assert self.by_seq(found, schema) == {row["seq"]: row for row in rows}

    @invariant()
    def all_rows_are_there_once(self) -> None:
        assert self.read() == self.rows

    def columns(self) -> list[str]:
        return ["seq", "context", *self.schema.fields]

    def read(self, **options: Any) -> dict[int, dict[str, Any]]:
        reading = self.table.read(self.columns(), schema=self.schema, **options)
        found = [row for table in reading.tables() for row in table.to_pylist()]
        batches = [row for batch in reading.batches() for row in batch.to_pylist()]
        assert sorted(found, key=lambda row: row["seq"]) == sorted(
            batches, key=lambda row: row["seq"]
        )
        return self.by_seq(found, self.schema)

    def by_seq(self, rows: list[dict[str, Any]], schema: Schema) -> dict[int, dict[str, Any]]:
        found = {row["seq"]: self.told(row) for row in rows}
        assert len(found) == len(rows), "no row is there twice"
        assert schema is SECOND or not any(row["city"] for row in found.values())
        return found


TestFiles = Files.TestCase
TestFiles.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
