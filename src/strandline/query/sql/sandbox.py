"""An isolated DuckDB: one for the process, with an empty database for each query.

It has no access to the disk, the network or Python's variables, loads no extensions, and has a
limit of memory; a query that needs more is an error, and writes no file. The relations of a query
are views in its database, in schemas by kind, and are removed with it. So queries of many threads
do not see each other, and share the memory.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from strandline.config.settings import MIB
from strandline.errors import Invalid, MemoryPressure
from strandline.platform.process import cores, register_forkable
from strandline.query.execute.duckdb_connection import PARENT_CONNECTIONS, connect_isolated
from strandline.query.execute.interrupt import current
from strandline.query.execute.time_values import in_microseconds
from strandline.query.sql.dataset import RelationDataset

MEMORY_MAX = 1024 * MIB
_TREE = "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true, skip_default := true)"

Params = Sequence[Any] | Mapping[str, Any]


class DuckDbParser:
    """Parses SQL. Owned by one thread."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def tree(self, text: str) -> str:
        """The parse tree of a text in JSON, or its error, in JSON too."""
        row = self._cursor.execute(_TREE, [text]).fetchone()
        assert row is not None, "a SELECT without FROM has one row"
        tree: str = row[0]
        return tree


class _IsolatedDatabase:
    """The relations of one query. Owned by one thread."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._handles: list[str] = []
        self._schemas: set[str] = {""}
        self._reader: pa.RecordBatchReader | None = None

    def add(self, schema: str, name: str, dataset: RelationDataset | pa.Table) -> None:
        """Add a relation with this name; an empty schema makes it a bare name."""
        handle = f"__relation_{len(self._handles)}"
        self._cursor.register(handle, dataset)
        self._handles.append(handle)
        if schema not in self._schemas:
            self._cursor.execute(f"CREATE SCHEMA {_quoted(schema)}")
            self._schemas.add(schema)
        path = f"{_quoted(schema)}.{_quoted(name)}" if schema else _quoted(name)
        self._cursor.execute(f"CREATE VIEW {path} AS FROM temp.{_quoted(handle)}")

    def query(self, text: str, params: Params | None) -> pa.Table:
        """The whole result. All times are in microseconds, whatever their unit in the query."""
        return in_microseconds(self._cursor.sql(text, params=params).to_arrow_table())

    def stream(self, text: str, params: Params | None, rows: int) -> pa.RecordBatchReader:
        """The result, computed while it is read; the database must stay open until then."""
        self._reader = self._cursor.sql(text, params=params).to_arrow_reader(rows)
        return self._reader

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()  # DuckDB starts no other query while rows are unread
        for handle in self._handles:
            self._cursor.unregister(handle)


class Sandbox:
    """Runs SQL queries in this process. Safe from many threads."""

    def __init__(self, *, memory_max: int = MEMORY_MAX, threads: int | None = None) -> None:
        self.memory_max = memory_max
        self._threads = threads or cores()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._connections: list[duckdb.DuckDBPyConnection] = []
        # At exit, too: DuckDB prints long warnings about connections that are open then.
        weakref.finalize(self, _close_all, self._connections)
        register_forkable(self)

    @contextlib.contextmanager
    def parser(self) -> Iterator[DuckDbParser]:
        """A parser of SQL."""
        cursor = self._connection().cursor()
        try:
            yield DuckDbParser(cursor)
        finally:
            cursor.close()

    @contextlib.contextmanager
    def open_database(self, timezone: str = "UTC") -> Iterator[_IsolatedDatabase]:
        """An empty database, for one query."""
        cursor = self._connection().cursor()
        name = _quoted(f"room_{next(self._numbers)}")
        try:
            _set_timezone(cursor, timezone)
            cursor.execute(f"ATTACH ':memory:' AS {name}")
            cursor.execute(f"USE {name}")
            database = _IsolatedDatabase(cursor)
            try:
                with current().attached(cursor.interrupt):
                    yield database
            finally:
                database.close()
                cursor.execute("USE memory")
                cursor.execute(f"DETACH {name}")
        except duckdb.OutOfMemoryException as error:
            raise MemoryPressure(
                f"the query needs more than its limit of {self.memory_max // MIB} MiB of memory: "
                "select fewer columns, rows or groups"
            ) from error
        finally:
            cursor.close()

    def close(self) -> None:
        with self._lock:
            _close_all(self._connections)

    def forked(self) -> None:
        """DuckDB's threads do not exist in a forked child: it opens a new connection."""
        self._lock = threading.Lock()
        PARENT_CONNECTIONS.extend(self._connections)
        self._connections.clear()

    def _connection(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if not self._connections:
                self._connections.append(
                    connect_isolated(self._threads, max(self.memory_max, 32 * MIB))
                )
            return self._connections[0]


def _close_all(connections: list[duckdb.DuckDBPyConnection]) -> None:
    while connections:
        connections.pop().close()


def _set_timezone(cursor: duckdb.DuckDBPyConnection, timezone: str) -> None:
    escaped = str(timezone).replace("'", "''")
    try:
        cursor.execute(f"SET TimeZone = '{escaped}'")
    except duckdb.Error as error:
        raise Invalid(
            f"unknown time zone {timezone!r}: use a name such as Europe/Berlin"
        ) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


SHARED = Sandbox()
"""The default sandbox of queries."""
