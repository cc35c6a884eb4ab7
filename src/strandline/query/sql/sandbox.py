"""A DuckDB that sees nothing but what it is handed: one for the process, a room for each question.

It has no way to the disk, the network or Python's variables, loads no extensions, and can have so
much memory; what does not fit is an error, not a file. A room is an empty database of its own: the
relations of a question are views in it, in schemas by kind, and go with it. So questions of many
threads do not see each other, and share the memory.
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
from strandline.platform.process import cores, tell_when_forked
from strandline.query.execute.duckdb_connection import closed_off, left_to_parents
from strandline.query.execute.interrupt import current
from strandline.query.execute.time_values import in_microseconds
from strandline.query.sql.dataset import RelationDataset

MEMORY_MAX = 1024 * MIB
_TREE = "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true, skip_default := true)"

Params = Sequence[Any] | Mapping[str, Any]


class Parser:
    """Reads texts. Owned by one thread."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def tree(self, text: str) -> str:
        """A text as DuckDB reads it, in JSON; or what is wrong with it, in JSON too."""
        found = self._cursor.execute(_TREE, [text]).fetchone()
        assert found is not None, "a SELECT without FROM has one row"
        tree: str = found[0]
        return tree


class Room:
    """The relations of one question. Owned by one thread."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._handed: list[str] = []
        self._schemas: set[str] = {""}
        self._reader: pa.RecordBatchReader | None = None

    def add(self, schema: str, name: str, dataset: RelationDataset | pa.Table) -> None:
        """Let a relation be asked by this name; without a schema it is a bare one."""
        handle = f"__relation_{len(self._handed)}"
        self._cursor.register(handle, dataset)
        self._handed.append(handle)
        if schema not in self._schemas:
            self._cursor.execute(f"CREATE SCHEMA {_quoted(schema)}")
            self._schemas.add(schema)
        path = f"{_quoted(schema)}.{_quoted(name)}" if schema else _quoted(name)
        self._cursor.execute(f"CREATE VIEW {path} AS FROM temp.{_quoted(handle)}")

    def ask(self, text: str, params: Params | None) -> pa.Table:
        """The answer, whole. All times are in microseconds, whatever the question made of them."""
        return in_microseconds(self._cursor.sql(text, params=params).to_arrow_table())

    def stream(self, text: str, params: Params | None, rows: int) -> pa.RecordBatchReader:
        """The answer, calculated while it is read; the room must stay until then."""
        self._reader = self._cursor.sql(text, params=params).to_arrow_reader(rows)
        return self._reader

    def leave(self) -> None:
        if self._reader is not None:
            self._reader.close()  # DuckDB begins nothing else while rows are left
        for handle in self._handed:
            self._cursor.unregister(handle)


class Sandbox:
    """Where questions in SQL are answered. Safe from many threads."""

    def __init__(self, *, memory_max: int = MEMORY_MAX, threads: int | None = None) -> None:
        self.memory_max = memory_max
        self._threads = threads or cores()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._connections: list[duckdb.DuckDBPyConnection] = []
        # At exit, too: DuckDB complains at length about what is left open then.
        weakref.finalize(self, _close_all, self._connections)
        tell_when_forked(self)

    @contextlib.contextmanager
    def parser(self) -> Iterator[Parser]:
        """What reads texts."""
        cursor = self._opened().cursor()
        try:
            yield Parser(cursor)
        finally:
            cursor.close()

    @contextlib.contextmanager
    def room(self, timezone: str = "UTC") -> Iterator[Room]:
        """An empty database, for one question."""
        cursor = self._opened().cursor()
        name = _quoted(f"room_{next(self._numbers)}")
        try:
            _set_timezone(cursor, timezone)
            cursor.execute(f"ATTACH ':memory:' AS {name}")
            cursor.execute(f"USE {name}")
            room = Room(cursor)
            try:
                with current().attached(cursor.interrupt):
                    yield room
            finally:
                room.leave()
                cursor.execute("USE memory")
                cursor.execute(f"DETACH {name}")
        except duckdb.OutOfMemoryException as error:
            raise MemoryPressure(
                f"the question needs more than the {self.memory_max // MIB} MiB it may have: ask "
                "for fewer columns, rows or groups"
            ) from error
        finally:
            cursor.close()

    def close(self) -> None:
        with self._lock:
            _close_all(self._connections)

    def forked(self) -> None:
        """DuckDB's threads are not in the child: it starts with another one."""
        self._lock = threading.Lock()
        left_to_parents.extend(self._connections)
        self._connections.clear()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if not self._connections:
                self._connections.append(closed_off(self._threads, max(self.memory_max, 32 * MIB)))
            return self._connections[0]


def _close_all(connections: list[duckdb.DuckDBPyConnection]) -> None:
    while connections:
        connections.pop().close()


def _set_timezone(cursor: duckdb.DuckDBPyConnection, timezone: str) -> None:
    told = str(timezone).replace("'", "''")
    try:
        cursor.execute(f"SET TimeZone = '{told}'")
    except duckdb.Error as error:
        raise Invalid(f"there is no time zone {timezone!r}: name one as Europe/Berlin") from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


SHARED = Sandbox()
"""The one that questions use unless they are given another."""
