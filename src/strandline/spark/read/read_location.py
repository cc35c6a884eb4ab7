"""Locations of topics: the folder of a store, a lake without its store, or a server.

    store=/folder                the store, read-only, while it may be written: all records
    store=s3://bucket/prefix     its lake only, by manifest (``spark/read/lake_source.py``): the
                                 records that moved there
    url=http://host:4000         a server, over HTTP (``spark/read/server_source.py``): all records

All three pin a position, of the same type, and split records that are not in lake files into parts
that an executor reads on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from strandline.config.view_config import ViewConfigs
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.predicates import Condition
from strandline.pipelines.splits.snapshot_position import (
    StorePosition,
    open_readonly,
    take_position,
)
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.tasks import AnyPart
from strandline.store import Store
from strandline.views.view_runner import ViewRunner


class ReadLocation(Protocol):
    """A location of topics. Owned by one thread."""

    def __enter__(self) -> ReadLocation: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def refresh(self) -> None:
        """Refresh: later calls return the current state."""
        ...

    def pin(self, topics: Sequence[str], *, strict: bool = True) -> StorePosition:
        """The position of topics, by names and patterns; with ``strict``, names must exist."""
        ...

    def hot_parts(
        self,
        position: StorePosition,
        snapshot: TopicSnapshot,
        span: split_planner.SeqRange,
        names: Sequence[str],
        conditions: Sequence[Condition] = (),
    ) -> list[AnyPart]:
        """The records of a topic that are not in a lake file, as parts."""
        ...

    def cursor_at(self, snapshot: TopicSnapshot, ts: int) -> int:
        """The cursor before the first record of this time or later."""
        ...

    def views(self, topic: str) -> ViewConfigs | None:
        """The views of a topic; None if they are not known."""
        ...


class StoreReadLocation:
    """The folder of a store. Owned by one thread."""

    def __init__(self, path: str, lake: str, reservoir: str = "") -> None:
        self.store: Store = open_readonly(path, lake, reservoir)
        self.reservoir = reservoir
        """Location of its saved views, if they are not in the folder."""
        self.lake = lake or f"{self.store.path}/lake"
        """Location of its lake."""
        self._lake = lake

    def __enter__(self) -> StoreReadLocation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()

    def refresh(self) -> None:
        self.store.refresh()

    def pin(self, topics: Sequence[str], *, strict: bool = True) -> StorePosition:
        return take_position(self.store, topics, self._lake, strict=strict)

    def hot_parts(
        self,
        position: StorePosition,
        snapshot: TopicSnapshot,
        span: split_planner.SeqRange,
        names: Sequence[str],
        conditions: Sequence[Condition] = (),
    ) -> list[AnyPart]:
        return list(
            split_planner.hot_parts(
                position, snapshot, span, store=self.store, names=names, conditions=conditions
            )
        )

    def cursor_at(self, snapshot: TopicSnapshot, ts: int) -> int:
        return self.store.existing_topic(snapshot.name).cursor_at(ts)

    def views(self, topic: str) -> ViewConfigs | None:
        return self.store.existing_topic(topic).config.views

    def host(self, view: str, topic: str) -> ViewRunner[Any]:
        """A view of the store."""
        self.store.views.open(view, topic, {})
        return self.store.views.registry.host(view, self.store.existing_topic(topic))


def open_location(options: ReadOptions) -> ReadLocation:
    """The location that the options of a read name."""
    location: ReadLocation
    if options.url:  # the HTTP client is imported only when needed
        server_source = import_module("strandline.spark.read.server_source")
        location = server_source.ServerReadLocation(options.url, options.token)
    elif options.is_remote:
        location = import_module("strandline.spark.read.lake_source").LakeReadLocation(
            options.store, options.reservoir
        )
    else:
        location = StoreReadLocation(options.store, options.lake, options.reservoir)
    return location
