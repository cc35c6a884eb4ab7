"""Compares an event table with a rebuild from its log. Writes only checkpoints of its tasks.

    1 pin a position: the log, and the rows of the table, files by their names
    2 tasks find the records that change the table as a whole: versions and deletes
    3 tasks fold a range of seqs each, and compare it with the table's rows
      (pipelines/view_rebuild/table_verify_task.py)

Rows that are deleted during the run leave the log, and the table seems to have too many. So when
there is a difference, and records have left since, the run is repeated at a new position.
"""

from __future__ import annotations

from functools import partial

from strandline.errors import Conflict
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.delivery_client import lake_of
from strandline.pipelines.engine import Chooser, Engine
from strandline.pipelines.lake_selection import LakeLocation, objects_at
from strandline.pipelines.splits.snapshot_position import open_readonly, take_position
from strandline.pipelines.splits.split_reader import ThreadStores
from strandline.pipelines.transfer.export_plan import row_bytes_of
from strandline.pipelines.view_rebuild import table_verify_task
from strandline.pipelines.view_rebuild.shuffle_task import RebuildContext
from strandline.pipelines.view_rebuild.summary import Difference, RebuildSummary
from strandline.pipelines.view_rebuild.table_verify_task import (
    ChangeRecord,
    RangeComparison,
    TableChanges,
)
from strandline.pipelines.view_rebuild.task_checkpoint import TaskCheckpoint
from strandline.platform.clock import Clock
from strandline.platform.disk import OsDisk
from strandline.store import Store

TABLE = "table"
_TRIES = 3


class TableRebuild:
    """One run. Owned by one thread; the tasks run elsewhere."""

    def __init__(
        self,
        store: str,
        name: str,
        lake: str,
        views_url: str,
        clock: Clock,
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._lake = lake
        self._views_url = views_url
        self._clock = clock
        self._progress = progress
        self._place = LakeLocation(url=lake_of(store, lake))
        self._summary = RebuildSummary(store=store, kind=TABLE, name=name)

    def run(self, engine: Engine | Chooser, *, rows_max: int) -> RebuildSummary:
        started_s = self._clock.monotonic()
        summary = self._summary
        for attempt in range(_TRIES):
            summary.again = attempt
            with open_readonly(self._store, self._lake, self._views_url) as opened:
                topic = opened.views.spec(TABLE, summary.name).topics[0]
                if callable(engine):
                    engine = engine(topic.statistics().count * row_bytes_of(topic))
                summary.engine = engine.name
                snapshot = self._attempt(opened, engine, rows_max)
            if summary.same or not self._has_left(snapshot):
                summary.seconds = self._clock.monotonic() - started_s
                return summary
        raise Conflict(
            f"rows of {summary.name!r} were deleted during every attempt: compare it when fewer are"
        )

    def _attempt(self, opened: Store, engine: Engine, rows_max: int) -> TopicSnapshot:
        summary = self._summary
        view = opened.views.spec(TABLE, summary.name)
        opened.views.open(TABLE, summary.name, {})
        host = opened.views.registry.host(TABLE, view.topics[0])
        live = table_verify_task.live_of(host)
        position = take_position(opened, [summary.name], self._lake)
        (snapshot,) = position.topics
        work = RebuildContext(
            place=self._place,
            attempt="",
            kind=TABLE,
            views=view.topics[0].config.views,
            strangers=(view.foreign_marks(0),),
        )
        with objects_at(self._place, None) as lake, ThreadStores() as stores:
            threads = stores if engine.in_process else None
            objects = lake if engine.in_process else None
            folder = Layout(self._store).rebuilds
            checkpoint = TaskCheckpoint(
                lake, OsDisk(), self._clock, folder, f"{TABLE}-{snapshot.topic_id}"
            )
            try:
                find = partial(table_verify_task.find_changes, work, threads=threads)
                parts = table_verify_task.changes_tasks(position, snapshot)
                changes: list[ChangeRecord] = []
                done, total = 0, sum(task.rows for task in parts)
                for index, result in checkpoint.run(engine, find, work, parts, TableChanges):
                    changes += result.found
                    done += parts[index].rows
                    self._show("read", done, total)
                changes.sort(key=lambda change: change.seq)
                tasks = table_verify_task.range_tasks(position, snapshot, live, changes, rows_max)
                compare = partial(
                    table_verify_task.compare_range, work, objects=objects, threads=threads
                )
                ranges: dict[int, RangeComparison] = {}
                for index, compared in checkpoint.run(
                    engine, compare, work, tasks, RangeComparison
                ):
                    ranges[index] = compared
                    self._show("compare", len(ranges), len(tasks))
                checkpoint.finish(set())
            finally:
                checkpoint.close()
        self._summarize(snapshot, [ranges[index] for index in sorted(ranges)])
        summary.taken_over += checkpoint.taken_over
        return snapshot

    def _summarize(self, snapshot: TopicSnapshot, ranges: list[RangeComparison]) -> None:
        summary = self._summary
        summary.position = [snapshot.head_seq]
        summary.ranges = len(ranges)
        summary.records = summary.parts = sum(each.rebuilt for each in ranges)
        summary.differences = [
            Difference(
                first=f"seq {each.first_seq}",
                rebuilt=each.rebuilt,
                live=each.live,
                differing=each.differing,
                names=[f"seq {seq}" for seq in each.seqs],
            )
            for each in ranges
            if each.differing
        ]

    def _has_left(self, snapshot: TopicSnapshot) -> bool:
        """Whether records have left the log since the snapshot."""
        with open_readonly(self._store, self._lake, self._views_url) as later:
            if self._summary.name not in later.topics():
                return False
            current = later.existing_topic(self._summary.name).snapshot()
            before = snapshot.hidden()
            return current.floor != snapshot.floor or bool(
                {seq for seq in current.hidden() ^ before if seq <= snapshot.head_seq}
            )

    def _show(self, step: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(step, done, total)
