"""Rows of tables, made relations of one question.

What is small enough is handed over as tables. What is not is read bit by bit while the question is
calculated, and only what the answer needs stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from strandline.query.execute.duckdb_engine import Engine, Session
from strandline.query.execute.profile import Profile, Source
from strandline.query.language.format_condition import told
from strandline.query.plan.plan import NOTHING, Numbered, Scan
from strandline.views.table.condition import either
from strandline.views.table.dictionary import places
from strandline.views.table.snapshot import Reading, Snapshot, Top

Snapshots = Callable[[str], Snapshot]
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

_YEARS_MAX = 100
"""Of rows that are together; where there are more, it is asked which."""


class Sources:
    """The tables of one question, each at one position. Owned by one thread."""

    def __init__(
        self, engine: Engine, session: Session, snapshots: Snapshots, profile: Profile
    ) -> None:
        self._engine = engine
        self._session = session
        self._snapshots = snapshots
        self._profile = profile
        self._held: dict[str, Snapshot] = {}

    def snapshot(self, table: str) -> Snapshot:
        if table not in self._held:
            self._held[table] = self._snapshots(table)
        return self._held[table]

    def reading(self, scan: Scan, *, top: Top | None = None) -> Reading:
        """Rows that may fulfil the scan's condition."""
        with self._profile.timed("plan", self._engine.clock):
            found = self.snapshot(scan.table).read(scan.columns, scan.where, top=top)
        self._tell(scan, found)
        return found

    def reading_of(self, scans: Sequence[Scan]) -> Reading:
        """Rows that may fulfil the condition of any of these scans, which are of one table."""
        columns = dict.fromkeys(name for scan in scans for name in scan.columns)
        with self._profile.timed("plan", self._engine.clock):
            where = either(*(scan.where for scan in scans))
            found = self.snapshot(scans[0].table).read(list(columns), where)
        for scan in scans:
            self._tell(scan, found)
        return found

    def _tell(self, scan: Scan, reading: Reading) -> None:
        condition = told(scan.where) if scan.where else ""
        self._profile.sources.append(
            Source(table=scan.table, columns=scan.columns, condition=condition, facts=reading.facts)
        )

    def register(self, scan: Scan, reading: Reading, numbered: Numbered = NOTHING) -> None:
        """Make the rows the scan's relation, with the places of variants in numbered columns."""
        kinds = self.snapshot(scan.table).columns
        schema = pa.schema([kinds.field(each) for each in scan.columns])
        empty = as_numbers(schema.empty_table(), numbered)
        if not self.fits(reading):
            batches = (as_numbers(batch, numbered) for batch in reading.batches())
            self._session.register_stream(scan.relation, empty.schema, batches)
            return
        tables = [as_numbers(table, numbered) for table in self.tables(reading)]
        self._session.register(scan.relation, tables or [empty])

    def fits(self, reading: Reading) -> bool:
        """Whether the rows may be in memory all at once."""
        return reading.bytes_max <= self._engine.memory_max // 2

    def tables(self, reading: Reading) -> list[pa.Table]:
        with self._profile.timed("read", self._engine.clock):
            return reading.tables()

    def years(self, scan: Scan) -> list[int]:
        """The years that rows of a scan may be from."""
        reading = self.snapshot(scan.table).read([scan.time], scan.where)
        with self._profile.timed("read", self._engine.clock):
            return years_of(batch.column(0) for batch in reading.batches())


def years_of(chunks: Iterable[pa.Array]) -> list[int]:
    """The years of moments or days; maybe some between that nothing is from."""
    found: set[int] = set()
    for chunk in chunks:
        ends = [end.year for end in pc.min_max(chunk).as_py().values() if end is not None]
        if ends and ends[1] - ends[0] < _YEARS_MAX:
            found.update(range(ends[0], ends[1] + 1))
        else:
            found.update(year for year in pc.unique(pc.year(chunk)).to_pylist() if year is not None)
    return sorted(found)


def as_numbers(rows: Rows, numbered: Numbered) -> Rows:
    """The same rows, of these columns the places of their values among the variants."""
    for name, variants in numbered.items():
        place = rows.schema.get_field_index(name)
        column = rows.column(place)
        chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
        rows = rows.set_column(place, name, places(chunked, variants))
    return rows
