"""Arrow over HTTP: decodes bodies, streams responses batch by batch."""

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
from strandline.server.http.request import RequestContext
from strandline.server.limits.query_registry import RunningQuery

Slow = Callable[..., Awaitable[Any]]
"""Runs work on a thread of a slow pool."""

_log = structlog.get_logger("strandline.server")


def accepts(call: RequestContext, media_type: str) -> bool:
    """Whether the client accepts this media type by name."""
    offers = (offer.partition(";")[0].strip().lower() for offer in call.accept.split(","))
    return media_type in offers


def table_of(body: bytes) -> pa.Table:
    """The rows of an Arrow body."""
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        _ = table.schema.names  # names are decoded when read, and may not be UTF-8
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Invalid(f"the body is not an Arrow IPC stream: {error}") from error
    return table


def ipc_of(table: pa.Table) -> bytes:
    """Rows as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def ipc_chunks(
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    trailer: Callable[[], dict[bytes, bytes]] = dict,
) -> Generator[bytes]:
    """As ``ipc_of``, in chunks. The metadata that ``trailer`` returns goes with an empty batch."""
    sink = _Sink()
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), schema) as writer:
        yield sink.drain()
        for batch in batches:
            writer.write_batch(batch)
            yield sink.drain()
        metadata = trailer()
        if metadata:
            empty = pa.record_batch([pa.nulls(0, kind) for kind in schema.types], schema=schema)
            writer.write_batch(empty, custom_metadata=metadata)
    yield sink.drain()


async def chunked_response(
    call: RequestContext,
    chunks: Generator[bytes],
    media_type: str,
    query: RunningQuery | None = None,
) -> Response:
    """A response that is computed while it is sent. A failure before the first chunk is an error
    response. The query ends with the response."""
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
    return ChunkedResponse(slow, chunks, first, media_type, query)


class ChunkedResponse(StreamingResponse):
    """Chunks, each computed on a thread when the one before is sent. Owned by the loop's thread.

    When the client disconnects, the chunk in progress is waited for, then the source is closed. A
    later failure cannot be reported by status: the stream is cut without its end marker, so that
    the client detects that it is incomplete.
    """

    def __init__(
        self,
        slow: Slow,
        chunks: Generator[bytes],
        first: bytes | None,
        media_type: str,
        query: RunningQuery | None,
    ) -> None:
        super().__init__(self._body_chunks(first), media_type=media_type)
        self._slow = slow
        self._chunks = chunks
        self._query = query
        self._is_complete = first is None
        self._next_chunk: asyncio.Future[bytes | None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the response has started
            _log.error("a streamed response was cut", path=scope["path"], exc_info=error)
        finally:
            await self.cancel()

    async def cancel(self) -> None:
        """Stop the computation and close its source."""
        if self._query is not None and not self._is_complete:
            self._query.stop(Closed("the response has ended"))
        if self._next_chunk is not None:
            await asyncio.wait((self._next_chunk,))
        try:
            await self._slow(self._chunks.close)
        finally:
            if self._query is not None:
                self._query.end()

    async def _body_chunks(self, chunk: bytes | None) -> AsyncGenerator[bytes]:
        while chunk is not None:
            if chunk:
                yield chunk
            self._next_chunk = asyncio.ensure_future(self._slow(_next, self._chunks))
            chunk = await asyncio.shield(self._next_chunk)
        self._is_complete = True


def _next(chunks: Iterator[bytes]) -> bytes | None:
    return next(chunks, None)


class _Sink:
    """A file that buffers written bytes until ``drain``. Owned by one thread."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def drain(self) -> bytes:
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
