"""Views that requests name: found, never made, and asked on a thread in one go.

A verb never makes a view: with a name that was mistyped it would leave one behind.
``server/routes/views.py`` has the route that does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from strandline.api.errors import Refused
from strandline.errors import NotFound
from strandline.server.http.request import Call
from strandline.store import Store

if TYPE_CHECKING:
    from strandline.views.kv.kv import Kv
    from strandline.views.metrics.metrics import Metrics
    from strandline.views.queue.queue import Queue
    from strandline.views.series.series import Series
    from strandline.views.table.table import Table

View = TypeVar("View")
Given = TypeVar("Given")


async def ask(
    call: Call, find: Callable[[Store, str], View], work: Callable[[View], Given]
) -> Given:
    """What work says that is done with the view of the path's topic; it takes moments."""
    parts = call.parts
    name = call.path["topic"]
    return await parts.bridge.run_view(name, _asked, parts.store, name, find, work)


async def ask_slowly(
    call: Call, find: Callable[[Store, str], View], work: Callable[[View], Given]
) -> Given:
    """The same of work that may take long."""
    parts = call.parts
    name = call.path["topic"]
    return await parts.bridge.slow_view(name, _asked, parts.store, name, find, work)


async def ask_metrics(call: Call, work: Callable[[Metrics], Given]) -> Given:
    """The same of an aggregate of metrics."""
    parts = call.parts
    name = call.path["topic"]
    return await parts.bridge.metrics_view(name, _asked, parts.store, name, find_metrics, work)


async def write(
    call: Call, find: Callable[[Store, str], View], work: Callable[[View], Given]
) -> Given:
    """The same of work that adds records: 429 when the server is full, or at its limit."""
    check_room(call)
    return await ask(call, find, work)


def check_room(call: Call) -> None:
    """429, when nothing more can be taken in."""
    call.parts.hub.governor.admit()
    call.parts.fullness.admit(len(call.raw))


async def find_view(call: Call, find: Callable[[Store, str], View]) -> View:
    """The view of the path's topic itself."""
    return await ask(call, find, lambda view: view)


def find_kv(store: Store, name: str) -> Kv:
    found: Kv = _find(store, "kv", name)
    return found


def find_queue(store: Store, name: str) -> Queue:
    found: Queue = _find(store, "queue", name)
    return found


def find_series(store: Store, name: str) -> Series:
    found: Series = _find(store, "series", name)
    return found


def find_metrics(store: Store, name: str) -> Metrics:
    found: Metrics = _find(store, "metrics", name)
    return found


def find_table(store: Store, name: str) -> Table:
    found: Table = _find(store, "table", name)
    return found


def _find(store: Store, kind: str, name: str) -> Any:
    topic = store.existing_topic(name)
    if getattr(topic.config.views, kind) is not None:
        return store.views.open(kind, name, {})
    told = f"topic {name!r} has no {kind} view: make it with PUT /v0/views/{name}/{kind}"
    if kind == "queue":
        raise Refused(409, "not_a_queue", told, detail={"kind": NotFound.code})
    raise NotFound(told)


def _asked(
    store: Store, name: str, find: Callable[[Store, str], View], work: Callable[[View], Given]
) -> Given:
    return work(find(store, name))
