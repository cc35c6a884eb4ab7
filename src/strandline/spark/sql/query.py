"""Questions answered by Spark: the same plan, the same rows, the same answer, on more machines.

    run(spark, "data", "QUERY pay COUNT, TOTAL amount BY cur")        a Result
    frame(spark, "data", "QUERY pay WHERE amount > 100")              a DataFrame, for long answers

The command is read and bound as ever, the tables are pinned at one position as ever, and the plan
(``query/plan/plan.py``) is told in Spark's SQL (``query/plan/compile.py``) over frames of the
tables' rows
(``spark/tables/event_rows.py``). Sequences are windows (``query/plan/sequence_sql.py``). What is
remembered is put together in the process that asks: only the news are read by Spark.

A frame reads its files when it is used. Files that leave the table meanwhile stay as long as the
store has it pinned, else for ``lake.grace_s``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from strandline.errors import Closed, Corrupt, Invalid, NotFound
from strandline.log.progress import Progress, silent
from strandline.pipelines.splits.snapshot_position import open_readonly, path_of
from strandline.platform.clock import Clock, SystemClock
from strandline.query.execute.executor import ORDERED_ROWS_MAX, Answering, shaped
from strandline.query.execute.profile import Profile, Source
from strandline.query.execute.replay import scans_of, together
from strandline.query.execute.result import Result
from strandline.query.execute.scan_sources import Snapshots
from strandline.query.language.ast import Query
from strandline.query.language.bound_ast import Bound
from strandline.query.language.format_condition import told
from strandline.query.language.parser import parse
from strandline.query.plan.compile import sql, sql_of_scan
from strandline.query.plan.plan import Plan, Scan, plan_of, widened
from strandline.query.plan.result_schema import shape_of
from strandline.spark.errors import plain_errors
from strandline.spark.isolated_sessions import Views, room, views
from strandline.spark.job_progress import watched
from strandline.spark.tables.event_rows import frame_of
from strandline.store import Store
from strandline.views.table.snapshot import Snapshot, Top

Found = TypeVar("Found")

_LOOKS_MAX = 3
_PAGES_ARE_GONE = (FileNotFoundError, Closed, NotFound, Corrupt)


def run(
    spark: SparkSession,
    store: str | Store,
    text: str,
    *,
    lake: str = "",
    progress: Progress = silent,
) -> Result:
    """Do what a command says, with Spark for its questions.

    A store that is named by its folder is opened read-only, beside its writer; commands that
    change something need it open.
    """
    answering = answers(spark, progress=progress)
    return looking(store, lake, lambda opened: opened.questions.answered_by(answering).run(text))


def frame(spark: SparkSession, store: str | Store, text: str, *, lake: str = "") -> DataFrame:
    """The answer to a QUERY as a frame, which Spark calculates when somebody wants it.

    u64 is decimal(20, 0) in it, and what is unordered in an answer is unordered here.
    """
    if not isinstance(parse(text), Query):
        raise Invalid("only a QUERY can be a frame: use run() for other commands")
    found: list[DataFrame] = []

    def keep(bound: Bound, snapshots: Snapshots) -> Result:
        asked = _Asked(spark, snapshots, Profile(), SystemClock())
        found.append(asked.frame(widened(plan_of(bound))))
        return Result(pa.table({}))

    looking(store, lake, lambda opened: opened.questions.answered_by(keep).run(text))
    return found[0]


def answers(
    spark: SparkSession, *, progress: Progress = silent, clock: Clock | None = None
) -> Answering:
    """Spark in the place of this process's engine, for ``Questions.answered_by``."""
    return partial(answer, spark, progress=progress, clock=clock)


def answer(
    spark: SparkSession,
    bound: Bound,
    snapshots: Snapshots,
    *,
    progress: Progress = silent,
    clock: Clock | None = None,
) -> Result:
    """The answer to a bound question over snapshots, as ``query.execute.run`` gives it."""
    profile = Profile(sources=[], sql=[], seconds={})
    asked = _Asked(spark, snapshots, profile, clock or SystemClock(), progress)
    with profile.timed("total", asked.clock), plain_errors():
        if bound.kind == "replay_all":
            table = together(bound, [asked.scanned(scan) for scan in scans_of(bound)])
        else:
            table = asked.answer(widened(plan_of(bound)))
    profile.rows = table.num_rows
    return Result(table, profile=profile)


