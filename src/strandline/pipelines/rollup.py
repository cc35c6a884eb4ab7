"""Applies the rules of metrics and series: downsampling by tasks, retention by the store's writer.

    1 open the store read-only, and find the windows of each rule that are over and not made
    2 tasks make them, some hundred at a time, with the view's own code; records are staged
    3 the store's writer appends them in order, each with how far the rule is then, unless a point
      of the window has come meanwhile or somebody else has made it
      (views/metrics/external_rollups.py)
    4 the writer tends the view: what is left to make, windows that late points have made stale,
      floors of measurements and series; records that nobody needs leave the log

Rules that make windows of what other rules make come after them. How far a rule is stands in the
log beside its points, in one record: killed anywhere, a run leaves nothing half done, and the next
one goes on from there. A window is made once, whoever makes it.
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
from strandline.ingest.delivery_codec import Staged
from strandline.ingest.view_handoff_codec import Handover, Rolled, Windows, staged_key
from strandline.log.files import system_file
from strandline.log.progress import Progress as Show
from strandline.pipelines.delivery_client import PATIENCE_S, lake_of
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.lake_selection import LakePlace, objects_at
from strandline.pipelines.splits.snapshot_position import open_readonly, path_of
from strandline.pipelines.view_handoff_client import hand_over
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store
from strandline.views.metrics import rule_runner
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.ingest.record_codec import draft_points
from strandline.views.metrics.rules import Downsample, Progress
from strandline.views.view_runner import Host

_RECORDS = pa.schema([staged_files.COLUMNS.field("meta"), staged_files.COLUMNS.field("data")])


class RollTask(msgspec.Struct, frozen=True, kw_only=True):
    """Windows of a rule, next to each other."""

    name: str
    into: str
    version: int
    after: int | None
    first: int
    until: int


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What a task has made; nothing when the rule is another one by now."""

    position: int = 0
    files: tuple[Staged, ...] = ()
    points: int = 0


class RolledRule(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one rule."""

    view: str
    source: str
    into: str
    steps: int
    """Stretches of windows that tasks have made."""
    points: int
    """In them."""


class RollupSummary(msgspec.Struct, kw_only=True):
    """What a rollup did."""

    store: str
    engine: str = ""
    views: int = 0
    """Views of series and measurements whose rules were applied."""
    rules: list[RolledRule] = []
    """Rules that had windows to make."""
    records_before: int = 0
    records_after: int = 0
    """Records in the topics of these views: what was made comes in, what is too old goes."""
    seconds: float = 0.0


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where everything is, as tasks take it along."""

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
    patience_s: float = PATIENCE_S,
    progress: Show | None = None,
) -> RollupSummary:
    """Apply the rules of views of series and measurements (names or patterns; all without any).

    ``lake`` and ``views_url`` are those of the store's settings. ``engine`` runs the tasks that
    make windows: ``Embedded()`` unless told otherwise, or a function that chooses one by the bytes
    of the log.
    """
    return _Rollup(path_of(store), lake, views_url, patience_s, progress).run(
        views, engine or Embedded()
    )


