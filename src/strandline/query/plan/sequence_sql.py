"""Matches of a sequence as SQL, with windows and joins only. Pure.

For every step the matches so far and the rows of the next event are combined in one list, sorted so
that the row to select for a match is the last row before it:

    followed   latest first; of equal times rows of the next event are before others, the one with
               the smallest seq last
    preceded   earliest first; of equal times rows of the next event are after others

One window carries it from row to row. Only links, times and seqs are sorted; columns are joined
to the matches at the end, by seq. A window with an unbounded end would work, too, but Spark
processes one in quadratic time. Where the links of two events are numbers of different types,
engines compare them as floats: beyond 2^53 ``query/execute/sequence.py`` is more exact.

    matched0(seq0, link, at, seq)  ->  list1  ->  picked1  ->  matched1(seq0, seq1, link, at, seq)
"""

from __future__ import annotations

from sqlglot import exp

from strandline.query.language.bound_ast import BoundStep
from strandline.query.plan.plan import Plan, Scan
from strandline.query.plan.sql_dialect import Dialect, call, column, name, number
from strandline.views.table.snapshot import SEQ

_LINK, _AT, _SEQ, _NEXT = "link", "at", "seq", "is_next"
_FOUND_AT, _FOUND_SEQ = "found_at", "found_seq"


def matches(plan: Plan, dialect: Dialect, selected: list[exp.Select]) -> exp.Select:
    """A SELECT from the matches with all columns of all events, without expressions yet."""
    parts: dict[str, exp.Query] = {}
    for place, rows in enumerate(selected):
        link = column(plan.scans[place].link)
        present = exp.not_(exp.Is(this=link, expression=exp.null()))
        parts[f"event{place}"] = rows.where(present, copy=False)
    parts["matched0"] = _first(plan, dialect)
    for place, step in enumerate(plan.steps, 1):
        parts[f"list{place}"] = _list(plan, place, dialect)
        parts[f"picked{place}"] = _picked(plan, place, step)
        parts[f"matched{place}"] = _matched(place, step)
    parts["joined"] = _joined(plan)
    result = exp.Select().from_(exp.Table(this=name("joined")))
    for part, query in parts.items():
        result = result.with_(name(part), as_=query, copy=False)
    return result


def _as(value: exp.Expression, alias: str) -> exp.Expression:
    return exp.Alias(this=value, alias=name(alias))


def _at(scan: Scan, dialect: Dialect) -> exp.Expression:
    time = exp.cast(column(scan.time), exp.DataType(this=exp.DType.TIMESTAMP))
    return call("epoch_us" if dialect == "duckdb" else "unix_micros", time)


def _seqs(count: int) -> list[exp.Expression]:
    return [column(f"seq{place}") for place in range(count)]


def _from(columns: list[exp.Expression], relation: str) -> exp.Select:
    return exp.Select(expressions=columns).from_(exp.Table(this=name(relation)), copy=False)


def _first(plan: Plan, dialect: Dialect) -> exp.Select:
    columns = [
        _as(column(SEQ), "seq0"),
        _as(column(plan.scans[0].link), _LINK),
        _as(_at(plan.scans[0], dialect), _AT),
        _as(column(SEQ), _SEQ),
    ]
    return _from(columns, "event0")


def _list(plan: Plan, place: int, dialect: Dialect) -> exp.Query:
    common: list[exp.Expression] = [column(_LINK), column(_AT), column(_SEQ)]
    so_far = [*_seqs(place), *common, _as(exp.Literal.number(0), _NEXT)]
    further: list[exp.Expression] = [
        *(_as(exp.null(), f"seq{each}") for each in range(place)),
        _as(column(plan.scans[place].link), _LINK),
        _as(_at(plan.scans[place], dialect), _AT),
        _as(column(SEQ), _SEQ),
        _as(exp.Literal.number(1), _NEXT),
    ]
    left, right = _from(so_far, f"matched{place - 1}"), _from(further, f"event{place}")
    return exp.union(left, right, distinct=False, copy=False)


def _picked(plan: Plan, place: int, step: BoundStep) -> exp.Select:
    same = plan.scans[place].table == plan.scans[place - 1].table
    next_row = [
        _as(_carried(_AT, step, same=same), _FOUND_AT),
        _as(_carried(_SEQ, step, same=same), _FOUND_SEQ),
    ]
    own = [*_seqs(place), column(_LINK), column(_AT), column(_NEXT)]
    return _from([*own, *next_row], f"list{place}")


def _carried(field: str, step: BoundStep, *, same: bool) -> exp.Expression:
    """The value of the last row of the next event up to here."""
    is_next = exp.EQ(this=column(_NEXT), expression=exp.Literal.number(1))
    value = exp.Case(ifs=[exp.If(this=is_next, true=column(field))])
    rows = exp.WindowSpec(
        kind="ROWS",
        start="UNBOUNDED",
        start_side="PRECEDING",
        end="CURRENT ROW",
    )
    return exp.Window(
        this=exp.IgnoreNulls(this=exp.LastValue(this=value)),
        partition_by=[column(_LINK)],
        order=exp.Order(expressions=_sorts(step, same=same)),
        spec=rows,
    )


def _sorts(step: BoundStep, *, same: bool) -> list[exp.Expression]:
    if step.direction == "preceded":
        return [_sort(_AT), _sort(_NEXT), _sort(_SEQ)]
    if same:  # no row follows itself, nor one of the same time with a smaller seq
        return [_sort_descending(_AT), _sort_descending(_SEQ), _sort(_NEXT)]
    return [_sort_descending(_AT), _sort_descending(_NEXT), _sort_descending(_SEQ)]


def _sort(field: str) -> exp.Ordered:
    return exp.Ordered(this=column(field), desc=False, nulls_first=False)


def _sort_descending(field: str) -> exp.Ordered:
    return exp.Ordered(this=column(field), desc=True, nulls_first=False)


def _matched(place: int, step: BoundStep) -> exp.Select:
    columns = [
        *_seqs(place),
        _as(column(_FOUND_SEQ), f"seq{place}"),
        column(_LINK),
        _as(column(_FOUND_AT), _AT),
        _as(column(_FOUND_SEQ), _SEQ),
    ]
    conditions: list[exp.Expression] = [
        exp.EQ(this=column(_NEXT), expression=exp.Literal.number(0)),
        exp.not_(exp.Is(this=column(_FOUND_SEQ), expression=exp.null())),
    ]
    if step.within_us is not None:
        ends = [column(_FOUND_AT), column(_AT)]
        later, earlier = ends if step.direction == "followed" else reversed(ends)
        distance = exp.Sub(this=later, expression=earlier)
        conditions.append(exp.LTE(this=distance, expression=number(step.within_us)))
    return _from(columns, f"picked{place}").where(*conditions, copy=False)


def _joined(plan: Plan) -> exp.Select:
    last = f"matched{len(plan.steps)}"
    columns = [
        _as(column(field, f"event{place}"), f"{scan.prefix}{field}")
        for place, scan in enumerate(plan.scans)
        for field in scan.kept
    ]
    joined = _from(columns, last)
    for place in range(len(plan.scans)):
        event = f"event{place}"
        on = exp.EQ(this=column(f"seq{place}", last), expression=column(SEQ, event))
        joined = joined.join(exp.Table(this=name(event)), on=on, copy=False)
    return joined
