"""Compacts key-value topics by key: what no reader of the view can see leaves log and lake.

    1 a view whose saved state is far behind its log is folded by tasks first (``rebuild.py``)
    2 the store's writer tends the view: keys whose time is over are deleted, deleted keys that are
      older than the grace are forgotten, superseded versions and forgotten keys leave the log, and
      the lake's manifest is told (``views/kv/compaction.py`` has the rules, and why they are safe)
    3 files of the lake that have such rows are merged without them (``compact.py``)

So a record goes when ``history`` newer ones of its key are there, or its key was deleted longer ago
than ``grace_ms``. A delete marker goes no sooner than everything that it deleted, and only when the
saved state has seen it. What is left folds into the same view. Topics with other views beside keep
all their records, and so do topics without a key-value view: those are merged as ever.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import msgspec

from strandline.env.clock import SystemClock
from strandline.env.disk import OsDisk
from strandline.inbox.handover import Handover
from strandline.pipelines.compact import CompactSummary, compact
from strandline.pipelines.deliver import PATIENCE_S, lake_of
from strandline.pipelines.engine import Chooser, Engine
from strandline.pipelines.hand_over import hand_over
from strandline.pipelines.positions import open_readonly, path_of
from strandline.pipelines.rebuild import rebuild
from strandline.settings import LakeSettings
from strandline.store import Store
from strandline.topic import system
from strandline.topic.progress import Progress

BEHIND_MAX = 1_000_000
"""Records that the store's writer folds by itself before its view is tended."""


class _Topic(msgspec.Struct, frozen=True):
    name: str
    behind: int
    """Records that are not in the saved state of its view."""
    records: int


def compact_keyed(
    store: str | Store,
    topics: Sequence[str] = (),
    *,
    engine: Engine | Chooser | None = None,
    settings: LakeSettings | None = None,
    lake: str = "",
    views_url: str = "",
    behind_max: int = BEHIND_MAX,
    patience_s: float = PATIENCE_S,
    progress: Progress | None = None,
) -> CompactSummary:
    """Compact topics (names or patterns; all without any), key-value ones by their keys.

    ``lake`` and ``views_url`` are those of the store's settings. A view that is more than
    ``behind_max`` records behind is folded by the engine's tasks.
    """
    path, clock = path_of(store), SystemClock()
    begun_s = clock.monotonic()
    found = _chosen(path, topics, lake, views_url)
    for topic in found:
        if topic.behind > behind_max:
            rebuild(
                path,
                "kv",
                topic.name,
                replace=True,
                engine=engine,
                lake=lake,
                views_url=views_url,
                patience_s=patience_s,
                progress=progress,
            )
        attempt = OsDisk().random_id().hex()
        request = Handover(
            store_id=system.read(OsDisk(), path).hex(),
            kind="kv",
            name=topic.name,
            attempt=attempt,
            made_us=clock.now_us(),
        )
        hand_over(path, request, lake=lake, views_url=views_url, patience_s=patience_s, clock=clock)
    if lake or OsDisk().is_dir(lake_of(path)):
        place = lake_of(path, lake)
        summary = compact(place, topics, engine=engine, settings=settings, progress=progress)
    else:
        summary = CompactSummary(lake=lake_of(path))  # nothing has moved there yet
        summary.skipped = []
    left = {topic.name: topic.records for topic in _chosen(path, topics, lake, views_url)}
    summary.let_go = sum(max(0, each.records - left.get(each.name, 0)) for each in found)
    summary.seconds = clock.monotonic() - begun_s
    return summary


def _chosen(path: str, topics: Sequence[str], lake: str, views_url: str) -> list[_Topic]:
    """Key-value topics without other views."""
    found = []
    with open_readonly(path, lake, views_url) as store:
        for kind, name in store.views.names():
            topic = store.existing_topic(name)
            alone = not store.views.maker(kind, name).strangers(0)
            meant = not topics or any(fnmatch.fnmatchcase(name, each) for each in topics)
            if kind == "kv" and alone and meant:
                behind = topic.head_seq - store.views.saved_position(kind, name)
                found.append(_Topic(name, behind, topic.statistics().count))
    return found
