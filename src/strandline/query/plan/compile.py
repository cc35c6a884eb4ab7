"""A plan as SQL, for DuckDB or for Spark. Pure.

The rows of an event are a relation ``rows0``, ``rows1`` and so on, with the columns of the scan.
They may be more than fulfil its condition: the SQL applies it again. The caller creates the
relations.

Results have the same columns in both, and these types:

    count, count_unique       64 bits
    total of whole numbers    DECIMAL(38, 0): it does not overflow
    total of f64, avg         DOUBLE; see below
    min, max, columns         that of the column; u64 is DECIMAL(20, 0) in Spark
    bucket                    TIMESTAMP, in UTC

A sum of doubles that overflows depends on the order of rows: 1e308 twice and then -1e308 twice may
be inf, -inf, nan or 0. A wide figure (``plan.widened``) is the plain sum if that is finite, else
the sum of scaled values, scaled back: inf only where the whole sum is larger than any double.

In the SQL the columns of a result are ``__c0``, ``__c1`` and so on, in the order of ``Plan.names``.
No field can have such a name, and names in engines are not case-sensitive. The engine's result is
renamed by position.

The matches of a sequence may be a relation, too, when they are computed elsewhere
(``query/execute/sequence.py``). Otherwise windows compute them: see ``sequence_sql.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from sqlglot import exp

from strandline.query.language.periods import Calendar
from strandline.query.plan import buckets
from strandline.query.plan.buckets import Years
from strandline.query.plan.plan import (
    NOT_NUMBERED,
    Bucket,
    Figure,
    Numbered,
    Plan,
    Scan,
    Sort,
    operand_of,
)
from strandline.query.plan.predicates import Operand, predicate
from strandline.query.plan.sequence_sql import matches
from strandline.query.plan.sql_dialect import (
    DOUBLE_MAX,
    SCALE,
    TOTAL_DIGITS,
    Dialect,
    call,
    column,
    decimal,
    double,
    name,
)
from strandline.schema import FieldType
from strandline.views.table.condition import Condition, Leaf

MATCHES = "matches"
_DIGIT_BITS = 21


def sql(
    plan: Plan, dialect: Dialect, *, years: Years | None = None, numbered: Numbered = NOT_NUMBERED
) -> str:
    """The SQL of the whole plan. Buckets of a time zone in DuckDB need the years of the rows;
    ``numbered`` enum columns are numbers."""
    return _sql(_SqlInput(plan, dialect, years, numbered))


class _SqlInput:
    """The input of ``sql``, hashed by its text: plans contain dicts, which have no hash."""

    def __init__(
        self, plan: Plan, dialect: Dialect, years: Years | None, numbered: Numbered
    ) -> None:
        self.all = (plan, dialect, years, numbered)
        self._text = repr(self.all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SqlInput) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


@functools.lru_cache(256)
def _sql(input_: _SqlInput) -> str:
    """Cached: queries are often repeated, and generating SQL takes a millisecond."""
    plan, dialect, years, numbered = input_.all
    if plan.steps:
        matched = matches(plan, dialect, [select_rows(scan, dialect) for scan in plan.scans])
        return _text_of(_result(plan, matched, dialect, years), dialect)
    scan = plan.scans[0]
    rows = _where(exp.Select().from_(_table(scan.relation)), scan, dialect, numbered)
    return _text_of(_result(plan, rows, dialect, years, numbered), dialect)


def sql_of_matches(plan: Plan, dialect: Dialect, *, years: Years | None = None) -> str:
    """The SQL of a sequence's plan when its matches are a relation."""
    rows = exp.Select().from_(_table(MATCHES))
    return _text_of(_result(plan, rows, dialect, years), dialect)


def sql_of_scan(scan: Scan, dialect: Dialect) -> str:
    """The rows of one event that fulfil its condition, with the needed columns."""
    return _text_of(select_rows(scan, dialect), dialect)


def select_rows(scan: Scan, dialect: Dialect) -> exp.Select:
    columns = [column(each) for each in scan.kept]
    return _where(exp.Select(expressions=columns).from_(_table(scan.relation)), scan, dialect)


