"""A lake without its store: topics as in their newest manifests, read from the object store only.

Records that have not moved to the lake yet are missing; a stream gets them after they moved. The
state of views is available only if the reservoir that it is saved in is named
(``spark/read/saved_view_source.py``). Records below the floor of the manifest are gone, and the
reason is not stored in the lake: a stream that had not read them reports a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from pyroaring import BitMap64

from strandline.config.view_config import ViewConfigs
from strandline.errors import Corrupt, Invalid, UnknownTopic
from strandline.lake.cold_index import ColdIndex
from strandline.lake.files.record_columns import TABLE_ID_FIRST
from strandline.lake.manifest.manifest import Manifest
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.lake_selection import OpenLake
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.predicates import Condition
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.pipelines.splits.split_reader import lake_file
from strandline.platform.objectstore.cloud import open_objects
from strandline.spark.read import saved_view_source
from strandline.spark.read.tasks import AnyPart
from strandline.views.saved_view_reader import SavedViews
from strandline.views.view_runner import ViewRunner

_FLOOR = "floor"


class LakeReadLocation:
    """A lake in an object store. Owned by one thread."""

    def __init__(self, url: str, reservoir: str = "") -> None:
        self.url = url.rstrip("/")
        self.reservoir = reservoir
        """Location of saved views; empty if it is not known."""
        self.lake = OpenLake(open_objects(self.url), owned=True)
        self._saved: SavedViews | None = None
        self._runners: dict[tuple[str, str], ViewRunner[Any]] = {}

    def __enter__(self) -> LakeReadLocation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.refresh()
        self.lake.close()

    def refresh(self) -> None:
        """Open views again. Manifests are read at every pin."""
        self._runners.clear()
        if self._saved is not None:
            self._saved.close()
            self._saved = None

    def pin(self, topics: Sequence[str], *, strict: bool = True) -> StorePosition:
        manifests: dict[str, Manifest] = {}
        for topic in topics:
            try:
                selection = self.lake.manifests([topic])
            except UnknownTopic:
                if strict:
                    raise
                continue
            for name, reason in selection.damaged.values():
                raise Corrupt(f"topic {name!r} cannot be read ({reason})", path=self.url)
            for manifest in selection.manifests:
                if manifest.topic_id < TABLE_ID_FIRST:
                    manifests[manifest.name] = manifest  # of the last topic of this name
        return StorePosition(
            store="",
            store_id=self.lake.store_id.hex(),
            lake=self.url,
            topics=tuple(snapshot_of(manifests[name]) for name in sorted(manifests)),
        )

    def hot_parts(
        self,
        position: StorePosition,
        snapshot: TopicSnapshot,
        span: split_planner.SeqRange,
        names: Sequence[str],
        conditions: Sequence[Condition] = (),
    ) -> list[AnyPart]:
        return []

    def cursor_at(self, snapshot: TopicSnapshot, ts: int) -> int:
        cold = snapshot.cold_files()
        if cold is None:
            return snapshot.head_seq
        index = cold.first_reaching(ts, snapshot.floor)
        if index == len(cold):
            return snapshot.head_seq
        span = split_planner.SeqRange(cold.firsts[index], cold.lasts[index])
        parts, _ = split_planner.file_parts(self._position(snapshot), snapshot, span, ())
        file = lake_file(msgspec.structs.replace(parts[0], deleted=b""))
        for number, zone in enumerate(file.zones):
            if zone.rows and zone.ts_max >= ts:
                rows = file.rows(number, ["seq", "ts"])
                stamps = rows["ts"].cast("int64").to_numpy()
                row = int(np.searchsorted(stamps, ts))
                return max(snapshot.floor, int(rows["seq"][row].as_py())) - 1
        return cold.lasts[index]

    def views(self, topic: str) -> ViewConfigs | None:
        return None

    def host(self, view: str, topic: str) -> ViewRunner[Any]:
        """A saved view; ``Invalid`` without a reservoir."""
        if not self.reservoir:
            raise Invalid(
                f"a lake by itself does not have the state of a {view} view: name the location of "
                "saved views (reservoir), the folder of the store or a server (url), or read "
                "view=kv_history or view=log"
            )
        host = self._runners.get((view, topic))
        if host is None:
            position = self.pin([topic], strict=False)  # before the views are opened
            if self._saved is None:
                self._saved = SavedViews(self.reservoir, self.lake.store_id.hex())
            moved = position if position.topics else None
            host = self._runners[view, topic] = saved_view_source.host_of(
                self._saved, view, topic, moved
            )
        return host

    def _position(self, snapshot: TopicSnapshot) -> StorePosition:
        return StorePosition(
            store="", store_id=self.lake.store_id.hex(), lake=self.url, topics=(snapshot,)
        )


def snapshot_of(manifest: Manifest) -> TopicSnapshot:
    """The snapshot of a topic in a manifest."""
    hidden = manifest.deleted or BitMap64()
    files = [file for file in manifest.files if file.last_seq >= manifest.floor]
    return TopicSnapshot(
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
        cold=ColdIndex.of_files(manifest.number, files, {}, released=0).encode(),
    )
