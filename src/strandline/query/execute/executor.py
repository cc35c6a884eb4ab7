"""Runs bound queries: reads rows from snapshots, and computes results with DuckDB.

One event: the rows that may fulfil its condition are read, with the needed columns, and one SQL
text computes the result. Rows in memory and in files are treated alike: a snapshot has both.

The first rows by a column (ORDER BY with LIMIT, or LIMIT alone): the order is passed to the reader,
which skips zones that cannot have such rows. If many rows are left, they are read in two passes:
first the columns that determine the first rows, then all columns, of the zones with these rows.

A sequence: rows of each event that fulfil its own condition, then matches (``sequence.py``), then
SQL over the columns of the matches. Events that are rows of one table share one reading of it.

A sum of doubles that overflows is computed again, in a slower way that does not depend on the order
of rows (``query/plan/compile.py``).

**Order.** A result has one right order (``query/plan/plan.py``), whichever files rows are in. The
exception: a selection of one event with neither ORDER BY nor LIMIT, for which more than
ORDERED_ROWS_MAX rows were read, has no order; sorting it would take as long again as reading it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strandline.query.execute import sequence
from strandline.query.execute.duckdb_engine import DuckDbEngine, DuckDbSession, without_zones
from strandline.query.execute.profile import Profile
from strandline.query.execute.replay import replay_rows
from strandline.query.execute.result import Result
from strandline.query.execute.scan_sources import ScanSources, Snapshots, years_of
from strandline.query.execute.sequence import Ints, SequenceSide
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.language.periods import DAY_US
from strandline.query.plan.compile import MATCHES, sql, sql_of_matches, sql_of_scan
from strandline.query.plan.plan import Output, Plan, Scan, plan_of, with_wide_totals
from strandline.query.plan.result_schema import shape_of
from strandline.views.table.condition import And, Compare, Condition, In, Value, fields_of
from strandline.views.table.evaluate import Mask, mask
from strandline.views.table.snapshot import SEQ

ORDERED_ROWS_MAX = 1_000_000
TWO_PASSES_ROWS_MIN = 100_000
"""The number of rows to read from which on the first rows are read in two passes."""
TWO_PASSES_FIRST_MAX = 100
"""The maximum of first rows that the second pass looks up one by one."""
PARTS_ROWS_MIN = 500_000
"""Rows of a sequence from which on several threads match them."""
_STREAM_ROWS = 10_000
_NO_ROW = Compare(SEQ, "<", 0)


QueryExecutor = Callable[[BoundQuery, Snapshots], Result]
"""Runs a query over snapshots: ``run`` in this process, or Spark."""


@functools.cache
def default_engine() -> DuckDbEngine:
    """The engine of callers without a store. A store has its own."""
    return DuckDbEngine()


def run(bound: BoundQuery, snapshots: Snapshots, *, engine: DuckDbEngine | None = None) -> Result:
    """The result of a query. ``snapshots`` returns the snapshot of a table by its name; it is
    called once for each table of a query."""
    engine = engine or default_engine()
    profile = Profile()
    with engine.session() as session, profile.timed("total", engine.clock):
        sources = ScanSources(engine, session, snapshots, profile)
        if bound.kind == "replay_all":
            table = replay_rows(bound, sources, session, profile)
        else:
            table = _QueryRun(engine, session, sources, profile, plan_of(bound)).table()
    profile.rows = table.num_rows
    return Result(table, profile=profile)


def stream(
    bound: BoundQuery, snapshots: Snapshots, *, engine: DuckDbEngine | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a selection of one event as they are read, for more than fits in memory.

    They are in the order that ORDER BY or LIMIT require, else in none."""
    engine = engine or default_engine()
    profile = Profile()
    plan = plan_of(bound)
    with engine.session() as session:
        sources = ScanSources(engine, session, snapshots, profile)
        yield from _QueryRun(engine, session, sources, profile, plan).stream()