class _Rollup:
    """One run. Owned by one thread; the tasks run elsewhere."""

    def __init__(
        self, store: str, lake: str, views_url: str, patience_s: float, progress: Show | None
    ) -> None:
        self._store = store
        self._lake = lake
        self._views_url = views_url
        self._patience_s = patience_s
        self._progress = progress
        self._clock: Clock = SystemClock()
        self._summary = RollupSummary(store=store)
        self._summary.rules = []

    def run(self, views: Sequence[str], engine: Engine | Chooser) -> RollupSummary:
        begun_s = self._clock.monotonic()
        summary = self._summary
        found, size = self._views(views)
        chosen = engine(size) if callable(engine) else engine
        summary.engine, summary.views = chosen.name, len(found)
        summary.records_before = self._records(found)
        for kind, name in found:
            if kind == "metrics":
                for rule in self._rules(name):
                    self._roll(chosen, name, rule)
            self._hand_over(kind, name, None, ())
        summary.records_after = self._records(found)
        summary.seconds = self._clock.monotonic() - begun_s
        return summary

    def _opened(self) -> Store:
        return open_readonly(self._store, self._lake, self._views_url)

    def _views(self, wanted: Sequence[str]) -> tuple[list[tuple[str, str]], int]:
        """Kinds and names of the views that are meant, and the bytes of their records."""
        with self._opened() as store:
            found = [
                (kind, name)
                for kind, name in store.views.names()
                if kind in ("series", "metrics")
                and (not wanted or any(fnmatch.fnmatchcase(name, each) for each in wanted))
            ]
            for each in wanted:
                if not any(fnmatch.fnmatchcase(name, each) for _, name in found):
                    raise NotFound(f"no topic {each!r} has a view of series or measurements")
            topics = [store.existing_topic(name) for _, name in found]
            return found, sum(topic.statistics().payload_bytes for topic in topics)

    def _records(self, views: Sequence[tuple[str, str]]) -> int:
        with self._opened() as store:
            return sum(store.existing_topic(name).statistics().count for _, name in views)

    def _rules(self, name: str) -> list[Downsample]:
        """Rules of a view, each behind those that make its source."""
        with self._opened() as store, _host(store, name).reading() as fold:
            rules = [rule for rule in fold.standings.rules() if isinstance(rule, Downsample)]
        ordered: list[Downsample] = []
        while rules:
            made = {rule.into for rule in rules}
            ready = [rule for rule in rules if rule.source not in made]
            ordered += ready
            rules = [rule for rule in rules if rule not in ready]
            assert ready, "no rule makes what it is made of"
        return ordered

    def _roll(self, engine: Engine, name: str, rule: Downsample) -> None:
        """Make the windows of a rule that are due."""
        place = _Place(
            store=self._store,
            lake=self._lake,
            views_url=self._views_url,
            attempt=OsDisk().random_id().hex(),
        )
        with self._opened() as store, objects_at(self._at(), None) as lake:
            tasks = list(_due(_host(store, name), name, rule, self._clock.now_us() * 1000))
            if not tasks:
                return
            here = (store, lake) if engine.in_process else None
            results: dict[int, Made] = {}
            try:
                for number, made in engine.run(partial(make, place, here=here), tasks):
                    results[number] = made
                    if self._progress is not None:
                        self._progress(f"rollup {rule.into}", len(results), len(tasks))
                windows, files = _in_order(tasks, results)
                rolled = Rolled(
                    source=rule.source, into=rule.into, version=tasks[0].version, windows=windows
                )
            except BaseException:
                with contextlib.suppress(OSError):
                    lake.delete([file.key for each in results.values() for file in each.files])
                raise
        self._summary.rules.append(
            RolledRule(
                view=name,
                source=rule.source,
                into=rule.into,
                steps=len(tasks),
                points=sum(each.points for each in results.values()),
            )
        )
        self._hand_over("metrics", name, rolled, files)

    def _at(self) -> LakePlace:
        return LakePlace(url=lake_of(self._store, self._lake))

    def _hand_over(
        self, kind: str, name: str, rolled: Rolled | None, files: Sequence[Staged]
    ) -> None:
        made = Handover(
            store_id=system_file.read(OsDisk(), self._store).hex(),
            kind=kind,
            name=name,
            attempt=OsDisk().random_id().hex(),
            made_us=self._clock.now_us(),
            rolled=rolled,
            files=tuple(files),
        )
        hand_over(
            self._store,
            made,
            lake=self._lake,
            views_url=self._views_url,
            patience_s=self._patience_s,
            clock=self._clock,
        )


def make(place: _Place, task: RollTask, *, here: tuple[Store, Objects] | None = None) -> Made:
    """The work of a task: the points of its windows, as records."""
    if here is not None:
        return _make(place, task, *here)
    at = LakePlace(url=lake_of(place.store, place.lake))
    opened = open_readonly(place.store, place.lake, place.views_url)
    with opened as store, objects_at(at, None) as lake:
        return _make(place, task, store, lake)


def _make(place: _Place, task: RollTask, store: Store, lake: Objects) -> Made:
    host = _host(store, task.name)
    with host.reading() as fold:
        standing = fold.standings.find("downsample", task.into)
        if standing is None or standing.seq != task.version:
            return Made()
        rule = standing.rule
        assert isinstance(rule, Downsample), "it makes something"
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
    name = f"{place.attempt}-{OsDisk().random_id().hex()}"
    files = staged_files.stage(lake, lambda part: staged_key(name, part), [batch])
    return Made(position=position, files=files, points=sum(table.points for table in tables))


def _due(host: Host[MetricsFold], name: str, rule: Downsample, now_ns: int) -> Iterator[RollTask]:
    """The windows of a rule that are over and not made, in order."""
    complete = rule_runner.complete_at(rule, now_ns)
    with host.reading() as fold:
        standing = fold.standings.find("downsample", rule.into)
        source = fold.catalogue.find(rule.source)
        if standing is None or standing.rule != rule or source is None:
            return
        after = standing.until
        while (due := rule_runner.next_due(fold, rule, source, after, complete)) is not None:
            yield RollTask(
                name=name,
                into=rule.into,
                version=standing.seq,
                after=after,
                first=due[0],
                until=due[1],
            )
            after = due[1]


def _in_order(
    tasks: Sequence[RollTask], results: dict[int, Made]
) -> tuple[tuple[Windows, ...], list[Staged]]:
    windows: list[Windows] = []
    files: list[Staged] = []
    for number, task in enumerate(tasks):
        made = results[number]
        files += made.files
        windows.append(
            Windows(
                after=task.after,
                first=task.first,
                until=task.until,
                position=made.position,
                files=len(made.files),
            )
        )
    return tuple(windows), files


def _host(store: Store, name: str) -> Host[MetricsFold]:
    store.views.open("metrics", name, {})
    return store.views.shelf.host("metrics", store.existing_topic(name))
