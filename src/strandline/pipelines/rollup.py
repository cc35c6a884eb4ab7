"""Applies the rules of metrics and series: downsampling by tasks, retention by the store's writer.

    1 open the store read-only, and find the windows of each rule that have ended and are not
      computed yet
    2 tasks compute them, some hundred at a time, with the view's own code; records are staged
    3 the store's writer appends them in order, each with the progress of the rule, unless a point
      of the window has arrived in the meantime or another process has computed it
      (views/metrics/external_rollups.py)
    4 the writer maintains the view: remaining windows, windows that late points have made stale,
      floors of measurements and series; records that are no longer needed leave the log

Rules that use the points of other rules run after them. The progress of a rule is in the log with
its points, in one record: killed at any point, a run leaves no partial result, and the next one
continues from there. A window is computed once, by whichever process.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec
import pyarrow as pa

from strandline.errors import NotFound
from strandline.ingest import staged_files
from strandline.ingest.delivery_codec import StagedFile
from strandline.ingest.view_handoff_codec import (
    RolledWindows,
    RollupHandoff,
    ViewHandoff,
    staged_key,
)
from strandline.log.files import system_file
from strandline.log.progress import Progress as Show
from strandline.pipelines.delivery_client import WAIT_S_MAX, lake_of
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.lake_selection import LakeLocation, objects_at
from strandline.pipelines.splits.snapshot_position import open_readonly, path_of
from strandline.pipelines.view_handoff_client import deliver_view_state
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store
from strandline.views.metrics import rule_runner
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.ingest.record_codec import draft_points
from strandline.views.metrics.rules import DownsamplingRule, Progress
from strandline.views.view_runner import ViewRunner

_RECORDS = pa.schema([staged_files.COLUMNS.field("meta"), staged_files.COLUMNS.field("data")])


class RollTask(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive windows of a rule."""

    name: str
    into: str
    version: int
    after: int | None
    first: int
    until: int


class _RollResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task; empty when the rule has changed."""

    position: int = 0
    files: tuple[StagedFile, ...] = ()
    points: int = 0


class RolledRule(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one rule."""

    view: str
    source: str
    into: str
    steps: int
    """Tasks that computed windows."""
    points: int
    """Points in these windows."""


class RollupSummary(msgspec.Struct, kw_only=True):
    """The result of a rollup."""

    store: str
    engine: str = ""
    views: int = 0
    """Views of series and measurements whose rules were applied."""
    rules: list[RolledRule] = []
    """Rules that had windows to compute."""
    records_before: int = 0
    records_after: int = 0
    """Records in the topics of these views: computed points are added, old records removed."""
    seconds: float = 0.0


class _Locations(msgspec.Struct, frozen=True, kw_only=True):
    """Locations that tasks need."""

    store: str
    lake: str
    views_url: str
    attempt: str


def rollup(
    store: str | Store,
    views: Sequence[str] = (),
    *,
    engine: Engine | Chooser | None = None,
    lake: str = "",
    views_url: str = "",
    wait_s_max: float = WAIT_S_MAX,
    progress: Show | None = None,
) -> RollupSummary:
    """Apply the rules of series and metrics views (names or patterns; by default all).

    ``lake`` and ``views_url`` are those of the store's settings. ``engine`` runs the tasks that
    compute windows: by default ``Embedded()``, or a function that chooses one by the bytes of the
    log.
    """
    return _Rollup(path_of(store), lake, views_url, wait_s_max, progress).run(
        views, engine or Embedded()
    )


