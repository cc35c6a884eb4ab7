"""How much of a result stays: KEEP n ROWS, KEEP n DAYS. Pure.

Of a selection the newest rows stay, and those that are not too old by the time of their append. Of
aggregates PER a period the periods stay that reach into the time that is kept; the count of their
rows follows from that, so KEEP n ROWS is not for them. Other results have nothing that gets old.

What is over is not shown from that moment on. It leaves the frames when they are written again, or
when all rows of a run are over.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from strandline.errors import Invalid
from strandline.query.language.bound_ast import Bound
from strandline.query.language.periods import start
from strandline.query.materialized.incremental_plan import Shape
from strandline.query.materialized.manifest import Keep, Run
from strandline.views.table.snapshot import TS

_MOMENT = pa.timestamp("us", tz="UTC")


def check_keep(keep: Keep, bound: Bound) -> None:
    """Raise when what is to be kept of a query says nothing about it."""
    for name, value in (("ROWS", keep.rows_max), ("an age", keep.age_max_us)):
        if value is not None and value < 1:
            raise Invalid(f"KEEP {name}: at least 1, not {value}")
    if keep == Keep():
        return
    if bound.is_sequence:
        raise Invalid("KEEP is for queries of one event: a sequence is found anew with every news")
    if bound.aggregates and keep.rows_max is not None:
        raise Invalid("KEEP n ROWS is for selections: of aggregates PER a period, KEEP an age")
    if bound.aggregates and bound.per is None:
        raise Invalid("KEEP an age needs aggregates PER a period: others do not get old")


def still_kept(keep: Keep, shape: Shape, table: pa.Table, now_us: int) -> pa.Table:
    """The rows of a state that are not too old."""
    if keep.age_max_us is None:
        return table
    cutoff = now_us - keep.age_max_us
    if shape.kind == "groups":
        assert shape.bound.per is not None
        cutoff = start(cutoff, shape.bound.per, shape.bound.calendar)
    column = table["k0" if shape.kind == "groups" else TS]
    return table.filter(pc.greater_equal(column, pa.scalar(cutoff, _MOMENT)))


def newest_rows(keep: Keep, tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The last rows of tables that stand in the order of their appends."""
    if keep.rows_max is None:
        return list(tables)
    left = keep.rows_max
    found: list[pa.Table] = []
    for table in reversed(tables):
        taken = min(left, table.num_rows)
        found.append(table.slice(table.num_rows - taken))
        left -= taken
    return found[::-1]


def runs_over(keep: Keep, runs: Sequence[Run], rows_more: int, now_us: int) -> int:
    """How many runs of a selection, from the oldest on, have no row that is kept."""
    over = 0
    rows = sum(run.rows for run in runs) + rows_more
    for run in runs:
        rows -= run.rows
        behind = keep.rows_max is not None and rows >= keep.rows_max
        aged = keep.age_max_us is not None and run.newest_us < now_us - keep.age_max_us
        if not behind and not aged:
            break
        over += 1
    return over
