"""Registers rows of tables as relations of one query.

Rows that fit in memory are registered as tables. Others are read in batches while the query runs,
and only what the result needs stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from strandline.query.execute.duckdb_engine import DuckDbEngine, DuckDbSession
from strandline.query.execute.profile import Profile, SourceProfile
from strandline.query.language.format_condition import format_condition
from strandline.query.plan.plan import NOT_NUMBERED, Numbered, Scan
from strandline.views.table.condition import any_of
from strandline.views.table.dictionary import variant_indices
from strandline.views.table.snapshot import EventTableSnapshot, TableRead, Top

Snapshots = Callable[[str], EventTableSnapshot]
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

_YEARS_MAX = 100
"""Chunks that span fewer years report all of them; others only the years of their rows."""


class ScanSources:
    """The tables of one query, each at one position. Owned by one thread."""

    def __init__(
        self, engine: DuckDbEngine, session: DuckDbSession, snapshots: Snapshots, profile: Profile
    ) -> None:
        self._engine = engine
        self._session = session
        self._snapshots = snapshots
        self._profile = profile
        self._by_table: dict[str, EventTableSnapshot] = {}

    def snapshot(self, table: str) -> EventTableSnapshot:
        if table not in self._by_table:
            self._by_table[table] = self._snapshots(table)
        return self._by_table[table]

    def reading(self, scan: Scan, *, top: Top | None = None) -> TableRead:
        """Rows that may fulfil the scan's condition."""
        with self._profile.timed("plan", self._engine.clock):
            reading = self.snapshot(scan.table).read(scan.columns, scan.where, top=top)
        self._record(scan, reading)
        return reading

    def reading_of(self, scans: Sequence[Scan]) -> TableRead:
        """Rows that may fulfil the condition of any of these scans, which are of one table."""
        columns = dict.fromkeys(name for scan in scans for name in scan.columns)
        with self._profile.timed("plan", self._engine.clock):
            where = any_of(*(scan.where for scan in scans))
            reading = self.snapshot(scans[0].table).read(list(columns), where)
        for scan in scans:
            self._record(scan, reading)
        return reading

    def _record(self, scan: Scan, reading: TableRead) -> None:
        condition = format_condition(scan.where) if scan.where else ""
        self._profile.sources.append(
            SourceProfile(
                table=scan.table, columns=scan.columns, condition=condition, facts=reading.facts
            )
        )

    def register(self, scan: Scan, reading: TableRead, numbered: Numbered = NOT_NUMBERED) -> None:
        """Register the rows of a scan; numbered columns have the indexes of their variants."""
        kinds = self.snapshot(scan.table).columns
        schema = pa.schema([kinds.field(each) for each in scan.columns])
        empty = encode_enums(schema.empty_table(), numbered)
        if not self.fits(reading):
            batches = (encode_enums(batch, numbered) for batch in reading.batches())
            self._session.register_stream(scan.relation, empty.schema, batches)
            return
        tables = [encode_enums(table, numbered) for table in self.tables(reading)]
        self._session.register(scan.relation, tables or [empty])

    def fits(self, reading: TableRead) -> bool:
        """Whether all rows fit in memory."""
        return reading.bytes_max <= self._engine.memory_max // 2

    def tables(self, reading: TableRead) -> list[pa.Table]:
        with self._profile.timed("read", self._engine.clock):
            return reading.tables()

    def years(self, scan: Scan) -> list[int]:
        """The years that rows of a scan may have."""
        reading = self.snapshot(scan.table).read([scan.time], scan.where)
        with self._profile.timed("read", self._engine.clock):
            return years_of(batch.column(0) for batch in reading.batches())


def years_of(chunks: Iterable[pa.Array]) -> list[int]:
    """The years of times or dates; possibly some between that have no rows."""
    years: set[int] = set()
    for chunk in chunks:
        ends = [end.year for end in pc.min_max(chunk).as_py().values() if end is not None]
        if ends and ends[1] - ends[0] < _YEARS_MAX:
            years.update(range(ends[0], ends[1] + 1))
        else:
            years.update(year for year in pc.unique(pc.year(chunk)).to_pylist() if year is not None)
    return sorted(years)


def encode_enums(rows: Rows, numbered: Numbered) -> Rows:
    """The same rows; these columns have the indexes of their values among the variants."""
    for name, variants in numbered.items():
        place = rows.schema.get_field_index(name)
        column = rows.column(place)
        chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
        rows = rows.set_column(place, name, variant_indices(chunked, variants))
    return rows