class _Rollup:
    """One run. Owned by one thread; the tasks run elsewhere."""

    def __init__(
        self, store: str, lake: str, views_url: str, wait_s_max: float, progress: Show | None
    ) -> None:
        self._store = store
        self._lake = lake
        self._views_url = views_url
        self._wait_s_max = wait_s_max
        self._progress = progress
        self._clock: Clock = SystemClock()
        self._summary = RollupSummary(store=store)
        self._summary.rules = []

    def run(self, views: Sequence[str], engine: Engine | Chooser) -> RollupSummary:
        started_s = self._clock.monotonic()
        summary = self._summary
        selected, size = self._views(views)
        chosen = engine(size) if callable(engine) else engine
        summary.engine, summary.views = chosen.name, len(selected)
        summary.records_before = self._records(selected)
        for kind, name in selected:
            if kind == "metrics":
                for rule in self._rules(name):
                    self._run_rule(chosen, name, rule)
            self._hand_over(kind, name, None, ())
        summary.records_after = self._records(selected)
        summary.seconds = self._clock.monotonic() - started_s
        return summary

    def _open_store(self) -> Store:
        return open_readonly(self._store, self._lake, self._views_url)

    def _views(self, patterns: Sequence[str]) -> tuple[list[tuple[str, str]], int]:
        """Kinds and names of the selected views, and the bytes of their records."""
        with self._open_store() as store:
            selected = [
                (kind, name)
                for kind, name in store.views.names()
                if kind in ("series", "metrics")
                and (
                    not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
                )
            ]
            for pattern in patterns:
                if not any(fnmatch.fnmatchcase(name, pattern) for _, name in selected):
                    raise NotFound(f"no topic {pattern!r} has a series or metrics view")
            topics = [store.existing_topic(name) for _, name in selected]
            return selected, sum(topic.statistics().payload_bytes for topic in topics)

    def _records(self, views: Sequence[tuple[str, str]]) -> int:
        with self._open_store() as store:
            return sum(store.existing_topic(name).statistics().count for _, name in views)

    def _rules(self, name: str) -> list[DownsamplingRule]:
        """Rules of a view, each after those that compute its source."""
        with self._open_store() as store, _host(store, name).reading() as fold:
            rules = [rule for rule in fold.standings.rules() if isinstance(rule, DownsamplingRule)]
        ordered: list[DownsamplingRule] = []
        while rules:
            computed = {rule.into for rule in rules}
            ready = [rule for rule in rules if rule.source not in computed]
            ordered += ready
            rules = [rule for rule in rules if rule not in ready]
            assert ready, "rules form no cycle"
        return ordered

    def _run_rule(self, engine: Engine, name: str, rule: DownsamplingRule) -> None:
        """Compute the due windows of a rule."""
        locations = _Locations(
            store=self._store,
            lake=self._lake,
            views_url=self._views_url,
            attempt=OsDisk().random_id().hex(),
        )
        with self._open_store() as store, objects_at(self._lake_location(), None) as lake:
            tasks = list(_due(_host(store, name), name, rule, self._clock.now_us() * 1000))
            if not tasks:
                return
            in_process = (store, lake) if engine.in_process else None
            results: dict[int, _RollResult] = {}
            try:
                for number, result in engine.run(
                    partial(run_roll_task, locations, in_process=in_process), tasks
                ):
                    results[number] = result
                    if self._progress is not None:
                        self._progress(f"rollup {rule.into}", len(results), len(tasks))
                windows, files = _in_order(tasks, results)
                handoff = RollupHandoff(
                    source=rule.source, into=rule.into, version=tasks[0].version, windows=windows
                )
            except BaseException:
                with contextlib.suppress(OSError):
                    lake.delete(
                        [file.key for result_of in results.values() for file in result_of.files]
                    )
                raise
        self._summary.rules.append(
            RolledRule(
                view=name,
                source=rule.source,
                into=rule.into,
                steps=len(tasks),
                points=sum(result_of.points for result_of in results.values()),
            )
        )
        self._hand_over("metrics", name, handoff, files)

    def _lake_location(self) -> LakeLocation:
        return LakeLocation(url=lake_of(self._store, self._lake))

    def _hand_over(
        self, kind: str, name: str, rollup: RollupHandoff | None, files: Sequence[StagedFile]
    ) -> None:
        handoff = ViewHandoff(
            store_id=system_file.read(OsDisk(), self._store).hex(),
            kind=kind,
            name=name,
            attempt=OsDisk().random_id().hex(),
            made_us=self._clock.now_us(),
            rolled=rollup,
            files=tuple(files),
        )
        deliver_view_state(
            self._store,
            handoff,
            lake=self._lake,
            views_url=self._views_url,
            wait_s_max=self._wait_s_max,
            clock=self._clock,
        )


def run_roll_task(
    locations: _Locations, task: RollTask, *, in_process: tuple[Store, Objects] | None = None
) -> _RollResult:
    """Run a task: stage the points of its windows as records."""
    if in_process is not None:
        return _stage_windows(locations, task, *in_process)
    location = LakeLocation(url=lake_of(locations.store, locations.lake))
    opened = open_readonly(locations.store, locations.lake, locations.views_url)
    with opened as store, objects_at(location, None) as lake:
        return _stage_windows(locations, task, store, lake)


def _stage_windows(
    locations: _Locations, task: RollTask, store: Store, lake: Objects
) -> _RollResult:
    host = _host(store, task.name)
    with host.reading() as fold:
        current = fold.standings.find("downsample", task.into)
        if current is None or current.seq != task.version:
            return _RollResult()
        rule = current.rule
        assert isinstance(rule, DownsamplingRule), "only a downsample rule has windows"
        source = fold.catalogue.find(rule.source)
        tables = (
            []
            if source is None
            else list(rule_runner.tables_of(fold, rule, source, task.first, task.until))
        )
        position = host.applied[0]
    progress = Progress(task.into, task.version, task.until)
    draft = draft_points(tables, progress)
    batch = pa.record_batch(
        [pa.array(draft.metas, pa.binary()), pa.array(draft.data, pa.binary())], schema=_RECORDS
    )
    name = f"{locations.attempt}-{OsDisk().random_id().hex()}"
    files = staged_files.stage(lake, lambda part: staged_key(name, part), [batch])
    return _RollResult(position=position, files=files, points=sum(table.points for table in tables))


def _due(
    host: ViewRunner[MetricsFold], name: str, rule: DownsamplingRule, now_ns: int
) -> Iterator[RollTask]:
    """The windows of a rule that have ended and are not computed, in order."""
    complete = rule_runner.complete_at(rule, now_ns)
    with host.reading() as fold:
        progress = fold.standings.find("downsample", rule.into)
        source = fold.catalogue.find(rule.source)
        if progress is None or progress.rule != rule or source is None:
            return
        after = progress.until
        while (due := rule_runner.next_range_due(fold, rule, source, after, complete)) is not None:
            yield RollTask(
                name=name,
                into=rule.into,
                version=progress.seq,
                after=after,
                first=due[0],
                until=due[1],
            )
            after = due[1]


def _in_order(
    tasks: Sequence[RollTask], results: dict[int, _RollResult]
) -> tuple[tuple[RolledWindows, ...], list[StagedFile]]:
    windows: list[RolledWindows] = []
    files: list[StagedFile] = []
    for number, task in enumerate(tasks):
        result = results[number]
        files += result.files
        windows.append(
            RolledWindows(
                after=task.after,
                first=task.first,
                until=task.until,
                position=result.position,
                files=len(result.files),
            )
        )
    return tuple(windows), files


def _host(store: Store, name: str) -> ViewRunner[MetricsFold]:
    store.views.open("metrics", name, {})
    return store.views.registry.host("metrics", store.existing_topic(name))