class _QueryRun:
    """One query while it runs. Owned by one thread."""

    def __init__(
        self,
        engine: DuckDbEngine,
        session: DuckDbSession,
        sources: ScanSources,
        profile: Profile,
        plan: Plan,
    ) -> None:
        self._engine = engine
        self._session = session
        self._sources = sources
        self._profile = profile
        self._plan = plan

    def table(self) -> pa.Table:
        plan = self._plan
        shape = shape_of(plan)
        if plan.limit == 0:
            return shape.empty_table()
        if _only_counts(plan):
            rows = self._sources.snapshot(plan.scans[0].table).rows
            return pa.table([[rows]] * len(shape), schema=shape)
        table = cast_to_schema(self._query(self._register()), shape)
        if _overflows(plan, table):
            self._plan = with_wide_totals(plan)
            table = cast_to_schema(self._query(self._register()), shape)
        return table

    def _register(self) -> str:
        """Register the relations of the query; returns the SQL to run."""
        return self._register_matches() if self._plan.steps else self._register_rows()

    def stream(self) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        if plan.steps or plan.figures or plan.limit is not None:
            yield from self.table().to_batches()
            return
        self._plan = plan if plan.order_requested else msgspec.structs.replace(plan, order=())
        text, shape = self._register_rows(), shape_of(plan)
        for batch in self._session.stream(text, _STREAM_ROWS):
            yield from cast_to_schema(pa.Table.from_batches([batch]), shape).to_batches()

    def _query(self, text: str) -> pa.Table:
        self._profile.sql.append(text)
        with self._profile.timed("calculate", self._engine.clock):
            return self._session.query(text)

    def _register_rows(self) -> str:
        """Register the rows of the one event as a relation; returns the SQL to run."""
        plan = self._plan
        scan = plan.scans[0]
        reading = self._sources.reading(scan, top=plan.top)
        if _pays_in_two_passes(plan, reading.rows_max):
            self._profile.sources.pop()  # of a reading that is not used
            plan = self._only_first()
            reading = self._sources.reading(plan.scans[0])
        elif not plan.order_requested and not plan.figures and reading.rows_max > ORDERED_ROWS_MAX:
            plan = msgspec.structs.replace(plan, order=())
        self._sources.register(plan.scans[0], reading, plan.numbered)
        return sql(plan, "duckdb", years=self._years(), numbered=plan.numbered)

    def _years(self) -> list[int] | None:
        plan = self._plan
        if plan.bucket is None or plan.bucket.calendar.is_utc:
            return None
        return self._sources.years(plan.scans[0])

    def _only_first(self) -> Plan:
        """The plan over the first rows alone, which are determined from few columns."""
        few = order_columns_plan(self._plan)
        scan = few.scans[0]
        self._sources.register(scan, self._sources.reading(scan, top=few.top), few.numbered)
        first_rows = self._query(sql(few, "duckdb", numbered=few.numbered))
        return plan_over_rows(self._plan, first_rows.rename_columns(few.names))

    def _register_matches(self) -> str:
        """Register the matches of a sequence as a relation; returns the SQL to run."""
        plan = self._plan
        rows_of_events = self._rows_of_events()
        with self._profile.timed("match", self._engine.clock):
            sides = [
                side_of(scan, rows) for scan, rows in zip(plan.scans, rows_of_events, strict=True)
            ]
            many = sum(len(side.seqs) for side in sides) >= PARTS_ROWS_MIN
            parts = self._engine.threads if many else 1
            matched = sequence.matches(sides, plan.steps, parts=parts)
            enough = _matches_max(plan)
            if enough is not None:
                matched = [rows[:enough] for rows in sequence.sort_matches(sides[0], matched)]
            joined = _joined(plan, rows_of_events, matched)
        self._session.register(MATCHES, [joined])
        years = None
        if plan.bucket and not plan.bucket.calendar.is_utc:
            years = years_of(joined[plan.bucket.column].chunks)
        return sql_of_matches(plan, "duckdb", years=years)

    def _rows_of_events(self) -> list[_Rows]:
        """The rows of each event that fulfil its condition, with the needed columns."""
        scans = self._plan.scans
        tables = dict.fromkeys(scan.table for scan in scans)
        whole = {
            name: self._rows_of_table([scan for scan in scans if scan.table == name])
            for name in tables
        }
        return [self._rows(scan, whole[scan.table]) for scan in scans]

    def _rows_of_table(self, scans: list[Scan]) -> _Columns | None:
        """The rows for several events of one table, read once; None when they are too many."""
        reading = self._sources.reading_of(scans)
        if self._sources.fits(reading):
            tables = self._sources.tables(reading)
            if len({str(table.schema.types) for table in tables}) == 1:
                return _Columns(without_zones(pa.concat_tables(tables)))
        del self._profile.sources[-len(scans) :]  # of a reading that is not used
        return None

    def _rows(self, scan: Scan, whole: _Columns | None) -> _Rows:
        if whole is not None:
            with self._profile.timed("choose", self._engine.clock):
                kept = None if scan.where is None else mask(scan.where, whole.table)
            return _Rows(whole, kept)
        self._sources.register(scan, self._sources.reading(scan))
        return _Rows(_Columns(self._query(sql_of_scan(scan, "duckdb"))), None)


def cast_to_schema(table: pa.Table, shape: pa.Schema) -> pa.Table:
    """The table of an engine with the names and types of the result, by position."""
    return table.rename_columns(shape.names).cast(shape)


def _overflows(plan: Plan, table: pa.Table) -> bool:
    """Whether a sum of doubles overflowed, possibly in an intermediate sum: values of events are
    finite."""
    places = enumerate(plan.figures, len(plan.names) - len(plan.figures))
    columns = [table.column(place) for place, figure in places if figure.is_double]
    return any(pc.any(pc.invert(pc.is_finite(each))).as_py() for each in columns)


def _only_counts(plan: Plan) -> bool:
    """Whether the result is the number of all rows."""
    figures = bool(plan.figures) and all(figure.column is None for figure in plan.figures)
    grouped = bool(plan.groups) or plan.bucket is not None
    return figures and not grouped and not plan.steps and plan.scans[0].where is None


