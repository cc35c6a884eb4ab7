"""Runs SQL in separate processes: a query that exhausts memory ends its process, nothing else.

    QueryProcesses    the processes of a server: a few stay idle, each serves one query at a time
    ProcessSandbox    a process while it serves a query, with the interface of a ``Sandbox``

The process parses and computes; relations stay here, and their rows are read by the thread that
waits for the result, when the process requests them. A process is used again when its query has
completed. Otherwise it is killed, as is one whose query is interrupted: a kill ends every query of
DuckDB.
"""

from __future__ import annotations

import contextlib
import pickle
import select
import socket
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from strandline.config.settings import MIB
from strandline.errors import Invalid, MemoryPressure, Unavailable
from strandline.platform.process import cores, resident_bytes
from strandline.platform.process_template import ProcessTemplate
from strandline.query.execute.interrupt import Interrupt
from strandline.query.execute.time_values import in_microseconds
from strandline.query.sql import filters
from strandline.query.sql import process_messages as messages
from strandline.query.sql.dataset import RelationDataset
from strandline.query.sql.process_messages import (
    FrameTooLarge,
    QueryFailure,
    RowsRequest,
    SandboxQuery,
)
from strandline.query.sql.sandbox import Params

MEMORY_MAX = 512 * MIB
_CHILD = "strandline.query.sql.process_child"
_IDLE_MAX = 4
"""Idle processes; each takes some 100 MiB, most of them shared."""
_RESIDENT_MAX = 256 * MIB
_TREE_BYTES_MAX = 256 * MIB
_OVERHEAD_BYTES = 1 * MIB
"""Bytes of a frame besides its rows."""


class QueryProcesses:
    """Processes for queries. Safe from many threads."""

    def __init__(self, *, memory_max: int = MEMORY_MAX, row_bytes_max: int = 16 * MIB) -> None:
        self._memory_max = memory_max
        self._row_bytes_max = row_bytes_max
        self._template = ProcessTemplate(_CHILD)
        self._lock = threading.Lock()
        self._idle: deque[_Process] = deque()
        self._closed = False

    def acquire(self, interrupt: Interrupt) -> ProcessSandbox:
        """A process for one query, which the interrupt ends. The caller must release it."""
        with self._lock:
            process = self._idle.popleft() if self._idle else None
        if process is not None and not process.is_alive:
            process.discard()
            process = None
        if process is None:
            process = self._start()
        try:
            return ProcessSandbox(process, interrupt, self._memory_max, self._row_bytes_max)
        except BaseException:
            process.discard()
            raise

    def release(self, sandbox: ProcessSandbox) -> None:
        """Return a process whose query has ended, or is no longer needed."""
        process = sandbox.detach()
        with self._lock:
            has_room = not self._closed and len(self._idle) < _IDLE_MAX
            if has_room and process.is_clean:
                self._idle.append(process)
                return
        process.discard()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for process in idle:
            process.discard()
        self._template.close()

    def _start(self) -> _Process:
        control, its_control = socket.socketpair()
        scans, its_scans = socket.socketpair()
        with its_control, its_scans:
            try:
                number = self._template.fork(
                    (its_control, its_scans), memory_max=self._memory_max, threads=cores()
                )
            except (ChildProcessError, OSError) as error:
                control.close()
                scans.close()
                raise Unavailable(f"no process could be started for the query: {error}") from error
        return _Process(self._template, number, control, scans)


class _Process:
    """A process and its sockets. ``kill`` is safe from many threads, the rest is for one."""

    def __init__(
        self,
        template: ProcessTemplate,
        number: int,
        control: socket.socket,
        scans: socket.socket,
    ) -> None:
        self.control = control
        self.scans = scans
        self.is_busy = False
        """Whether it runs a query that has not ended."""
        self._template = template
        self._number = number
        self._killing = threading.Lock()
        self._killed = False

    @property
    def is_clean(self) -> bool:
        """Whether it can serve another query: the last one has ended, and its memory is free."""
        is_ended = not self.is_busy and not self._killed
        return is_ended and resident_bytes(self._number) <= _RESIDENT_MAX

    @property
    def is_alive(self) -> bool:
        """Whether it waits for a query: its sockets have no data, and are not closed."""
        return not self.wait(0)

    def wait(self, milliseconds: int | None = None) -> set[int]:
        """Wait for data on the sockets; returns the descriptors of those that have some."""
        poll = select.poll()  # select has no descriptors beyond 1024
        for each in (self.control, self.scans):
            poll.register(each, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(milliseconds)}

    def kill(self) -> None:
        with self._killing:
            if not self._killed:
                self._killed = True
                self._template.kill(self._number)
                for each in (self.control, self.scans):
                    with contextlib.suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)  # wakes threads that read from it

    def discard(self) -> None:
        """Kill it, and close its sockets. It must not be in use."""
        self.kill()
        self.control.close()
        self.scans.close()


