"""Runs work on the view that a request names: lookup and work are one task on a thread.

A lookup never creates a view: a mistyped name would leave one. Views are created by a route of
``server/routes/views.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from strandline.api.errors import Refused
from strandline.errors import NotFound
from strandline.server.http.request import RequestContext
from strandline.store import Store

if TYPE_CHECKING:
    from strandline.views.kv.kv import Kv
    from strandline.views.metrics.metrics import Metrics
    from strandline.views.queue.queue import Queue
    from strandline.views.series.series import Series
    from strandline.views.table.table import Table

View = TypeVar("View")
Result = TypeVar("Result")


async def run_on_view(
    call: RequestContext, find: Callable[[Store, str], View], work: Callable[[View], Result]
) -> Result:
    """Run ``work`` on the view of the path's topic; for short operations."""
    parts = call.parts
    name = call.path["topic"]
    return await parts.bridge.run_view(name, _run, parts.store, name, find, work)


async def run_slow_on_view(
    call: RequestContext, find: Callable[[Store, str], View], work: Callable[[View], Result]
) -> Result:
    """As ``ask``, for work that may take long."""
    parts = call.parts
    name = call.path["topic"]
    return await parts.bridge.slow_view(name, _run, parts.store, name, find, work)


async def run_on_metrics(call: RequestContext, work: Callable[[Metrics], Result]) -> Result:
    """As ``ask``, for aggregates of metrics."""
    parts = call.parts
    name = call.path["topic"]
    return await parts.bridge.metrics_view(name, _run, parts.store, name, find_metrics, work)


async def write_to_view(
    call: RequestContext, find: Callable[[Store, str], View], work: Callable[[View], Result]
) -> Result:
    """As ``ask``, for work that adds records: 429 when the store is full or overloaded."""
    check_capacity(call)
    return await run_on_view(call, find, work)


def check_capacity(call: RequestContext) -> None:
    """Raise 429 when no more records are admitted."""
    call.parts.hub.load_shedder.admit()
    call.parts.storage_quota.admit(len(call.raw))


async def find_view(call: RequestContext, find: Callable[[Store, str], View]) -> View:
    """The view of the path's topic."""
    return await run_on_view(call, find, lambda view: view)


def find_kv(store: Store, name: str) -> Kv:
    view: Kv = _find(store, "kv", name)
    return view


def find_queue(store: Store, name: str) -> Queue:
    view: Queue = _find(store, "queue", name)
    return view


def find_series(store: Store, name: str) -> Series:
    view: Series = _find(store, "series", name)
    return view


def find_metrics(store: Store, name: str) -> Metrics:
    view: Metrics = _find(store, "metrics", name)
    return view


def find_table(store: Store, name: str) -> Table:
    view: Table = _find(store, "table", name)
    return view


def _find(store: Store, kind: str, name: str) -> Any:
    topic = store.existing_topic(name)
    if getattr(topic.config.views, kind) is not None:
        return store.views.open(kind, name, {})
    message = f"topic {name!r} has no {kind} view: create it with PUT /v0/views/{name}/{kind}"
    if kind == "queue":
        raise Refused(409, "not_a_queue", message, detail={"kind": NotFound.code})
    raise NotFound(message)


def _run(
    store: Store, name: str, find: Callable[[Store, str], View], work: Callable[[View], Result]
) -> Result:
    return work(find(store, name))
