"""Compacts key-value topics by key: what no reader of the view can see leaves log and lake.

    1 a view whose saved state is far behind its log is folded by tasks first
    (``pipelines/view_rebuild/rebuild_view.py``)
    2 the store's writer tends the view: keys whose time is over are deleted, deleted keys that are
      older than the grace are forgotten, superseded versions and forgotten keys leave the log, and
      the lake's manifest is told (``views/kv/compaction.py`` has the rules, and why they are safe)
    3 files of the lake that have such rows are merged without them (``compact.py``); a topic
      that is not in the lake yet has none

Names and settings are checked before the first step, which cannot be undone.

So a record goes when ``history`` newer ones of its key are there, or its key was deleted longer ago
than ``grace_ms``. A delete marker goes no sooner than everything that it deleted, and only when the
saved state has seen it. What is left folds into the same view. Topics with other views beside keep
all their records, and so do topics without a key-value view: those are merged as ever.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from contextlib import closing

import msgspec

from strandline.config.settings import LakeSettings
from strandline.ingest.view_handoff_codec import Handover
from strandline.log.files import system_file
from strandline.log.progress import Progress
from strandline.pipelines.compaction.compact import CompactSummary, check_settings, compact
from strandline.pipelines.delivery_client import PATIENCE_S, lake_of
from strandline.pipelines.engine import Chooser, Engine
from strandline.pipelines.lake_selection import is_lake, is_pattern, open_lake
from strandline.pipelines.splits.snapshot_position import matching, open_readonly, path_of
from strandline.pipelines.view_handoff_client import hand_over
from strandline.pipelines.view_rebuild.rebuild_view import rebuild
from strandline.platform.clock import SystemClock
from strandline.platform.disk import OsDisk
from strandline.store import Store

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
    check_settings(settings or LakeSettings())
    merged = _check_names(path, topics, lake, views_url)
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
            store_id=system_file.read(OsDisk(), path).hex(),
            kind="kv",
            name=topic.name,
            attempt=attempt,
            made_us=clock.now_us(),
        )
        hand_over(path, request, lake=lake, views_url=views_url, patience_s=patience_s, clock=clock)
    if merged is None:
        summary = CompactSummary(lake=lake_of(path, lake))
        summary.skipped = []
    else:
        place = lake_of(path, lake)
        summary = compact(place, merged, engine=engine, settings=settings, progress=progress)
    left = {topic.name: topic.records for topic in _chosen(path, topics, lake, views_url)}
    summary.let_go = sum(max(0, each.records - left.get(each.name, 0)) for each in found)
    summary.seconds = clock.monotonic() - begun_s
    return summary


def _check_names(
    path: str, topics: Sequence[str], lake: str, views_url: str
) -> Sequence[str] | None:
    """Names and patterns of topics to merge in the lake; None when it has none of them.

    A name that neither the store nor its lake has is an error.
    """
    there: list[str] = []
    place = lake_of(path, lake)
    has_lake = is_lake(place)
    if has_lake:
        with closing(open_lake(place)) as opened:
            there = [each for each in topics if is_pattern(each) or opened.has(each)]
    with open_readonly(path, lake, views_url) as store:
        matching(store, [each for each in topics if each not in there])
    return there if has_lake and (there or not topics) else None


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
