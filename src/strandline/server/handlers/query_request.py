"""The query of a request: counted, with a deadline, stopped when its client disconnects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.requests import Request

from strandline.errors import Closed, StrandlineError
from strandline.server.http.audit import address_of
from strandline.server.http.request import RequestContext
from strandline.server.http.request_body import Disconnected
from strandline.server.limits.query_registry import RunningQuery


class _ClientDisconnected(StrandlineError):
    """Stops a query whose client has disconnected. It is never sent."""


@contextlib.asynccontextmanager
async def query_of(call: RequestContext) -> AsyncIterator[RunningQuery]:
    """A query for this request, stopped on disconnect until its response, or the first chunk of it,
    is computed. A query that still has rows to send then is ended by the sender
    (``server/http/arrow_streams.py``)."""
    query = call.parts.queries.start(call.who, address_of(call.connection))
    watch = asyncio.ensure_future(_stop_on_disconnect(call, query))
    try:
        yield query
    except _ClientDisconnected:
        query.end()
        raise Disconnected from None
    except StrandlineError:
        query.end()
        raise
    except BaseException:  # a thread may still run the query
        query.stop(Closed("the query has ended"))
        query.end()
        raise
    finally:
        watch.cancel()


async def _stop_on_disconnect(call: RequestContext, query: RunningQuery) -> None:
    assert isinstance(call.connection, Request), "queries come as requests"
    while (await call.connection.receive())["type"] != "http.disconnect":
        pass
    query.stop(_ClientDisconnected("the client has disconnected"))
