"""Compacts key-value topics by key: records that no reader of the view can see are removed.

    1 a view whose saved state lags far behind its log is first folded by tasks
      (``pipelines/view_rebuild/rebuild_view.py``)
    2 the store's writer maintains the view: expired keys are deleted, deleted keys that are older
      than the grace period are forgotten, superseded versions and forgotten keys leave the log, and
      the lake's manifest is updated (``views/kv/compaction.py`` has the rules, and why they are
      safe)
    3 files of the lake that have such rows are merged without them (``compact.py``); a topic that
      is not in the lake yet has none

Names and settings are checked before the first step, which cannot be undone.

So a record is removed when ``history`` newer ones of its key exist, or its key was deleted longer
ago than ``grace_ms``. A delete marker is removed no sooner than everything that it deleted, and
only when it is in the saved state. The remaining records fold into the same view. Topics that have
other views too keep all their records, and so do topics without a key-value view: their files are
only merged.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from contextlib import closing

import msgspec

from strandline.config.settings import LakeSettings
from strandline.ingest.view_handoff_codec import ViewHandoff
from strandline.log.files import system_file
from strandline.log.progress import Progress
from strandline.pipelines.compaction.compact import CompactSummary, check_settings, compact
from strandline.pipelines.delivery_client import WAIT_S_MAX, lake_of
from strandline.pipelines.engine import Chooser, Engine
from strandline.pipelines.lake_selection import is_lake, is_pattern, open_lake
from strandline.pipelines.splits.snapshot_position import matching, open_readonly, path_of
from strandline.pipelines.view_handoff_client import deliver_view_state
from strandline.pipelines.view_rebuild.rebuild_view import rebuild
from strandline.platform.clock import SystemClock
from strandline.platform.disk import OsDisk
from strandline.store import Store

BEHIND_MAX = 1_000_000
"""Up to this lag the store's writer folds the records itself before it maintains the view."""


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
    wait_s_max: float = WAIT_S_MAX,
    progress: Progress | None = None,
) -> CompactSummary:
    """Compact topics (names or patterns; by default all), key-value ones by key.

    ``lake`` and ``views_url`` are those of the store's settings. A view that is more than
    ``behind_max`` records behind is folded by the engine's tasks.
    """
    path, clock = path_of(store), SystemClock()
    started_s = clock.monotonic()
    check_settings(settings or LakeSettings())
    in_lake = _check_names(path, topics, lake, views_url)
    selected = _keyed_topics(path, topics, lake, views_url)
    for topic in selected:
        if topic.behind > behind_max:
            rebuild(
                path,
                "kv",
                topic.name,
                replace=True,
                engine=engine,
                lake=lake,
                views_url=views_url,
                wait_s_max=wait_s_max,
                progress=progress,
            )
        attempt = OsDisk().random_id().hex()
        request = ViewHandoff(
            store_id=system_file.read(OsDisk(), path).hex(),
            kind="kv",
            name=topic.name,
            attempt=attempt,
            made_us=clock.now_us(),
        )
        deliver_view_state(
            path, request, lake=lake, views_url=views_url, wait_s_max=wait_s_max, clock=clock
        )
    if in_lake is None:
        summary = CompactSummary(lake=lake_of(path, lake))
        summary.skipped = []
    else:
        location = lake_of(path, lake)
        summary = compact(location, in_lake, engine=engine, settings=settings, progress=progress)
    remaining = {
        topic.name: topic.records for topic in _keyed_topics(path, topics, lake, views_url)
    }
    summary.released_records = sum(
        max(0, topic.records - remaining.get(topic.name, 0)) for topic in selected
    )
    summary.seconds = clock.monotonic() - started_s
    return summary


def _check_names(
    path: str, topics: Sequence[str], lake: str, views_url: str
) -> Sequence[str] | None:
    """Names and patterns of topics to merge in the lake; None when it has none of them.

    A name that is in neither the store nor its lake is an error.
    """
    names: list[str] = []
    location = lake_of(path, lake)
    has_lake = is_lake(location)
    if has_lake:
        with closing(open_lake(location)) as opened:
            names = [each for each in topics if is_pattern(each) or opened.has(each)]
    with open_readonly(path, lake, views_url) as store:
        matching(store, [each for each in topics if each not in names])
    return names if has_lake and (names or not topics) else None


def _keyed_topics(path: str, topics: Sequence[str], lake: str, views_url: str) -> list[_Topic]:
    """Key-value topics without other views."""
    topics_found = []
    with open_readonly(path, lake, views_url) as store:
        for kind, name in store.views.names():
            topic = store.existing_topic(name)
            is_only_view = not store.views.spec(kind, name).foreign_marks(0)
            is_selected = not topics or any(fnmatch.fnmatchcase(name, each) for each in topics)
            if kind == "kv" and is_only_view and is_selected:
                behind = topic.head_seq - store.views.saved_position(kind, name)
                topics_found.append(_Topic(name, behind, topic.statistics().count))
    return topics_found
