"""Arrow over HTTP: bodies in, streams out, batch after batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import structlog
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from strandline.errors import Closed, Invalid
from strandline.server.http.request import Call
from strandline.server.limits.query_registry import RunningQuery

Slow = Callable[..., Awaitable[Any]]
"""Runs something on a thread for slow work."""

_log = structlog.get_logger("strandline.server")


def wants(call: Call, media_type: str) -> bool:
    """Whether the client asks for this kind of answer."""
    offers = (offer.partition(";")[0].strip().lower() for offer in call.accept.split(","))
    return media_type in offers


def table_of(body: bytes) -> pa.Table:
    """The rows of an Arrow body."""
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        _ = table.schema.names  # decoded when they are read: not every stream has UTF-8 there
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Invalid(f"the body is no Arrow IPC stream: {error}") from error
    return table


def ipc_of(table: pa.Table) -> bytes:
    """Rows as an Arrow IPC stream, whole."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def ipc_chunks(
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    trailer: Callable[[], dict[bytes, bytes]] = dict,
) -> Generator[bytes]:
    """The same, piece by piece. What ``trailer`` has at the end goes with an empty batch."""
    sink = _Sink()
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), schema) as writer:
        yield sink.taken()
        for batch in batches:
            writer.write_batch(batch)
            yield sink.taken()
        last = trailer()
        if last:
            nothing = pa.record_batch([pa.nulls(0, kind) for kind in schema.types], schema=schema)
            writer.write_batch(nothing, custom_metadata=last)
    yield sink.taken()


async def streamed(
    call: Call, chunks: Generator[bytes], media_type: str, query: RunningQuery | None = None
) -> Response:
    """An answer that is made while it is sent. What fails before the first piece is an error. A
    query is ended with the answer."""
    bridge, topic = call.parts.bridge, call.path.get("topic")
    if query is not None:
        slow: Slow = partial(bridge.query, query.interrupt)
    else:
        slow = bridge.slow if topic is None else partial(bridge.slow_view, topic)
    try:
        first = await slow(_next, chunks)
    except BaseException:
        await slow(chunks.close)
        raise
    return Streamed(slow, chunks, first, media_type, query)


class Streamed(StreamingResponse):
    """Pieces, each made on a thread when the one before is sent. Owned by the loop's thread.

    When the client goes, the piece that is being made is waited for, and what it is made of closed.
    What fails on the way cannot be told any more: the stream ends without its end, so that nobody
    takes it for the whole.
    """

    def __init__(
        self,
        slow: Slow,
        chunks: Generator[bytes],
        first: bytes | None,
        media_type: str,
        query: RunningQuery | None,
    ) -> None:
        super().__init__(self._pieces(first), media_type=media_type)
        self._slow = slow
        self._chunks = chunks
        self._query = query
        self._is_complete = first is None
        self._making: asyncio.Future[bytes | None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the answer has begun
            _log.error("an answer broke off", path=scope["path"], exc_info=error)
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Make no more of it."""
        if self._query is not None and not self._is_complete:
            self._query.stop(Closed("the answer has ended"))
        if self._making is not None:
            await asyncio.wait((self._making,))
        try:
            await self._slow(self._chunks.close)
        finally:
            if self._query is not None:
                self._query.end()

    async def _pieces(self, piece: bytes | None) -> AsyncGenerator[bytes]:
        while piece is not None:
            if piece:
                yield piece
            self._making = asyncio.ensure_future(self._slow(_next, self._chunks))
            piece = await asyncio.shield(self._making)
        self._is_complete = True


def _next(chunks: Iterator[bytes]) -> bytes | None:
    return next(chunks, None)


class _Sink:
    """Takes what a writer writes, until somebody fetches it. Owned by one thread."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
