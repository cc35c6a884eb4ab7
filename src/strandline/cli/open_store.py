"""Opens stores for commands: for writing, read-only, or through the client of a server.

Only commands that append to a topic or create one create a store. Commands that read open it
read-only, without the lock, while another process may write. That process may checkpoint during a
read and remove a file that the reader is about to open, so a reader that misses a file tries again.

A command for a server gets the store of the client, which has the same methods and types: it is
typed as a store, and only ``is_served`` tells them apart. The server then retries, not the command.

A command does not know the settings that other processes use for the store. Only ``lake relocate``
therefore moves records into the lake.
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
from strandline.cli.target import ResolvedTarget
from strandline.client.address import address_of
from strandline.client.connect import connect
from strandline.client.settings import ClientSettings
from strandline.config.settings import LakeSettings, Settings, ViewSettings
from strandline.errors import Closed, Invalid, NotAStore, StrandlineError, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.store import Store

_OWN_NAMES = {"SYSTEM", "wal", "meta", "segments"}
_MOVE_NOTHING = 1 << 31
_ATTEMPTS_MAX = 5
_PAUSE_S = 0.05
_CLIENT = ClientSettings(retry_s_max=3.0)  # a person at a terminal waits for the error

Result = TypeVar("Result")


def open_to_read(path: str, lake_url: str = "", views_url: str = "") -> Store:
    """An existing store, read-only."""
    settings = _settings(lake_url, views_url, _MOVE_NOTHING)
    with Bar() as bar:
        return retry_missing_file(
            lambda: Store(path, readonly=True, settings=settings, progress=bar.show)
        )


def open_to_write(
    path: str,
    *,
    create: bool,
    lake_url: str = "",
    views_url: str = "",
    hot_segments: int = _MOVE_NOTHING,
) -> Store:
    """A store for writing; with ``create`` it is created if it does not exist."""
    if not create:
        check_store_exists(path)
    with Bar() as bar:
        settings = _settings(lake_url, views_url, hot_segments)
        return Store(path, settings=settings, progress=bar.show)


def _settings(lake_url: str, views_url: str, hot_segments: int) -> Settings:
    return Settings(
        lake=LakeSettings(url=lake_url, hot_segments=hot_segments),
        views=ViewSettings(url=views_url),
    )


def open_target_to_read(target: Target) -> Store:
    """The store of a command that only reads: local, or of a server."""
    place = target.resolved
    if place.url:
        return _connected(place)
    return open_to_read(place.store, target.lake_url, target.views_location)


def open_target_to_write(target: Target, *, create: bool) -> Store:
    """The store of a command that writes. ``create`` does not apply to a server."""
    place = target.resolved
    if place.url:
        return _connected(place)
    views_url = target.views_location
    return open_to_write(place.store, create=create, lake_url=target.lake_url, views_url=views_url)


def is_served(store: object) -> bool:
    """Whether a store is the client of a server."""
    return not isinstance(store, Store)


def _connected(place: ResolvedTarget) -> Store:
    try:
        address_of(place.url)
    except Invalid as error:
        error.add_note(f"{place.origin} names a server; --lake-url names a lake")
        raise
    return cast("Store", connect(place.url, token=place.token(), settings=_CLIENT))


def check_store_exists(path: str) -> None:
    """Reject a directory without a store before anything is written into it."""
    names = os.listdir(path) if os.path.isdir(path) else []
    if not _OWN_NAMES.intersection(names):
        raise NotAStore(f"{path} is not a store")


def find_topic(store: Store, name: str) -> Topic:
    """An existing topic, or an error with the nearest name."""
    try:
        return store.existing_topic(name)
    except UnknownTopic as error:
        near: list[str] = []
        with contextlib.suppress(StrandlineError):  # no hint without the right to list topics
            near = difflib.get_close_matches(name, store.topics(), n=1)
        if near:
            error.add_note(f"did you mean {near[0]!r}?")
        raise


def refresh(store: Store) -> None:
    """Read what the writer has changed since the last refresh."""
    if is_served(store):
        return
    retry_missing_file(store.refresh)


def read_with_refresh(store: Store, read: Callable[[], Result]) -> Result:
    """Run a read; refresh and repeat it when a checkpoint of the writer removed its files."""
    try:
        return read()
    except (FileNotFoundError, Closed):
        refresh(store)
        return retry_missing_file(read)


def retry_missing_file(operation: Callable[[], Result]) -> Result:
    """Run an operation, and repeat it a few times while it misses a file."""
    for _ in range(_ATTEMPTS_MAX):
        try:
            return operation()
        except FileNotFoundError:
            time.sleep(_PAUSE_S)
    return operation()