def _text_of(tree: exp.Expression, dialect: Dialect) -> str:
    return tree.sql(dialect=dialect, copy=False)


def _table(relation: str) -> exp.Table:
    return exp.Table(this=name(relation))


def _where(
    select: exp.Select, scan: Scan, dialect: Dialect, numbered: Numbered = NOT_NUMBERED
) -> exp.Select:
    if scan.where is None:
        return select

    def find(leaf: Leaf) -> Operand:
        field = leaf.field
        return Operand(column(field), scan.kinds[field], is_number=field in numbered)

    return select.where(predicate(scan.where, find, dialect), copy=False)


def _cross(plan: Plan, condition: Condition, dialect: Dialect) -> exp.Expression:
    def find(leaf: Leaf) -> Operand:
        inner, kind = operand_of(plan, leaf)
        return Operand(column(inner), kind)

    return predicate(condition, find, dialect)


def _result(
    plan: Plan,
    rows: exp.Select,
    dialect: Dialect,
    years: Years | None,
    numbered: Numbered = NOT_NUMBERED,
) -> exp.Select:
    """The SELECT of the result over rows without columns."""
    if plan.cross is not None:
        rows = rows.where(_cross(plan, plan.cross, dialect), copy=False)
    if plan.figures:
        result = _grouped(plan, rows, dialect, years, numbered)
    else:
        shown = [_as(column(output.column), at) for at, output in enumerate(plan.outputs)]
        result = rows.select(*shown, copy=False)
    result = _ordered(result, _sorts(plan))
    if plan.limit is not None:
        result = result.limit(plan.limit, copy=False)
    return result.offset(plan.offset, copy=False) if plan.offset else result


def _sorts(plan: Plan) -> list[Sort]:
    """The order by columns of the rows, or of groups by columns of the result."""
    if not plan.figures:
        return list(plan.order)
    places = plan.order_places
    return [
        Sort(result_column(place), sort.descending)
        for place, sort in zip(places, plan.order, strict=True)
    ]


def _ordered(select: exp.Select, order: Iterable[Sort]) -> exp.Select:
    sorts = [
        exp.Ordered(this=column(sort.column), desc=sort.descending, nulls_first=False)
        for sort in order
    ]
    return select.order_by(*sorts, copy=False) if sorts else select


def _grouped(
    plan: Plan, rows: exp.Select, dialect: Dialect, years: Years | None, numbered: Numbered
) -> exp.Select:
    keys: list[exp.Expression] = [column(group.column) for group in plan.groups]
    if plan.bucket:
        keys.insert(0, _label(plan.bucket, years, dialect))
    figures = [_figure(figure, dialect) for figure in plan.figures]
    shown = [_as(each, place) for place, each in enumerate([*keys, *figures])]
    grouped = rows.select(*shown, copy=False)
    if keys:
        grouped = grouped.group_by(*(key.copy() for key in keys), copy=False)
    first = len(keys) - len(plan.groups)
    converted = {
        place: _variant(column(result_column(place)), numbered[group.column])
        for place, group in enumerate(plan.groups, first)
        if group.column in numbered
    }
    if plan.bucket is not None and not plan.bucket.calendar.is_utc:
        label = column(result_column(0))
        converted[0] = buckets.time_of_label(label, plan.bucket.calendar, years, dialect)
    if not converted:
        return grouped
    subquery = exp.Subquery(this=grouped, alias=exp.TableAlias(this=name("labelled")))
    columns = [
        _as(converted.get(place, column(result_column(place))), place)
        for place in range(len(shown))
    ]
    return exp.Select(expressions=columns).from_(subquery, copy=False)


def _variant(number: exp.Expression, variants: Iterable[str]) -> exp.Expression:
    """The text of a variant from its number."""
    cases = [
        exp.If(this=exp.Literal.number(place), true=exp.Literal.string(variant))
        for place, variant in enumerate(variants)
    ]
    return exp.Case(this=number, ifs=cases)


