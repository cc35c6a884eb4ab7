"""DuckDB as a compute engine: runs one query over registered tables of Arrow.

There is one in-memory DuckDB for all queries of a store, and a cursor for each query, so that many
threads can run queries at once and share its threads and its memory. It has no access to the disk
or the network, nor to Python's variables: a SQL text can read registered tables, nothing else. A
query that does not fit in its memory is an error, and writes no file.

Times are passed without a zone (they are UTC): with one, DuckDB uses its time zone extension, which
is twelve times slower.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence

import duckdb
import pyarrow as pa

from strandline.config.settings import MIB
from strandline.errors import MemoryPressure
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.process import cores, register_forkable
from strandline.query.execute.duckdb_connection import PARENT_CONNECTIONS, connect_isolated
from strandline.query.execute.interrupt import current
from strandline.query.plan.sql_dialect import name as quoted

MEMORY_MAX = 1024 * MIB

_MOMENT = pa.timestamp("us")


class DuckDbEngine:
    """Runs queries. Safe from many threads."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        threads: int | None = None,
        memory_max: int = MEMORY_MAX,
    ) -> None:
        self.clock = clock or SystemClock()
        self.memory_max = memory_max
        self.threads = threads or cores()
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        register_forkable(self)

    @contextlib.contextmanager
    def session(self) -> Iterator[DuckDbSession]:
        """A session for one query."""
        cursor = self._open().cursor()
        interrupt = current()
        try:
            with interrupt.attached(cursor.interrupt):
                yield DuckDbSession(cursor)
        except duckdb.InterruptException:
            interrupt.check()
            raise
        except duckdb.OutOfMemoryException as error:
            raise MemoryPressure(
                f"the query needs more than its limit of {self.memory_max // MIB} MiB of memory: "
                "select fewer rows or groups, or raise query.memory_bytes"
            ) from error
        finally:
            cursor.close()

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def forked(self) -> None:
        """DuckDB's threads do not exist in a forked child: it opens a new connection."""
        self._lock = threading.Lock()
        if self._connection is not None:
            PARENT_CONNECTIONS.append(self._connection)
        self._connection = None

    def _open(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._connection is None:
                self._connection = _connect(self.threads, self.memory_max)
            return self._connection


class DuckDbSession:
    """The relations of one query. Owned by one thread."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def register(self, relation: str, tables: Sequence[pa.Table]) -> None:
        """Register rows of tables with the same columns; strings may be dictionaries in some."""
        by_types: dict[str, list[pa.Table]] = {}
        for table in map(without_zones, tables):
            by_types.setdefault(str(table.schema.types), []).append(table)
        parts = [pa.concat_tables(group) for group in by_types.values()]
        if len(parts) == 1:
            self._cursor.register(relation, parts[0])
            return
        for place, part in enumerate(parts):
            self._cursor.register(f"{relation}_{place}", part)
        names = [quoted(f"{relation}_{place}").sql("duckdb") for place in range(len(parts))]
        union = " UNION ALL ".join(f"FROM {name}" for name in names)
        self._cursor.execute(
            f"CREATE OR REPLACE TEMP VIEW {quoted(relation).sql('duckdb')} AS {union}"
        )

    def register_stream(
        self, relation: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Register rows that are read while the query runs. They can be read once."""
        plain = without_zones(schema.empty_table()).schema
        converted = (_convert(batch, plain) for batch in batches)
        self._cursor.register(relation, pa.RecordBatchReader.from_batches(plain, converted))

    def query(self, sql: str) -> pa.Table:
        return self._cursor.sql(sql).to_arrow_table()

    def stream(self, sql: str, rows: int) -> pa.RecordBatchReader:
        """A result that is computed while it is read."""
        return self._cursor.sql(sql).to_arrow_reader(rows)


def without_zones(table: pa.Table) -> pa.Table:
    """The same times, without a copy."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            chunks = [chunk.view(_MOMENT) for chunk in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(chunks, _MOMENT))
    return table


def _convert(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    table = without_zones(pa.Table.from_batches([batch])).cast(schema)
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)


def _connect(threads: int, memory_max: int) -> duckdb.DuckDBPyConnection:
    connection = connect_isolated(threads, max(memory_max, 64 * MIB))
    # Every query has an explicit order. The last statement forbids any further change.
    for setting in ("TimeZone = 'UTC'", "preserve_insertion_order = false"):
        connection.execute(f"SET {setting}")
    connection.execute("SET lock_configuration = true")
    return connection
