"""Rows of tables, made relations of one question.

What is small enough is handed over as tables. What is not is read bit by bit while the question is
calculated, and only what the answer needs stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from strandline.query.buckets import Span
from strandline.query.engine import Engine, Session
from strandline.query.facts import Profile, Source
from strandline.query.periods import DAY_US
from strandline.query.plan import Scan
from strandline.query.telling import told
from strandline.views.table.condition import Condition, both
from strandline.views.table.snapshot import Reading, Snapshot, Top

Snapshots = Callable[[str], Snapshot]

_TEXT_BYTES = 32
"""What a string takes, about."""


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

    def reading(
        self,
        scan: Scan,
        columns: tuple[str, ...],
        *,
        top: Top | None = None,
        among: Condition | None = None,
    ) -> Reading:
        """Rows that may fulfil the scan's condition, and ``among``, too."""
        where = both(scan.where, among)
        with self._profile.timed("plan", self._engine.clock):
            found = self.snapshot(scan.table).read(columns, where, top=top)
        condition = told(where) if where else ""
        self._profile.sources.append(
            Source(table=scan.table, columns=columns, condition=condition, facts=found.facts)
        )
        return found

    def register(self, scan: Scan, reading: Reading, columns: tuple[str, ...]) -> None:
        """Make the rows the scan's relation."""
        kinds = self.snapshot(scan.table).columns
        schema = pa.schema([kinds.field(each) for each in columns])
        if reading.rows_max * _width(schema) > self._engine.memory_max // 2:
            self._session.register_stream(scan.relation, schema, reading.batches())
            return
        self._session.register(scan.relation, self.tables(reading) or [schema.empty_table()])

    def register_nothing(self, scan: Scan) -> None:
        """No rows, with the right columns."""
        kinds = self.snapshot(scan.table).columns
        schema = pa.schema([kinds.field(each) for each in scan.columns])
        self._session.register(scan.relation, [schema.empty_table()])

    def tables(self, reading: Reading) -> list[pa.Table]:
        with self._profile.timed("read", self._engine.clock):
            return reading.tables()

    def span(self, scan: Scan) -> Span:
        """From when to when rows of a scan may be."""
        reading = self.snapshot(scan.table).read([scan.time], scan.where)
        with self._profile.timed("read", self._engine.clock):
            return span_of(batch.column(0) for batch in reading.batches())


def span_of(chunks: Iterable[pa.Array]) -> Span:
    """From when to when moments or days are; nothing is from 1970."""
    ends = []
    for chunk in chunks:
        unit = DAY_US if pa.types.is_date(chunk.type) else 1
        numbers = chunk.cast(pa.int32() if pa.types.is_date(chunk.type) else pa.int64())
        least_most = pc.min_max(numbers).as_py()
        ends += [end * unit for end in least_most.values() if end is not None]
    return Span(min(ends, default=0), max(ends, default=0))


def _width(schema: pa.Schema) -> int:
    return sum(_bytes(kind) for kind in schema.types)


def _bytes(kind: pa.DataType) -> int:
    try:
        bits: int = kind.bit_width
        return max(1, bits // 8)
    except ValueError:
        return _TEXT_BYTES