def _label(bucket: Bucket, years: Years | None, dialect: Dialect) -> exp.Expression:
    time: exp.Expression = column(bucket.column)
    if bucket.kind.name != "date":
        return buckets.label(time, bucket.period, bucket.calendar, years, dialect)
    # A date is a local date already: it has no time zone.
    shown = exp.cast(time, exp.DataType(this=exp.DType.TIMESTAMP))
    anywhere = Calendar(week_start=bucket.calendar.week_start)
    return buckets.label(shown, bucket.period, anywhere, years, dialect)


def _figure(figure: Figure, dialect: Dialect) -> exp.Expression:
    if figure.column is None or figure.kind is None:
        return exp.Count(this=exp.Star())
    values: exp.Expression = column(figure.column)
    match figure.function:
        case "count":
            return exp.Count(this=values)
        case "count_unique":
            return exp.Count(this=exp.Distinct(expressions=[values]))
        case "total":
            if figure.is_wide:
                return _wide_total(values)
            return _total(values, figure.kind, dialect)
        case "scaled_total":
            return _scaled_total(values)
        case "avg":
            if figure.is_wide:
                return _average(_wide_total(values), values)
            if dialect == "duckdb" or figure.kind.name == "f64":
                return exp.Avg(this=values)
            return _exact_average(values, figure.kind)
        case "min":
            return exp.Min(this=values)
        case "max":
            return exp.Max(this=values)


def _exact_average(values: exp.Expression, kind: FieldType) -> exp.Expression:
    """The average of whole numbers in Spark, which adds them as floats or loses digits."""
    total = exp.cast(_total(values, kind, "spark"), exp.DataType(this=exp.DType.DOUBLE))
    return _average(total, values)


def _average(total: exp.Expression, values: exp.Expression) -> exp.Expression:
    count = exp.Nullif(this=exp.Count(this=values.copy()), expression=exp.Literal.number(0))
    return exp.Div(this=total, expression=count)


def _wide_total(values: exp.Expression) -> exp.Expression:
    plain = exp.Sum(this=values.copy())
    fits = exp.LTE(this=exp.Abs(this=plain.copy()), expression=double(DOUBLE_MAX))
    back = exp.Mul(this=_scaled_total(values), expression=double(SCALE))
    return exp.Case(ifs=[exp.If(this=fits, true=plain)], default=back)


def _scaled_total(values: exp.Expression) -> exp.Expression:
    return exp.Sum(this=exp.Mul(this=values.copy(), expression=double(1 / SCALE)))


def _total(values: exp.Expression, kind: FieldType, dialect: Dialect) -> exp.Expression:
    if kind.name == "f64":
        return exp.Sum(this=values)
    if dialect == "spark" and kind.name == "i64":
        return _total_by_digits(values)
    return exp.cast(exp.Sum(this=values), decimal(TOTAL_DIGITS))


def _total_by_digits(values: exp.Expression) -> exp.Expression:
    """The total of i64 in Spark: three sums of 21 bits each, since a sum of decimals takes several
    times as long. They do not overflow before 2^41 rows; only the first has a sign."""
    mask = exp.Literal.number((1 << _DIGIT_BITS) - 1)
    total: exp.Expression | None = None
    for place in (2, 1, 0):
        bits = exp.Literal.number(_DIGIT_BITS * place)
        digit: exp.Expression = call("shiftright", values.copy(), bits) if place else values.copy()
        if place < 2:
            digit = exp.BitwiseAnd(this=digit, expression=mask.copy())
        summed = exp.cast(exp.Sum(this=exp.paren(digit)), decimal(TOTAL_DIGITS))
        weight = exp.cast(exp.Literal.string(str(1 << _DIGIT_BITS * place)), decimal(13))
        part = exp.Mul(this=summed, expression=weight)
        total = part if total is None else exp.Add(this=total, expression=part)
    assert total is not None
    return exp.cast(exp.paren(total), decimal(TOTAL_DIGITS))


def _as(value: exp.Expression, place: int) -> exp.Expression:
    return exp.Alias(this=value, alias=name(result_column(place)))


def result_column(place: int) -> str:
    """The name in SQL of the column at this place of a result."""
    return f"__c{place}"
