"""A query of a request: it counts, has a deadline, and ends when its client goes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.requests import Request

from strandline.errors import Closed, StrandlineError
from strandline.server.http.audit import address_of
from strandline.server.http.request import Call
from strandline.server.http.request_body import Gone
from strandline.server.limits.query_registry import RunningQuery


class ClientGone(StrandlineError):
    """What ends a query whose client has gone. It is never sent."""


@contextlib.asynccontextmanager
async def query_of(call: Call) -> AsyncIterator[RunningQuery]:
    """A query for this request, watched until its answer, or the first piece of it, is there. A
    query that is left with rows to send is ended by what sends them
    (``server/http/arrow_streams.py``)."""
    query = call.parts.queries.begin(call.who, address_of(call.connection))
    watch = asyncio.ensure_future(_stop_when_gone(call, query))
    try:
        yield query
    except ClientGone:
        query.end()
        raise Gone from None
    except StrandlineError:
        query.end()
        raise
    except BaseException:  # what runs may not know of it
        query.stop(Closed("the query has ended"))
        query.end()
        raise
    finally:
        watch.cancel()


async def _stop_when_gone(call: Call, query: RunningQuery) -> None:
    assert isinstance(call.connection, Request), "queries come as requests"
    while (await call.connection.receive())["type"] != "http.disconnect":
        pass
    query.stop(ClientGone("the client has gone"))
