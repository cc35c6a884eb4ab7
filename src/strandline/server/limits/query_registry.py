"""Running queries: their number for each token, and their interruption.

A query is a SELECT, a command, or the rows of either while they are sent. It ends with 504 at its
deadline (``limits.query_s_max``), with 401 when its token is revoked or expires, with 503 when the
server shuts down, and without a response when its client has disconnected. Stopping is a request:
the thread that runs the query stops at its next step, and until then the query counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from strandline.api.errors import Refused
from strandline.errors import StrandlineError
from strandline.query.execute.interrupt import Interrupt
from strandline.security.principal import Principal
from strandline.server.limits.rate_limits import client_of, rate_error
from strandline.server.settings import RequestLimits

_REPEAT_S = 0.1
"""An interrupt is repeated until the query has ended: DuckDB may miss one."""


class RunningQuery:
    """A query from its request to the end of its response. Owned by the loop's thread."""

    def __init__(self, registry: QueryRegistry, who: Principal, key: str) -> None:
        self.who = who
        self.key = key
        self.interrupt = Interrupt()
        self._registry = registry
        self._callbacks: list[Callable[[], object]] = []
        self._stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(registry.seconds_max, self._expire)

    def stop(self, error: StrandlineError) -> None:
        """Interrupt it with this error; it counts until ``end``."""
        self._timer.cancel()
        self._stopped.set()
        self.interrupt.stop(error)
        self._timer = asyncio.get_running_loop().call_later(_REPEAT_S, self.stop, error)

    async def acquire(self, slots: asyncio.Semaphore) -> None:
        """Wait for a slot, which is released at the end; raises when the query is stopped."""
        waits = [asyncio.ensure_future(each) for each in (slots.acquire(), self._stopped.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if waits[0].done() and not waits[0].cancelled():
                self.at_end(slots.release)
            for each in waits:
                each.cancel()
        self.interrupt.check()

    def at_end(self, work: Callable[[], object]) -> None:
        """Call ``work`` when the query has ended; in reverse order of registration."""
        self._callbacks.append(work)

    def end(self) -> None:
        """End the query. Repeated calls do nothing."""
        self._timer.cancel()
        while self._callbacks:
            self._callbacks.pop()()
        self._registry.remove(self)

    def _expire(self) -> None:
        seconds = self._registry.seconds_max
        self.stop(
            Refused(
                504,
                "timeout",
                f"the query ran for {seconds:g} s, the limit: request less data",
                detail={"limit": "query_s_max", "max": seconds},
            )
        )


class QueryRegistry:
    """The running queries. Owned by the loop's thread."""

    def __init__(self, limits: RequestLimits) -> None:
        self.seconds_max = limits.query_s_max
        self._per_token_max = limits.queries_per_token_max
        self.processes = asyncio.Semaphore(limits.sql_processes_max)
        """One slot for each SQL process."""
        self._running: dict[str, set[RunningQuery]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._running.values()))

    def start(self, who: Principal, address: str) -> RunningQuery:
        """Start a query; 429 above the limit. The caller must call ``end`` of the result."""
        key = client_of(who, address)
        if len(self._running.get(key, ())) >= self._per_token_max:
            raise rate_error("queries_per_token_max", self._per_token_max)
        query = RunningQuery(self, who, key)
        self._running.setdefault(key, set()).add(query)
        return query

    def remove(self, query: RunningQuery) -> None:
        of_client = self._running.get(query.key, set())
        of_client.discard(query)
        if not of_client:
            self._running.pop(query.key, None)

    def stop_queries_of(self, principal: str) -> None:
        """Stop the queries of a principal that is no longer accepted."""
        error = Refused(401, "unauthorized", "the token was revoked or has expired")
        self._stop(error, principal)

    def stop_all(self) -> None:
        """Stop all queries: the server shuts down."""
        error = Refused(
            503, "shutting_down", "the server is shutting down: retry", retry_after_s=1.0
        )
        self._stop(error)

    def _stop(self, error: StrandlineError, principal: str | None = None) -> None:
        for queries in list(self._running.values()):
            for query in list(queries):
                if principal is None or query.who.id == principal:
                    query.stop(error)
