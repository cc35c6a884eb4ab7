"""The process that runs SQL of clients: a sandbox with a bound on its memory, and no store.

It parses texts and runs queries that the store sends, one after the other, and requests the rows of
relations from the store as DuckDB needs them (``process_messages.py``). Each query has its own
empty database (``sandbox.py``). A query that needs too much memory ends with an error, or ends the
process; the store detects both.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import duckdb
import msgspec
import pyarrow as pa

from strandline.config.settings import MIB
from strandline.errors import StrandlineError
from strandline.platform.process_template import limit_memory
from strandline.query.sql import filters
from strandline.query.sql import process_messages as messages
from strandline.query.sql.dataset import RelationDataset
from strandline.query.sql.process_messages import QueryFailure, RowsRequest, SandboxQuery
from strandline.query.sql.sandbox import Sandbox

_OVERHEAD_BYTES = 512 * MIB
"""Memory that DuckDB does not count: the interpreter, Arrow, and rows in transit."""


def main(control: socket.socket, scans: socket.socket, *, memory_max: int, threads: int) -> None:
    """Serve one store until it closes the sockets."""
    limit_memory(memory_max + _OVERHEAD_BYTES)
    sandbox = Sandbox(memory_max=memory_max, threads=threads)
    relations = _StoreClient(scans)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            with sandbox.parser() as parser:  # opens DuckDB before the first text arrives
                kind, body = messages.receive(control)
                if kind == messages.PARSE:
                    _parse(control, parser.tree, body)
            if kind == messages.QUERY:
                _run_query(
                    control, sandbox, relations, msgspec.msgpack.decode(body, type=SandboxQuery)
                )


def _parse(control: socket.socket, tree: Callable[[str], str], body: bytearray) -> None:
    try:
        messages.send(control, messages.TREE, tree(body.decode()).encode())
    except (duckdb.Error, MemoryError) as error:
        _fail(control, error)


def _run_query(
    control: socket.socket, sandbox: Sandbox, store: _StoreClient, query: SandboxQuery
) -> None:
    try:
        with sandbox.open_database(query.timezone) as database:
            for number, (schema, name, columns) in enumerate(query.relations):
                relation = _Relation(store, number, messages.schema_of(columns))
                database.add(schema, name, RelationDataset(relation, []))
            params = pickle.loads(query.params)  # noqa: S301 - from the store, not from a client
            reader = database.stream(query.text, params, query.rows)
            messages.send(control, messages.SCHEMA, reader.schema.serialize())
            for batch in reader:
                for piece in messages.split_batch(batch):
                    _wait_next(control)
                    messages.send(control, messages.ROWS, messages.rows_of(piece))
                del batch
            _wait_next(control)
        messages.send(control, messages.END)
    except (duckdb.Error, pa.ArrowException, StrandlineError, MemoryError) as error:
        _fail(control, error)
    except (ConnectionError, EOFError):
        raise
    except OSError as error:  # a reader of Arrow failed
        _fail(control, error)


def _wait_next(control: socket.socket) -> None:
    kind, _ = messages.receive(control)
    if kind != messages.NEXT:
        raise EOFError("the store needs no more rows")


def _fail(control: socket.socket, error: BaseException) -> None:
    kind = "OutOfMemoryException" if isinstance(error, MemoryError) else type(error).__name__
    failure = QueryFailure(kind, str(error) or "out of memory")
    messages.send(control, messages.FAILED, msgspec.msgpack.encode(failure))


class _StoreClient:
    """Requests rows from the store. Safe from many threads."""

    def __init__(self, scans: socket.socket) -> None:
        self._scans = scans
        self._requesting = threading.Lock()
        self._numbers = itertools.count()

    def rows(
        self, relation: int, columns: Sequence[str], where: filters.Where | None
    ) -> Iterator[pa.RecordBatch]:
        pull = RowsRequest(next(self._numbers), relation, list(columns), filters.encode(where))
        request = msgspec.msgpack.encode(pull)
        has_ended = False
        try:
            while True:
                with self._requesting:
                    messages.send(self._scans, messages.PULL, request)
                    kind, body = messages.receive(self._scans)
                if kind != messages.ROWS:
                    has_ended = True
                    if kind == messages.FAILED:
                        raise OSError(bytes(body).decode())
                    return
                yield messages.batch_of(body)
        finally:
            if not has_ended:
                with self._requesting:
                    messages.send(self._scans, messages.DROP, pull.scan.to_bytes(8, "little"))


class _Relation:
    """A relation of the store. Safe from many threads."""

    def __init__(self, store: _StoreClient, number: int, schema: pa.Schema) -> None:
        self._store = store
        self._number = number
        self.schema = schema

    def batches(
        self, columns: Sequence[str], where: filters.Where | None
    ) -> Iterator[pa.RecordBatch]:
        return self._store.rows(self._number, columns, where)