class ProcessSandbox:
    """A process while it serves a query. Owned by one thread at a time."""

    def __init__(
        self, process: _Process, interrupt: Interrupt, memory_max: int, row_bytes_max: int
    ) -> None:
        self._process = process
        self._interrupt = interrupt
        self._memory_max = memory_max
        self._row_bytes_max = row_bytes_max
        self._relations: list[RelationDataset] = []
        self._scans: dict[int, Iterator[pa.RecordBatch]] = {}
        self._trees: dict[str, bytes] = {}
        interrupt.attach(process.kill)

    def detach(self) -> _Process:
        """Detach the process from this query, and return it."""
        self._interrupt.detach(self._process.kill)
        return self._process

    @contextlib.contextmanager
    def parser(self) -> Iterator[ProcessSandbox]:
        yield self

    def tree(self, text: str) -> bytes:
        """The parse tree of a text, in JSON."""
        if text not in self._trees:
            _, tree = self._request(messages.PARSE, text.encode(), _TREE_BYTES_MAX)
            self._trees[text] = bytes(tree)
        return self._trees[text]

    @contextlib.contextmanager
    def open_database(self, timezone: str = "UTC") -> Iterator[_RemoteDatabase]:
        """An empty database, for one query."""
        self._relations, self._scans = [], {}
        try:
            yield _RemoteDatabase(self, timezone)
        finally:
            for scan in self._scans.values():
                scan.close()  # type: ignore[attr-defined]  # batches() returns generators

    def query(self, query: SandboxQuery, relations: list[RelationDataset]) -> pa.Schema:
        """Start a query; returns its columns."""
        self._relations = relations
        _, body = self._request(messages.QUERY, msgspec.msgpack.encode(query), _TREE_BYTES_MAX)
        return messages.schema_of(body)

    def next(self) -> pa.RecordBatch | None:
        """The next rows of the query; None at their end."""
        kind, body = self._request(messages.NEXT, b"", self._row_bytes_max + _OVERHEAD_BYTES)
        return messages.batch_of(body) if kind == messages.ROWS else None

    def _request(self, kind: int, body: bytes, size_max: int) -> tuple[int, bytearray]:
        process = self._process
        self._interrupt.check()
        process.is_busy = True
        try:
            messages.send(process.control, kind, body)
            while not self._has_response():
                self._serve_scan()
            kind, response = messages.receive(process.control, size_max)
        except FrameTooLarge:
            raise Invalid(
                f"a row of the result is over {self._row_bytes_max} bytes: select part of the value"
            ) from None
        except (EOFError, OSError, ValueError) as error:  # ended or killed
            self._interrupt.check()
            raise MemoryPressure(
                "the query ended its process, which may use at most "
                f"{self._memory_max // MIB} MiB of memory: select fewer columns, rows or groups"
            ) from error
        process.is_busy = kind in (messages.SCHEMA, messages.ROWS)
        if kind == messages.FAILED:
            raise _error_of(msgspec.msgpack.decode(response, type=QueryFailure))
        return kind, response

    def _has_response(self) -> bool:
        """Wait for the process; whether it sends a response, not a request for rows."""
        return self._process.scans.fileno() not in self._process.wait()

    def _serve_scan(self) -> None:
        process = self._process
        kind, body = messages.receive(process.scans, _TREE_BYTES_MAX)
        if kind == messages.DROP:
            dropped = self._scans.pop(int.from_bytes(body, "little"), None)
            if dropped is not None:
                dropped.close()  # type: ignore[attr-defined]
            return
        pull = msgspec.msgpack.decode(body, type=RowsRequest)
        dataset = self._relations[pull.relation]
        try:
            if pull.scan not in self._scans:
                where = filters.decode(pull.where)
                self._scans[pull.scan] = dataset.relation.batches(pull.columns, where)
            self._interrupt.check()
            batch = next(self._scans[pull.scan], None)
        except Exception as error:  # noqa: BLE001 - raised by the thread of the query
            dataset.failures.append(error)
            messages.send(process.scans, messages.FAILED, str(error).encode())
            return
        if batch is None:
            del self._scans[pull.scan]
            messages.send(process.scans, messages.END)
        else:
            messages.send(process.scans, messages.ROWS, messages.rows_of(batch))


class _RemoteDatabase:
    """The relations of one query. Owned by one thread."""

    def __init__(self, sandbox: ProcessSandbox, timezone: str) -> None:
        self._sandbox = sandbox
        self._timezone = timezone
        self._columns: list[tuple[str, str, bytes]] = []
        self._relations: list[RelationDataset] = []

    def add(self, schema: str, name: str, dataset: RelationDataset) -> None:
        """Add a relation with this name; an empty schema makes it a bare name."""
        columns = dataset.schema.serialize().to_pybytes()
        self._columns.append((schema, name, columns))
        self._relations.append(dataset)

    def query(self, text: str, params: Params | None) -> pa.Table:
        """The whole result."""
        reader = self.stream(text, params, 8192)
        return in_microseconds(pa.Table.from_batches(list(reader), reader.schema))

    def stream(self, text: str, params: Params | None, rows: int) -> _Rows:
        """The result, computed while it is read; the database must stay open until then."""
        query = SandboxQuery(text, pickle.dumps(params), str(self._timezone), rows, self._columns)
        return _Rows(self._sandbox, self._sandbox.query(query, self._relations))


class _Rows:
    """The rows of a result, like a reader of Arrow. Owned by one thread at a time."""

    def __init__(self, sandbox: ProcessSandbox, schema: pa.Schema) -> None:
        self.schema = schema
        self._sandbox = sandbox

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._sandbox.next()) is not None:
            yield batch


def _error_of(failure: QueryFailure) -> Exception:
    """The error that was raised in the process."""
    if failure.kind in ("MemoryPressure", "OutOfMemoryException"):
        return MemoryPressure(failure.message)
    if failure.kind in ("Invalid", "OSError"):
        return Invalid(failure.message) if failure.kind == "Invalid" else OSError(failure.message)
    kind: Any = getattr(duckdb, failure.kind, None)
    if isinstance(kind, type) and issubclass(kind, duckdb.Error):
        return kind(failure.message)
    return duckdb.Error(failure.message)