def _matches_max(plan: Plan) -> int | None:
    """The number of first matches that are needed, in natural order; None when unknown."""
    natural = not plan.figures and plan.cross is None and len(plan.order) == 2
    first = plan.scans[0]
    ours = [f"{first.prefix}{first.time}", f"{first.prefix}{SEQ}"]
    if not natural or [sort.column for sort in plan.order] != ours or plan.order[0].descending:
        return None
    return None if plan.limit is None else plan.limit + plan.offset


def _pays_in_two_passes(plan: Plan, rows_max: int) -> bool:
    if plan.top is None or plan.top.rows > TWO_PASSES_FIRST_MAX or rows_max < TWO_PASSES_ROWS_MIN:
        return False
    return len(plan.scans[0].columns) > len(order_columns_plan(plan).scans[0].columns)


def order_columns_plan(plan: Plan) -> Plan:
    """The same query for the columns that determine the rows: seq and those of the order."""
    scan = plan.scans[0]
    shown = dict.fromkeys(sort.column for sort in plan.order)
    needed = shown.keys() | fields_of(scan.where)
    kinds = {name: kind for name, kind in scan.kinds.items() if name in needed}
    few = msgspec.structs.replace(scan, kinds=kinds, relation="deciding")
    outputs = tuple(Output(name, name) for name in shown)
    return msgspec.structs.replace(plan, scans=(few,), outputs=outputs)


def plan_over_rows(plan: Plan, rows: pa.Table) -> Plan:
    """The same query over these rows only, which are those of its page.

    Seqs alone exclude few zones: files are not sorted by them. But few zones have values up to
    that of the last of these rows."""
    scan, first = plan.scans[0], plan.order[0]
    only: Condition = In(SEQ, tuple(rows[SEQ].to_pylist())) if len(rows) else _NO_ROW
    values = rows[first.column]
    ordered = scan.kinds[first.column].name not in ("enum", "bool")
    if len(rows) and ordered and not values.null_count:
        last = bound_value(values[-1])
        only = And((Compare(first.column, "<=" if not first.descending else ">=", last), only))
    # These rows fulfil the condition of the scan.
    scan = msgspec.structs.replace(scan, where=only)
    return msgspec.structs.replace(plan, scans=(scan,), offset=0)


def bound_value(scalar: pa.Scalar) -> Value:
    """A value in the form of conditions."""
    if pa.types.is_timestamp(scalar.type):
        return int(scalar.cast(pa.int64()).as_py())
    if pa.types.is_date(scalar.type):
        return int(scalar.cast(pa.int32()).as_py())
    value: Value = scalar.as_py()
    return value


class _Columns:
    """Rows of a table; columns are converted to numbers when they are first needed."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._links: dict[str, pa.ChunkedArray] = {}
        self._times: dict[str, Ints] = {}

    def link(self, name: str) -> pa.ChunkedArray:
        """The column; the same object for the same name."""
        return self._links.setdefault(name, self.table[name])

    @cached_property
    def seqs(self) -> Ints:
        seqs: Ints = self.table[SEQ].to_numpy().view(np.int64)
        return seqs

    def times(self, name: str) -> Ints:
        """In microseconds. A missing time is any other: such rows are not in ``kept``."""
        if name not in self._times:
            self._times[name] = _micros(self.table[name])
        return self._times[name]


class _Rows(NamedTuple):
    """Rows of an event, and a mask of those to use: None for all."""

    columns: _Columns
    kept: Mask | None


def side_of(scan: Scan, rows: _Rows) -> SequenceSide:
    """The side of a sequence for the rows of an event."""
    columns = rows.columns
    return SequenceSide(
        table=scan.table,
        link=columns.link(scan.link),
        times=columns.times(scan.time),
        seqs=columns.seqs,
        kept=rows.kept,
    )


def _micros(times: pa.ChunkedArray) -> Ints:
    days = pa.types.is_date(times.type)
    whole = times.cast(pa.int32()).cast(pa.int64()) if days else times.cast(pa.int64())
    if whole.null_count:
        whole = pc.fill_null(whole, pc.coalesce(pc.min(whole), 0))
    plain: Ints = whole.to_numpy()
    return plain * DAY_US if days else plain


def _joined(plan: Plan, rows_of_events: list[_Rows], matched: list[Ints]) -> pa.Table:
    """The needed columns of the matches."""
    needed = plan.needed or {f"{plan.scans[0].prefix}{SEQ}"}
    columns: dict[str, pa.ChunkedArray] = {}
    for scan, rows, places in zip(plan.scans, rows_of_events, matched, strict=True):
        fields = [field for field in scan.kept if f"{scan.prefix}{field}" in needed]
        few = rows.columns.table.select(fields).take(pa.array(places))
        columns |= {f"{scan.prefix}{field}": few[field] for field in fields}
    return pa.table(columns)
