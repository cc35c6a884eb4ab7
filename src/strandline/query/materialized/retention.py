"""Retention of stored results: KEEP n ROWS, KEEP n DAYS. Pure.

Of a selection the newest rows stay, and those that are not too old by the time of their append. Of
aggregates PER a period the periods stay that overlap the retained time; this determines the number
of rows, so KEEP n ROWS does not apply to them. Other results have no rows that become old.

Expired rows are not returned from that time on. They are removed from frames when these are written
again, or when all rows of a run have expired.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from strandline.errors import Invalid
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.language.periods import start
from strandline.query.materialized.incremental_plan import IncrementalPlan
from strandline.query.materialized.manifest import FrameRun, ResultRetention
from strandline.views.table.snapshot import TS

_MOMENT = pa.timestamp("us", tz="UTC")


def check_keep(keep: ResultRetention, bound: BoundQuery) -> None:
    """Reject a KEEP that does not apply to the query."""
    for name, value in (("ROWS", keep.rows_max), ("an age", keep.age_max_us)):
        if value is not None and value < 1:
            raise Invalid(f"KEEP {name} must be at least 1, not {value}")
    if keep == ResultRetention():
        return
    if bound.is_sequence:
        raise Invalid(
            "KEEP is for queries of one event: a sequence is computed again with all new rows"
        )
    if bound.aggregates and keep.rows_max is not None:
        raise Invalid("KEEP n ROWS is for selections: for aggregates PER a period, KEEP an age")
    if bound.aggregates and bound.per is None:
        raise Invalid("KEEP an age requires aggregates PER a period: others have no age")


def unexpired_rows(
    keep: ResultRetention, shape: IncrementalPlan, table: pa.Table, now_us: int
) -> pa.Table:
    """The rows of a state that are not too old."""
    if keep.age_max_us is None:
        return table
    cutoff = now_us - keep.age_max_us
    if shape.kind == "groups":
        assert shape.bound.per is not None
        cutoff = start(cutoff, shape.bound.per, shape.bound.calendar)
    column = table["k0" if shape.kind == "groups" else TS]
    return table.filter(pc.greater_equal(column, pa.scalar(cutoff, _MOMENT)))


def newest_rows(keep: ResultRetention, tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The last rows of tables that are in the order of their appends."""
    if keep.rows_max is None:
        return list(tables)
    remaining = keep.rows_max
    newest: list[pa.Table] = []
    for table in reversed(tables):
        count = min(remaining, table.num_rows)
        newest.append(table.slice(table.num_rows - count))
        remaining -= count
    return newest[::-1]


def expired_runs(
    keep: ResultRetention, runs: Sequence[FrameRun], rows_more: int, now_us: int
) -> int:
    """The number of oldest runs of a selection whose rows have all expired."""
    expired = 0
    rows = sum(run.rows for run in runs) + rows_more
    for run in runs:
        rows -= run.rows
        is_surplus = keep.rows_max is not None and rows >= keep.rows_max
        is_old = keep.age_max_us is not None and run.newest_us < now_us - keep.age_max_us
        if not is_surplus and not is_old:
            break
        expired += 1
    return expired
