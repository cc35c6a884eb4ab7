"""Rebuilds a view from its log, and compares it with the saved one or replaces that.

    1 pin a position of the view's topics, beside the store's writer if there is one
    2 tasks read parts of the log and write what the view needs, sorted by key
      (pipelines/view_rebuild/shuffle_task.py)
    3 tasks fold ranges of keys, with the fold of the store
      (pipelines/view_rebuild/reduce_task.py)
    4 compare:  the checksums of the same ranges of the store's view
      replace:  the states of all ranges are merged, staged, and handed to the store's writer, which
                loads the result beside the view in use and folds in newer records
                (ingest/view_handoff_job.py)

The rebuild is compared with the saved state, folded up to the position, as in a process that opens
the store. Records that leave the log during the run may cause a false difference; then the run is
repeated at a new position.

All objects that tasks write are in the lake, are not visible to readers, and are deleted at the
end. A killed run leaves them, with notes of its finished tasks; the next run of the view takes over
the results of equal tasks (pipelines/view_rebuild/task_checkpoint.py), and the store removes unused
objects after a week. A state that is handed over is installed whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyroaring import BitMap64

from strandline.errors import Conflict, Corrupt, Invalid, NotFound
from strandline.ingest.view_handoff_codec import ViewHandoff
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.delivery_client import WAIT_S_MAX, lake_of
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.lake_selection import LakeLocation, objects_at
from strandline.pipelines.splits.snapshot_position import open_readonly, path_of, take_position
from strandline.pipelines.splits.split_reader import ThreadStores
from strandline.pipelines.transfer.export_plan import row_bytes_of
from strandline.pipelines.view_handoff_client import deliver_view_state
from strandline.pipelines.view_rebuild import merge_states, planner, range_checksums
from strandline.pipelines.view_rebuild.partitioning import partitioning_of
from strandline.pipelines.view_rebuild.rebuild_table import TABLE, TableRebuild
from strandline.pipelines.view_rebuild.reduce_task import (
    FoldTask,
    ReduceResult,
    fold_range,
    read_marks,
)
from strandline.pipelines.view_rebuild.shuffle_task import (
    PIECE_ROWS,
    RebuildContext,
    ShuffleResult,
    shuffle,
)
from strandline.pipelines.view_rebuild.summary import Difference, RebuildSummary
from strandline.pipelines.view_rebuild.task_checkpoint import TaskCheckpoint
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.store import Store
from strandline.views.view import EnumerableFold
from strandline.views.view_registry import ViewSpec
from strandline.views.view_runner import SavedView, gaps_of

ROWS_MAX = 250_000
"""Rows of a range that one task folds in memory."""
NAMES_MAX = 5
"""Most differing parts of a range that are listed."""
_TRIES = 3


def rebuild(
    store: str | Store,
    kind: str,
    name: str,
    *,
    replace: bool = False,
    engine: Engine | Chooser | None = None,
    lake: str = "",
    views_url: str = "",
    rows_max: int = ROWS_MAX,
    wait_s_max: float = WAIT_S_MAX,
    progress: Progress | None = None,
) -> RebuildSummary:
    """Rebuild a view from the log; compare it with the saved one, or ``replace`` that.

    An event table is only compared: only its store writes its files.

    ``engine`` runs the tasks: by default ``Embedded()``, or a function that chooses one by the
    bytes of the log. ``lake`` and ``views_url`` are those of the store's settings. A task folds
    about ``rows_max`` rows in memory. ``wait_s_max`` is the time in which the store's writer must
    start to load the new state.
    """
    if kind == TABLE:
        if replace:
            raise Invalid(
                "only its store writes the files of an event table: compare it here, and "
                f"rebuild it in the store with strandline view rebuild table {name}"
            )
        tables = TableRebuild(path_of(store), name, lake, views_url, SystemClock(), progress)
        return tables.run(engine or Embedded(), rows_max=rows_max)
    partitioning_of(kind)
    run = _Rebuild(path_of(store), kind, name, lake, views_url, SystemClock(), progress)
    return run.run(engine or Embedded(), replace=replace, rows_max=rows_max, wait_s_max=wait_s_max)


class _Rebuild:
    """One run. Owned by one thread; the tasks run elsewhere."""

    def __init__(
        self,
        store: str,
        kind: str,
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
        self._summary = RebuildSummary(store=store, kind=kind, name=name)
        self._summary.differences = []
        self._place = LakeLocation(url=lake_of(store, lake))
        self._checkpoint: TaskCheckpoint | None = None
        self._handed_over: set[str] = set()

    def run(
        self, engine: Engine | Chooser, *, replace: bool, rows_max: int, wait_s_max: float
    ) -> RebuildSummary:
        started_s = self._clock.monotonic()
        with objects_at(self._place, None) as self._objects:
            try:
                self._attempts(engine, replace=replace, rows_max=rows_max)
                self._finish_checkpoint()  # after the handoff the store owns the files
            except (Corrupt, NotFound):  # the damage may be in objects of an earlier run
                self._finish_checkpoint()
                raise
            finally:  # after other failures the next run continues
                if self._checkpoint is not None:
                    self._checkpoint.close()
        if replace:
            self._deliver(wait_s_max)
        self._summary.seconds = self._clock.monotonic() - started_s
        return self._summary

    def _attempts(self, engine: Engine | Chooser, *, replace: bool, rows_max: int) -> None:
        summary = self._summary
        for attempt in range(_TRIES):
            summary.again = attempt
            with open_readonly(self._store, self._lake, self._views_url) as opened:
                pinned = _PinnedView(opened, summary.kind, summary.name, self._lake)
                chosen = engine(pinned.size) if callable(engine) else engine
                engine, summary.engine = chosen, chosen.name
                if self._attempt(opened, pinned, chosen, replace=replace, rows_max=rows_max):
                    return
        raise Conflict(
            f"records of {summary.name!r} left the log during every attempt: rebuild when "
            "less is written, or raise views.checkpoint_interval_s of its store"
        )

    def _checkpoint_for(self, pinned: _PinnedView) -> TaskCheckpoint:
        """The checkpoints of tasks; created when the id of the view is known."""
        if self._checkpoint is None:
            view = f"{self._summary.kind}-{pinned.snapshots[0].topic_id}"
            folder = Layout(self._store).rebuilds
            self._checkpoint = TaskCheckpoint(self._objects, OsDisk(), self._clock, folder, view)
        return self._checkpoint

    def _finish_checkpoint(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.finish(self._handed_over)
            self._summary.taken_over = self._checkpoint.taken_over

    def _attempt(
        self, opened: Store, pinned: _PinnedView, engine: Engine, *, replace: bool, rows_max: int
    ) -> bool:
        """Run one attempt; False when it has to be repeated."""
        summary = self._summary
        pieces = min(PIECE_ROWS, max(1, rows_max // 4))  # the granularity of ranges
        work = pinned.work(self._place, OsDisk().random_id().hex(), pieces)
        gathered = self._gather(engine, work, pinned)
        read = _union(pinned.snapshots, gathered)
        summary.records = sum(map(len, read.values()))
        summary.position = [snapshot.head_seq for snapshot in pinned.snapshots]
        with open_readonly(self._store, self._lake) as later_store:
            gone = planner.removed_since(later_store, pinned.snapshots, list(read.values()))
        if gone is None:
            return False
        tasks = planner.reduce_tasks(
            [each for _, each in gathered],
            gone,
            rows_max=rows_max,
            compares=not replace,
            replaces=replace,
        )
        folded = self._fold(engine, work, tasks)
        if replace:
            dead = BitMap64()
            for _, each in gathered:
                dead |= BitMap64.deserialize(each.dead) if each.dead else BitMap64()
            self._join(work, pinned, folded, dead)
            return True
        self._compare(opened, folded)
        return summary.same or not any(gone)

    def _gather(
        self, engine: Engine, work: RebuildContext, pinned: _PinnedView
    ) -> list[tuple[int, ShuffleResult]]:
        """The source and the result of each task."""
        checkpoint = self._checkpoint_for(pinned)
        tasks = planner.shuffle_tasks(pinned.position, pinned.snapshots)
        objects = self._objects if engine.in_process else None
        results: dict[int, ShuffleResult] = {}
        done, total = 0, sum(task.rows for task in tasks)
        with ThreadStores() as opened:
            threads = opened if engine.in_process else None
            work_on = partial(shuffle, work, objects=objects, threads=threads)
            for index, result in checkpoint.run(engine, work_on, work, tasks, ShuffleResult):
                results[index] = result
                done += tasks[index].rows
                self._show("read", done, total)
        return [(tasks[index].source, results[index]) for index in sorted(results)]

    def _fold(
        self, engine: Engine, work: RebuildContext, tasks: Sequence[FoldTask]
    ) -> list[ReduceResult]:
        objects = self._objects if engine.in_process else None
        results: dict[int, ReduceResult] = {}
        done, total = 0, sum(task.rows for task in tasks)
        assert self._checkpoint is not None, "the first tasks have run"
        work_on = partial(fold_range, work, objects=objects)
        for index, result in self._checkpoint.run(engine, work_on, work, tasks, ReduceResult):
            results[index] = result
            done += tasks[index].rows
            self._show("fold", done, total)
        self._summary.ranges = len(tasks)
        return [results[index] for index in sorted(results)]

    def _join(
        self,
        work: RebuildContext,
        pinned: _PinnedView,
        folded: Sequence[ReduceResult],
        dead: BitMap64,
    ) -> None:
        files = merge_states.merge_pages(self._objects, work.attempt, work.kind, folded)
        self._handed_over = {file.key for file in files}
        self._summary.pages = sum(file.rows for file in files)
        self._handoff = ViewHandoff(
            store_id=pinned.position.store_id,
            kind=work.kind,
            name=self._summary.name,
            attempt=work.attempt,
            made_us=self._clock.now_us(),
            saved=pinned.saved(merge_states.merged_state(work.kind, folded, dead)),
            files=files,
        )

    def _deliver(self, wait_s_max: float) -> None:
        started_s = self._clock.monotonic()
        deliver_view_state(
            self._store,
            self._handoff,
            lake=self._lake,
            views_url=self._views_url,
            wait_s_max=wait_s_max,
            clock=self._clock,
        )
        self._summary.replaced = True
        self._summary.load_seconds = self._clock.monotonic() - started_s

    def _compare(self, opened: Store, folded: Sequence[ReduceResult]) -> None:
        summary = self._summary
        summary.differences = []
        summary.parts = sum(each.parts for each in folded)
        ranges = [(each, index) for each in folded for index in range(len(each.ranges))]
        counted = [each.ranges[index] for each, index in ranges]
        summary.ranges = len(counted)
        opened.views.open(summary.kind, summary.name, {})
        host = opened.views.registry.host(summary.kind, opened.existing_topic(summary.name))
        with host.reading() as fold:
            for number, (first, next) in enumerate(range_checksums.bounds(counted)):
                live = range_checksums.checksum_of_range(fold, first, next)
                rebuilt = (
                    counted[number]
                    if counted
                    else range_checksums.RangeChecksum(b"", 0, live.digest)
                )
                if (live.count, live.digest) != (rebuilt.count, rebuilt.digest):
                    marks = []
                    if counted:
                        each, index = ranges[number]
                        marks = read_marks(self._objects, each.marks)[index]
                    summary.differences.append(_difference(fold, marks, rebuilt, live, next))
                self._show("compare", number + 1, len(counted))

    def _show(self, step: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(step, done, total)


class _PinnedView:
    """A view at a position."""

    def __init__(self, store: Store, kind: str, name: str, lake: str) -> None:
        self._view: ViewSpec = store.views.spec(kind, name)
        names = [topic.name for topic in self._view.topics]
        self.position = take_position(store, names, lake)
        by_name = {snapshot.name: snapshot for snapshot in self.position.topics}
        self.snapshots: list[TopicSnapshot] = [by_name[each] for each in names]
        self._gaps = gaps_of(self._view.topics, [each.head_seq for each in self.snapshots])
        self.size = sum(
            topic.statistics().count * row_bytes_of(topic) for topic in self._view.topics
        )

    def work(self, place: LakeLocation, attempt: str, piece_rows: int) -> RebuildContext:
        view = self._view
        return RebuildContext(
            place=place,
            attempt=attempt,
            kind=view.kind,
            views=view.topics[0].config.views,
            strangers=tuple(view.foreign_marks(source) for source in range(len(view.topics))),
            piece_rows=piece_rows,
        )

    def saved(self, state: bytes) -> SavedView:
        return SavedView(
            space=0,
            config=self._view.config,
            topics=[topic.identity for topic in self._view.topics],
            applied=[snapshot.head_seq for snapshot in self.snapshots],
            gaps=self._gaps,
            state=state,
        )


def _union(
    snapshots: Sequence[TopicSnapshot], gathered: Sequence[tuple[int, ShuffleResult]]
) -> dict[int, BitMap64]:
    """By source: the seqs of all records that were read."""
    seqs = {source: BitMap64() for source in range(len(snapshots))}
    for source, each in gathered:
        seqs[source] |= BitMap64.deserialize(each.seqs)
    return seqs


def _difference(
    fold: EnumerableFold,
    marks: Sequence[range_checksums.KeyChecksum],
    rebuilt: range_checksums.RangeChecksum,
    live: range_checksums.RangeChecksum,
    next: bytes | None,
) -> Difference:
    live_checksums = (
        range_checksums.key_checksum(seen) for seen in fold.visible_items(live.first or None, next)
    )
    names = range_checksums.differing(marks, live_checksums)
    return Difference(
        first=_text(rebuilt.first),
        rebuilt=rebuilt.count,
        live=live.count,
        differing=len(names),
        names=[_text(name) for name in names[:NAMES_MAX]],
    )


def _text(name: bytes) -> str:
    """A name for display: text if it is printable, else hex."""
    text = name.decode(errors="replace")
    return text if text.isprintable() and "\ufffd" not in text else name.hex()
