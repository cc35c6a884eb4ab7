"""Where topics are read: the folder of a store, a lake by itself, or a server.

    store=/folder                the store, read-only, beside its writer: lake files, and the rest
    store=s3://bucket/prefix     its lake alone, by manifest (``lake_source.py``): what has moved
                                 there
    url=http://host:4000         a server, over HTTP (``server_source.py``): what it has now

All three pin a position, which is the same kind of thing everywhere, and cut what is not in lake
files into parts that an executor reads on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from strandline.config.view_config import ViewConfigs
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.predicates import Condition
from strandline.pipelines.splits.snapshot_position import Position, open_readonly, pin
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.tasks import AnyPart
from strandline.store import Store
from strandline.views.view_runner import Host


class Place(Protocol):
    """Where topics are read. Owned by one thread."""

    def __enter__(self) -> Place: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def refresh(self) -> None:
        """Look again: what comes next is told as it is now."""
        ...

    def pin(self, topics: Sequence[str], *, strict: bool = True) -> Position:
        """The position of topics, by names and patterns; with ``strict`` names must exist."""
        ...

    def hot_parts(
        self,
        position: Position,
        snapshot: Snapshot,
        wanted: split_planner.Range,
        names: Sequence[str],
        conditions: Sequence[Condition] = (),
    ) -> list[AnyPart]:
        """The parts of a topic that are in no lake file."""
        ...

    def cursor_at(self, snapshot: Snapshot, ts: int) -> int:
        """The cursor behind which the records of a time and later are."""
        ...

    def views(self, topic: str) -> ViewConfigs | None:
        """The views that a topic has; None where nobody knows."""
        ...


class StorePlace:
    """The folder of a store. Owned by one thread."""

    def __init__(self, path: str, lake: str, reservoir: str = "") -> None:
        self.store: Store = open_readonly(path, lake, reservoir)
        self.reservoir = reservoir
        """Where its views are saved, when that is not in the folder."""
        self.lake = lake or f"{self.store.path}/lake"
        """Where its lake is."""
        self._lake = lake

    def __enter__(self) -> StorePlace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()

    def refresh(self) -> None:
        self.store.refresh()

    def pin(self, topics: Sequence[str], *, strict: bool = True) -> Position:
        return pin(self.store, topics, self._lake, strict=strict)

    def hot_parts(
        self,
        position: Position,
        snapshot: Snapshot,
        wanted: split_planner.Range,
        names: Sequence[str],
        conditions: Sequence[Condition] = (),
    ) -> list[AnyPart]:
        return list(
            split_planner.hot_parts(
                position, snapshot, wanted, store=self.store, names=names, conditions=conditions
            )
        )

    def cursor_at(self, snapshot: Snapshot, ts: int) -> int:
        return self.store.existing_topic(snapshot.name).cursor_at(ts)

    def views(self, topic: str) -> ViewConfigs | None:
        return self.store.existing_topic(topic).config.views

    def host(self, view: str, topic: str) -> Host[Any]:
        """A view of the store."""
        self.store.views.open(view, topic, {})
        return self.store.views.shelf.host(view, self.store.existing_topic(topic))


def open_place(options: ReadOptions) -> Place:
    """The place that the options of a read name."""
    made: Place
    if options.url:  # what speaks HTTP is loaded when somebody asks for it
        served = import_module("strandline.spark.read.server_source")
        made = served.ServedPlace(options.url, options.token)
    elif options.is_remote:
        made = import_module("strandline.spark.read.lake_source").LakePlace(
            options.store, options.reservoir
        )
    else:
        made = StorePlace(options.store, options.lake, options.reservoir)
    return made
