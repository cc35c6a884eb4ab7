"""Opens stores for commands: which may make one, which only look, and how to look at a live one.

Only commands that put something into a topic, or create one, make a store. Commands that read open
it read-only, without the lock, beside a process that writes. That process may checkpoint in the
middle of our reading and remove a file that we were about to open; so a reader that finds a file
gone looks again.

A command that is sent to a server gets the client's store, which has the same verbs and types: so
it is typed as a store, and only ``is_served`` can tell. Looking again is then the server's matter.

A command does not know how its store is set up elsewhere. So none moves records into the lake but
the one that is asked to.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import time
from collections.abc import Callable
from typing import TypeVar, cast

from strandline.cli.options import Target
from strandline.cli.output.progress import Bar
from strandline.cli.target import Place
from strandline.client.address import address_of
from strandline.client.connect import connect
from strandline.client.settings import ClientSettings
from strandline.config.settings import LakeSettings, Settings, ViewSettings
from strandline.errors import Closed, Invalid, NotAStore, StrandlineError, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.store import Store

_OWN_NAMES = {"SYSTEM", "wal", "meta", "segments"}
_MOVE_NOTHING = 1 << 31
_LOOKS_MAX = 5
_PAUSE_S = 0.05
_CLIENT = ClientSettings(retry_s_max=3.0)  # who types a command wants to know soon

Result = TypeVar("Result")


def open_to_read(path: str, lake_url: str = "", views_url: str = "") -> Store:
    """An existing store, read-only."""
    settings = _settings(lake_url, views_url, _MOVE_NOTHING)
    with Bar() as bar:
        return look_again(lambda: Store(path, readonly=True, settings=settings, progress=bar.show))


def open_to_write(
    path: str,
    *,
    create: bool,
    lake_url: str = "",
    views_url: str = "",
    hot_segments: int = _MOVE_NOTHING,
) -> Store:
    """A store for writing; one that does not exist is made only when the command may."""
    if not create:
        must_exist(path)
    with Bar() as bar:
        settings = _settings(lake_url, views_url, hot_segments)
        return Store(path, settings=settings, progress=bar.show)


def _settings(lake_url: str, views_url: str, hot_segments: int) -> Settings:
    return Settings(
        lake=LakeSettings(url=lake_url, hot_segments=hot_segments),
        views=ViewSettings(url=views_url),
    )


def reading(target: Target) -> Store:
    """The store that a command only looks at: here, or a server's."""
    place = target.place
    if place.url:
        return _connected(place)
    return open_to_read(place.store, target.lake_url, target.views_place)


def writing(target: Target, *, create: bool) -> Store:
    """The store that a command changes. A server has its store already."""
    place = target.place
    if place.url:
        return _connected(place)
    views_url = target.views_place
    return open_to_write(place.store, create=create, lake_url=target.lake_url, views_url=views_url)


def is_served(store: object) -> bool:
    """Whether a store is the client's."""
    return not isinstance(store, Store)


def _connected(place: Place) -> Store:
    try:
        address_of(place.url)
    except Invalid as error:
        error.add_note(f"{place.said_by} names a server; a lake is named with --lake-url")
        raise
    return cast("Store", connect(place.url, token=place.token(), settings=_CLIENT))


def must_exist(path: str) -> None:
    """Refuse a directory that holds no store, before anything is put into it."""
    names = os.listdir(path) if os.path.isdir(path) else []
    if not _OWN_NAMES.intersection(names):
        raise NotAStore(f"{path} is not a store")


def find_topic(store: Store, name: str) -> Topic:
    """An existing topic, or an error that knows which name was meant."""
    try:
        return store.existing_topic(name)
    except UnknownTopic as error:
        near: list[str] = []
        with contextlib.suppress(StrandlineError):  # who may not list them gets no hint
            near = difflib.get_close_matches(name, store.topics(), n=1)
        if near:
            error.add_note(f"did you mean {near[0]!r}?")
        raise


def refresh(store: Store) -> None:
    """See what the writer has done since."""
    if is_served(store):
        return
    look_again(store.refresh)


def read_again(store: Store, read: Callable[[], Result]) -> Result:
    """Do a read that a checkpoint of the writer may have pulled the files from under."""
    try:
        return read()
    except (FileNotFoundError, Closed):
        refresh(store)
        return look_again(read)


def look_again(look: Callable[[], Result]) -> Result:
    """Repeat something that found a file gone, a few times."""
    for _ in range(_LOOKS_MAX):
        try:
            return look()
        except FileNotFoundError:
            time.sleep(_PAUSE_S)
    return look()
