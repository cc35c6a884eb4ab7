"""A lake by itself: topics as their newest manifests have them, without the store's folder.

Nothing but the object store is asked. Records that have not moved to the lake yet are not there;
a stream gets them when they have. Nor is the state of views, but for whoever names the reservoir
that it is saved in (``saved_view_source.py``). What the manifest says is below the floor is gone,
and nobody
here knows whether somebody asked for that: a stream that had not read it is told of a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from pyroaring import BitMap64

from strandline.config.view_config import ViewConfigs
from strandline.errors import Corrupt, Invalid, UnknownTopic
from strandline.lake.cold_index import Cold
from strandline.lake.files.record_columns import TABLE_ID_FIRST
from strandline.lake.manifest.manifest import Manifest
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.lake_selection import OpenLake
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.predicates import Condition
from strandline.pipelines.splits.snapshot_position import Position
from strandline.pipelines.splits.split_reader import lake_file
from strandline.platform.objectstore.cloud import open_objects
from strandline.spark.read import saved_view_source
from strandline.spark.read.tasks import AnyPart
from strandline.views.saved_view_reader import SavedViews
from strandline.views.view_runner import Host

_FLOOR = "floor"


class LakePlace:
    """A lake in an object store. Owned by one thread."""

    def __init__(self, url: str, reservoir: str = "") -> None:
        self.url = url.rstrip("/")
        self.reservoir = reservoir
        """Where views are saved; empty when nobody has said so."""
        self.lake = OpenLake(open_objects(self.url), ours=True)
        self._saved: SavedViews | None = None
        self._hosts: dict[tuple[str, str], Host[Any]] = {}

    def __enter__(self) -> LakePlace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.refresh()
        self.lake.close()

    def refresh(self) -> None:
        """Manifests are read whenever a position is pinned; views are opened again."""
        self._hosts.clear()
        if self._saved is not None:
            self._saved.close()
            self._saved = None

    def pin(self, topics: Sequence[str], *, strict: bool = True) -> Position:
        found: dict[str, Manifest] = {}
        for topic in topics:
            try:
                chosen = self.lake.manifests([topic])
            except UnknownTopic:
                if strict:
                    raise
                continue
            for name, reason in chosen.damaged.values():
                raise Corrupt(f"topic {name!r} cannot be read ({reason})", path=self.url)
            for manifest in chosen.manifests:
                if manifest.topic_id < TABLE_ID_FIRST:
                    found[manifest.name] = manifest  # of several lives the last
        return Position(
            store="",
            store_id=self.lake.store_id.hex(),
            lake=self.url,
            topics=tuple(snapshot_of(found[name]) for name in sorted(found)),
        )

    def hot_parts(
        self,
        position: Position,
        snapshot: Snapshot,
        wanted: split_planner.Range,
        names: Sequence[str],
        conditions: Sequence[Condition] = (),
    ) -> list[AnyPart]:
        return []

    def cursor_at(self, snapshot: Snapshot, ts: int) -> int:
        cold = snapshot.cold_files()
        if cold is None:
            return snapshot.head_seq
        place = cold.reaching(ts, snapshot.floor)
        if place == len(cold):
            return snapshot.head_seq
        wanted = split_planner.Range(cold.firsts[place], cold.lasts[place])
        parts, _ = split_planner.file_parts(self._position(snapshot), snapshot, wanted, ())
        file = lake_file(msgspec.structs.replace(parts[0], deleted=b""))
        for number, zone in enumerate(file.zones):
            if zone.rows and zone.ts_max >= ts:
                rows = file.rows(number, ["seq", "ts"])
                stamps = rows["ts"].cast("int64").to_numpy()
                at = int(np.searchsorted(stamps, ts))
                return max(snapshot.floor, int(rows["seq"][at].as_py())) - 1
        return cold.lasts[place]

    def views(self, topic: str) -> ViewConfigs | None:
        return None

    def host(self, view: str, topic: str) -> Host[Any]:
        """A view as it was saved; ``Invalid`` when nobody has said where."""
        if not self.reservoir:
            raise Invalid(
                f"a lake by itself does not have the state of a {view} view: name the place where "
                "views are saved (reservoir), the folder of the store or a server (url), or read "
                "view=kv_history, or view=log"
            )
        host = self._hosts.get((view, topic))
        if host is None:
            position = self.pin([topic], strict=False)  # before the views are opened
            if self._saved is None:
                self._saved = SavedViews(self.reservoir, self.lake.store_id.hex())
            moved = position if position.topics else None
            host = self._hosts[view, topic] = saved_view_source.host_of(
                self._saved, view, topic, moved
            )
        return host

    def _position(self, snapshot: Snapshot) -> Position:
        return Position(
            store="", store_id=self.lake.store_id.hex(), lake=self.url, topics=(snapshot,)
        )


def snapshot_of(manifest: Manifest) -> Snapshot:
    """What a manifest says there is of a topic."""
    hidden = manifest.deleted or BitMap64()
    files = [file for file in manifest.files if file.last_seq >= manifest.floor]
    return Snapshot(
        topic_id=manifest.topic_id,
        name=manifest.name,
        epoch=manifest.epoch,
        created_us=manifest.epoch,
        head_seq=manifest.last_seq,
        floor=manifest.floor,
        evict_floor=manifest.floor,
        evict_reason=_FLOOR,
        last_ts=files[-1].ts_max if files else 0,
        deleted=hidden.serialize() if hidden else b"",
        cold=Cold.of_files(manifest.number, files, {}, released=0).encode(),
    )