def looking(store: str | Store, lake: str, ask: Callable[[Store], Found]) -> Found:
    """Ask an open store; or one by its folder, again when its writer has let pages go meanwhile."""
    if isinstance(store, Store):
        return ask(store)
    for _ in range(_LOOKS_MAX - 1):
        try:
            with open_readonly(path_of(store), lake) as opened:
                return ask(opened)
        except _PAGES_ARE_GONE:
            continue
    with open_readonly(path_of(store), lake) as opened:
        return ask(opened)


def _in_order(table: pa.Table, plan: Plan) -> pa.Table:
    """Groups in the order of the plan, missing values last."""
    keys = [
        (f"c{place}", "descending" if sort.descending else "ascending", "at_end")
        for place, sort in zip(plan.order_places, plan.order, strict=True)
    ]
    by_place = table.rename_columns([f"c{place}" for place in range(table.num_columns)])
    return table.take(pc.sort_indices(by_place, sort_keys=keys)) if keys else table


class _Asked:
    """One question while it is answered. Owned by one thread."""

    def __init__(
        self,
        spark: SparkSession,
        snapshots: Snapshots,
        profile: Profile,
        clock: Clock,
        progress: Progress = silent,
    ) -> None:
        self.clock = clock
        self._session = room(spark)
        self._snapshots = snapshots
        self._profile = profile
        self._progress = progress
        self._held: dict[str, Snapshot] = {}
        self._rows_max = 0

    def answer(self, plan: Plan) -> pa.Table:
        shape = shape_of(plan)
        if plan.limit == 0:
            return shape.empty_table()
        if plan.limit is not None or not plan.figures:
            return shaped(self._collected(self.frame(plan)), shape)
        # Groups are few as a rule, and sorted sooner here: Spark would look at them all first.
        found = self.frame(msgspec.structs.replace(plan, order=()))
        return _in_order(shaped(self._collected(found), shape), plan)

    def scanned(self, scan: Scan) -> pa.Table:
        """The rows of one event that fulfil its condition."""
        with views(self._session) as made:
            scan = msgspec.structs.replace(scan, relation=made.add(self._rows(scan, None)))
            return self._collected(self._ask(made, sql_of_scan(scan, "spark")))

    def frame(self, plan: Plan) -> DataFrame:
        """The whole plan, not calculated yet."""
        with views(self._session) as made:
            scans = tuple(
                msgspec.structs.replace(scan, relation=made.add(self._rows(scan, plan.top)))
                for scan in plan.scans
            )
            plan = msgspec.structs.replace(plan, scans=scans)
            unordered = not (plan.order_asked or plan.figures or plan.steps)
            if unordered and self._rows_max > ORDERED_ROWS_MAX:  # as ``execute.py`` says
                plan = msgspec.structs.replace(plan, order=())
            return self._ask(made, sql(plan, "spark")).toDF(*plan.names)

    def _rows(self, scan: Scan, top: Top | None) -> DataFrame:
        with self._profile.timed("plan", self.clock):
            if scan.table not in self._held:
                self._held[scan.table] = self._snapshots(scan.table)
            reading = self._held[scan.table].read(scan.columns, scan.where, top=top)
            self._rows_max += reading.rows_max
            found = frame_of(self._session, scan.table, scan.kinds, reading.apart())
        condition = told(scan.where) if scan.where else ""
        self._profile.sources.append(
            Source(table=scan.table, columns=scan.columns, condition=condition, facts=reading.facts)
        )
        return found

    def _ask(self, made: Views, text: str) -> DataFrame:
        self._profile.sql.append(text)
        return made.sql(text)

    def _collected(self, frame: DataFrame) -> pa.Table:
        with self._profile.timed("calculate", self.clock):
            return watched(self._session, frame.toArrow, self._progress, self.clock)
