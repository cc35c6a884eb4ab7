"""Opens views for commands: those that look, and those that change something.

Who looks opens the store read-only. The process that writes it goes on meanwhile: it saves its
views, and after a few times deletes the pages that we began with. Whoever finds them gone opens the
store again, and asks again.

A server's store is asked once: its files are the server's matter.

Who puts something into a view that does not exist makes it, with its topic. But a topic that is
there gets a view only when ``view create`` says so: from then on it keeps all records.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from strandline.cli import open_store
from strandline.cli.maintenance.saved_view_damage import damage_told
from strandline.cli.options import ViewTarget
from strandline.config.view_config import KINDS, ViewConfigs
from strandline.errors import Closed, Corrupt, Forbidden, Invalid, NotFound, UnknownTopic
from strandline.store import Store

if TYPE_CHECKING:  # views are loaded when one is asked for
    from strandline.views.kv.kv import Kv
    from strandline.views.metrics.metrics import Metrics
    from strandline.views.queue.queue import Queue
    from strandline.views.series.series import Series

Kind = Literal["kv", "queue", "series", "metrics", "table"]
View = TypeVar("View")
Result = TypeVar("Result")

_LOOKS_MAX = 3
_PAGES_ARE_GONE = (FileNotFoundError, Closed, NotFound, Corrupt)


def open_to_read(target: ViewTarget) -> Store:
    """An existing store, read-only, or a server's."""
    return open_store.reading(target)


def kv_of(store: Store, name: str) -> Kv:
    return store.kv(name)


def queue_of(store: Store, name: str) -> Queue:
    return store.queue(name)


def series_of(store: Store, name: str) -> Series:
    return store.series(name)


def metrics_of(store: Store, name: str) -> Metrics:
    return store.metrics(name)


def look(target: ViewTarget, question: Callable[[Store], Result]) -> Result:
    """Ask a store something about its views; once more when their pages are gone."""
    if target.is_remote:
        with open_to_read(target) as store:
            return question(store)
    for _ in range(_LOOKS_MAX - 1):
        with contextlib.suppress(*_PAGES_ARE_GONE), open_to_read(target) as store:
            return question(store)
    with open_to_read(target) as store, damage_told(target.store, target.views_url):
        return question(store)


class Looking(Generic[View]):
    """A view of a store that somebody else may be writing. Owned by one command."""

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

    def __enter__(self) -> Looking[View]:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def ask(self, question: Callable[[View], Result]) -> Result:
        """Ask the view something; with a newer opening when its pages are gone."""
        if open_store.is_served(self.store):
            return question(self._found())
        for _ in range(_LOOKS_MAX - 1):
            try:
                return question(self._found())
            except _PAGES_ARE_GONE:
                self.store.close()
                self._view = None
                self.store = open_to_read(self._target)
        with damage_told(self._target.store, self._target.views_url):
            return question(self._found())

    def refresh(self) -> None:
        """See what the writer has done since."""
        open_store.refresh(self.store)

    def _found(self) -> View:
        if self._view is None:
            must_have(self.store, self._kind, self._name)
            self._view = self._open_view(self.store, self._name)
        return self._view


@contextlib.contextmanager
def writing(target: ViewTarget, *, create: bool = False) -> Iterator[Store]:
    """A store whose views are to be changed."""
    with open_store.writing(target, create=create) as store:
        if open_store.is_served(store):
            yield store
            return
        with damage_told(target.store, target.views_url):
            yield store


@contextlib.contextmanager
def changing(
    target: ViewTarget, kind: Kind, name: str, open_view: Callable[[Store, str], View]
) -> Iterator[View]:
    """A view that is there, to change something."""
    with writing(target) as store:
        must_have(store, kind, name)
        yield open_view(store, name)


@contextlib.contextmanager
def putting(
    target: ViewTarget, kind: Kind, name: str, open_view: Callable[[Store, str], View]
) -> Iterator[View]:
    """A view to put something into: made, with topic and store, when there is none."""
    with writing(target, create=True) as store:
        with contextlib.suppress(UnknownTopic):
            must_have(store, kind, name)
        yield open_view(store, name)


def must_have(store: Store, kind: Kind, name: str) -> None:
    """Refuse a topic without the view, or say which name was meant."""
    try:
        views = store.existing_topic(name).config.views
    except UnknownTopic as error:
        error.add_note(_name_meant(store, kind, name))
        raise
    except Forbidden:
        return  # the server says itself what this token may do
    refuse_owned(name, views)
    if getattr(views, kind) is None:
        missing = Invalid(f"topic {name!r} has no {kind} view")
        others = ", ".join(found for found in KINDS if getattr(views, found) is not None)
        missing.add_note(
            f"it has {others}; `strandline view create {kind} {name}` gives it a {kind} view, too"
            if others
            else f"`strandline view create {kind} {name}` gives it one, of the records it has"
        )
        raise missing


def refuse_owned(name: str, views: ViewConfigs) -> None:
    """Refuse a topic in which the view of another keeps its records."""
    if views.owner:
        owned = Invalid(f"topic {name!r} belongs to a view of {views.owner!r}")
        owned.add_note(f"name {views.owner!r}; `strandline read {name}` shows its records")
        raise owned


def _name_meant(store: Store, kind: Kind, name: str) -> str:
    names: list[str] = []
    with contextlib.suppress(Forbidden):
        names = [found for found_kind, found in store.views.names() if found_kind == kind]
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else "`strandline view ls` shows the views"
