"""Queries run by Spark: the same plan, the same rows and the same result, on more machines.

    run(spark, "data", "QUERY pay COUNT, TOTAL amount BY cur")        a Result
    frame(spark, "data", "QUERY pay WHERE amount > 100")              a DataFrame, for long results

The command is parsed and bound, and the tables are pinned at one position, as without Spark. The
plan (``query/plan/plan.py``) is compiled to Spark SQL (``query/plan/compile.py``) over frames of
the rows of tables (``spark/tables/event_rows.py``). Sequences are windows
(``query/plan/sequence_sql.py``). The results of materialized queries are merged in the calling
process: Spark reads only the new records.

A frame reads its files when it is used. Files that leave the table meanwhile stay while the store
has them pinned, else for ``lake.grace_s``.
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
from strandline.query.execute.executor import ORDERED_ROWS_MAX, QueryExecutor, cast_to_schema
from strandline.query.execute.profile import Profile, SourceProfile
from strandline.query.execute.replay import merge_events, scans_of
from strandline.query.execute.result import Result
from strandline.query.execute.scan_sources import Snapshots
from strandline.query.language.ast import Query
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.language.format_condition import format_condition
from strandline.query.language.parser import parse
from strandline.query.plan.compile import sql, sql_of_scan
from strandline.query.plan.plan import Plan, Scan, plan_of, with_wide_totals
from strandline.query.plan.result_schema import shape_of
from strandline.spark.errors import plain_errors
from strandline.spark.isolated_sessions import QueryViews, isolated_session, query_views
from strandline.spark.job_progress import run_with_progress
from strandline.spark.tables.event_rows import frame_of_scan
from strandline.store import Store
from strandline.views.table.snapshot import EventTableSnapshot, Top

Found = TypeVar("Found")

_ATTEMPTS_MAX = 3
_PAGES_ARE_GONE = (FileNotFoundError, Closed, NotFound, Corrupt)


def run(
    spark: SparkSession,
    store: str | Store,
    text: str,
    *,
    lake: str = "",
    progress: Progress = silent,
) -> Result:
    """Run a command, with Spark as the engine of its queries.

    A store that is named by its folder is opened read-only, while it may be written; commands that
    change something need an open store.
    """
    answering = spark_executor(spark, progress=progress)
    return with_store(store, lake, lambda opened: opened.queries.with_executor(answering).run(text))


def frame(spark: SparkSession, store: str | Store, text: str, *, lake: str = "") -> DataFrame:
    """The result of a QUERY as a frame, which Spark computes when it is used.

    u64 is decimal(20, 0) in it, and a result without an order has none here.
    """
    if not isinstance(parse(text), Query):
        raise Invalid("only a QUERY can be a frame: use run() for other commands")
    frames: list[DataFrame] = []

    def build(bound: BoundQuery, snapshots: Snapshots) -> Result:
        query = _SparkQuery(spark, snapshots, Profile(), SystemClock())
        frames.append(query.frame(with_wide_totals(plan_of(bound))))
        return Result(pa.table({}))

    with_store(store, lake, lambda opened: opened.queries.with_executor(build).run(text))
    return frames[0]


def spark_executor(
    spark: SparkSession, *, progress: Progress = silent, clock: Clock | None = None
) -> QueryExecutor:
    """Spark as the engine, for ``QueryService.with_executor``."""
    return partial(execute, spark, progress=progress, clock=clock)


def execute(
    spark: SparkSession,
    bound: BoundQuery,
    snapshots: Snapshots,
    *,
    progress: Progress = silent,
    clock: Clock | None = None,
) -> Result:
    """The result of a bound query over snapshots, as from ``query/execute``."""
    profile = Profile(sources=[], sql=[], seconds={})
    query = _SparkQuery(spark, snapshots, profile, clock or SystemClock(), progress)
    with profile.timed("total", query.clock), plain_errors():
        if bound.kind == "replay_all":
            table = merge_events(bound, [query.scanned(scan) for scan in scans_of(bound)])
        else:
            table = query.answer(with_wide_totals(plan_of(bound)))
    profile.rows = table.num_rows
    return Result(table, profile=profile)


def with_store(store: str | Store, lake: str, ask: Callable[[Store], Found]) -> Found:
    """Call ``ask`` with a store; open it again if its writer has deleted pages meanwhile."""
    if isinstance(store, Store):
        return ask(store)
    for _ in range(_ATTEMPTS_MAX - 1):
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
        (f"c{index}", "descending" if sort.descending else "ascending", "at_end")
        for index, sort in zip(plan.order_places, plan.order, strict=True)
    ]
    by_index = table.rename_columns([f"c{index}" for index in range(table.num_columns)])
    return table.take(pc.sort_indices(by_index, sort_keys=keys)) if keys else table


class _SparkQuery:
    """One query while it runs. Owned by one thread."""

    def __init__(
        self,
        spark: SparkSession,
        snapshots: Snapshots,
        profile: Profile,
        clock: Clock,
        progress: Progress = silent,
    ) -> None:
        self.clock = clock
        self._session = isolated_session(spark)
        self._snapshots = snapshots
        self._profile = profile
        self._progress = progress
        self._pinned: dict[str, EventTableSnapshot] = {}
        self._rows_max = 0

    def answer(self, plan: Plan) -> pa.Table:
        schema = shape_of(plan)
        if plan.limit == 0:
            return schema.empty_table()
        if plan.limit is not None or not plan.figures:
            return cast_to_schema(self._collect(self.frame(plan)), schema)
        # Groups are usually few, and sorted faster here: Spark would sample them first.
        unordered = self.frame(msgspec.structs.replace(plan, order=()))
        return _in_order(cast_to_schema(self._collect(unordered), schema), plan)

    def scanned(self, scan: Scan) -> pa.Table:
        """The rows of one event that match its condition."""
        with query_views(self._session) as names:
            scan = msgspec.structs.replace(scan, relation=names.add(self._rows(scan, None)))
            return self._collect(self._sql_frame(names, sql_of_scan(scan, "spark")))

    def frame(self, plan: Plan) -> DataFrame:
        """The frame of the whole plan, not computed yet."""
        with query_views(self._session) as names:
            scans = tuple(
                msgspec.structs.replace(scan, relation=names.add(self._rows(scan, plan.top)))
                for scan in plan.scans
            )
            plan = msgspec.structs.replace(plan, scans=scans)
            unordered = not (plan.order_requested or plan.figures or plan.steps)
            if unordered and self._rows_max > ORDERED_ROWS_MAX:  # as without Spark
                plan = msgspec.structs.replace(plan, order=())
            return self._sql_frame(names, sql(plan, "spark")).toDF(*plan.names)

    def _rows(self, scan: Scan, top: Top | None) -> DataFrame:
        with self._profile.timed("plan", self.clock):
            if scan.table not in self._pinned:
                self._pinned[scan.table] = self._snapshots(scan.table)
            reading = self._pinned[scan.table].read(scan.columns, scan.where, top=top)
            self._rows_max += reading.rows_max
            frame = frame_of_scan(self._session, scan.table, scan.kinds, reading.external_scan())
        condition = format_condition(scan.where) if scan.where else ""
        self._profile.sources.append(
            SourceProfile(
                table=scan.table, columns=scan.columns, condition=condition, facts=reading.facts
            )
        )
        return frame

    def _sql_frame(self, names: QueryViews, text: str) -> DataFrame:
        self._profile.sql.append(text)
        return names.sql(text)

    def _collect(self, frame: DataFrame) -> pa.Table:
        with self._profile.timed("calculate", self.clock):
            return run_with_progress(self._session, frame.toArrow, self._progress, self.clock)
