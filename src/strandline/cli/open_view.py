"""Opens views for commands: to read them, and to change them.

A command that reads opens the store read-only. The process that writes the store continues to save
its views, and after a few saves deletes the pages that the reader started with. A reader that
misses a page opens the store again and repeats the query.

A query to a server runs once: the server handles its own files.

Writing into a view that does not exist creates it, with its topic. An existing topic gets a view
only with ``view create``, because it then keeps all records.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from strandline.cli import open_store
from strandline.cli.maintenance.saved_view_damage import damage_hint
from strandline.cli.options import ViewTarget
from strandline.config.view_config import KINDS, ViewConfigs
from strandline.errors import Closed, Corrupt, Forbidden, Invalid, NotFound, UnknownTopic
from strandline.store import Store

if TYPE_CHECKING:  # a view is imported when it is opened
    from strandline.views.kv.kv import Kv
    from strandline.views.metrics.metrics import Metrics
    from strandline.views.queue.queue import Queue
    from strandline.views.series.series import Series

Kind = Literal["kv", "queue", "series", "metrics", "table"]
View = TypeVar("View")
Result = TypeVar("Result")

_ATTEMPTS_MAX = 3
_PAGES_ARE_GONE = (FileNotFoundError, Closed, NotFound, Corrupt)


def open_to_read(target: ViewTarget) -> Store:
    """An existing store, read-only, or a server's."""
    return open_store.open_target_to_read(target)


def kv_of(store: Store, name: str) -> Kv:
    return store.kv(name)


def queue_of(store: Store, name: str) -> Queue:
    return store.queue(name)


def series_of(store: Store, name: str) -> Series:
    return store.series(name)


def metrics_of(store: Store, name: str) -> Metrics:
    return store.metrics(name)


def run_query(target: ViewTarget, query: Callable[[Store], Result]) -> Result:
    """Run a query over the views of a store; open it again when their pages are gone."""
    if target.is_remote:
        with open_to_read(target) as store:
            return query(store)
    for _ in range(_ATTEMPTS_MAX - 1):
        with contextlib.suppress(*_PAGES_ARE_GONE), open_to_read(target) as store:
            return query(store)
    with open_to_read(target) as store, damage_hint(target.store, target.views_url):
        return query(store)


class ReadOnlyView(Generic[View]):
    """A read-only view of a store that another process may write. Owned by one command."""

    def __init__(
        self,
        target: ViewTarget,
        kind: Kind,
        name: str,
        open_view: Callable[[Store, str], View],
    ) -> None:
        self._target = target
        self._kind: Kind = kind
        self._name = name
        self._open_view = open_view
        self.store = open_to_read(target)
        self._view: View | None = None

    def __enter__(self) -> ReadOnlyView[View]:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def run(self, query: Callable[[View], Result]) -> Result:
        """Run a query on the view; open the store again when its pages are gone."""
        if open_store.is_served(self.store):
            return query(self._opened_view())
        for _ in range(_ATTEMPTS_MAX - 1):
            try:
                return query(self._opened_view())
            except _PAGES_ARE_GONE:
                self.store.close()
                self._view = None
                self.store = open_to_read(self._target)
        with damage_hint(self._target.store, self._target.views_url):
            return query(self._opened_view())

    def refresh(self) -> None:
        """Read what the writer has changed since the last refresh."""
        open_store.refresh(self.store)

    def _opened_view(self) -> View:
        if self._view is None:
            check_view_exists(self.store, self._kind, self._name)
            self._view = self._open_view(self.store, self._name)
        return self._view


@contextlib.contextmanager
def open_to_write(target: ViewTarget, *, create: bool = False) -> Iterator[Store]:
    """A store, to change its views."""
    with open_store.open_target_to_write(target, create=create) as store:
        if open_store.is_served(store):
            yield store
            return
        with damage_hint(target.store, target.views_url):
            yield store


@contextlib.contextmanager
def open_existing_view(
    target: ViewTarget, kind: Kind, name: str, open_view: Callable[[Store, str], View]
) -> Iterator[View]:
    """An existing view, to change it."""
    with open_to_write(target) as store:
        check_view_exists(store, kind, name)
        yield open_view(store, name)


@contextlib.contextmanager
def open_or_create_view(
    target: ViewTarget, kind: Kind, name: str, open_view: Callable[[Store, str], View]
) -> Iterator[View]:
    """A view to write into: created, with topic and store, if it does not exist."""
    with open_to_write(target, create=True) as store:
        with contextlib.suppress(UnknownTopic):
            check_view_exists(store, kind, name)
        yield open_view(store, name)


def check_view_exists(store: Store, kind: Kind, name: str) -> None:
    """Reject a topic without the view; the error has the nearest name."""
    try:
        views = store.existing_topic(name).config.views
    except UnknownTopic as error:
        error.add_note(_nearest_name(store, kind, name))
        raise
    except Forbidden:
        return  # the server checks what this token may do
    reject_owned(name, views)
    if getattr(views, kind) is None:
        missing = Invalid(f"topic {name!r} has no {kind} view")
        others = ", ".join(other for other in KINDS if getattr(views, other) is not None)
        missing.add_note(
            f"it has {others}; `strandline view create {kind} {name}` adds a {kind} view"
            if others
            else f"`strandline view create {kind} {name}` creates one from its records"
        )
        raise missing


def reject_owned(name: str, views: ViewConfigs) -> None:
    """Reject a topic that holds the records of a view of another topic."""
    if views.owner:
        owned = Invalid(f"topic {name!r} belongs to a view of {views.owner!r}")
        owned.add_note(f"name {views.owner!r}; `strandline read {name}` shows its records")
        raise owned


def _nearest_name(store: Store, kind: Kind, name: str) -> str:
    names: list[str] = []
    with contextlib.suppress(Forbidden):
        names = [view_name for view_kind, view_name in store.views.names() if view_kind == kind]
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else "`strandline view ls` shows the views"
