"""The pipe language: text -> a query, or an error with its position.

    cpu{host=~"web-", region!=eu}[1h] | field(load) | window(5m) | avg by (host) | topk(3)

    query     name [ { matchers } ] [ [ range ] ] [ | stage ]...
    name      letters, digits, _ . : - and any text in double quotes
    matcher   tag = value    tag != value    tag =~ "expression"    tag !~ "expression"
    range     1h             the last hour, up to now
              a..b           from a on and before b; each a time (2026-01-02T03:04:05Z), now,
                             -1h (before now), or nanoseconds since 1970
    stage     field(name)                      the field; the first stage
              window(5m)                       for the next aggregate: windows of five minutes
              avg sum count min max first last percentile(p) rate rate(1m)     [ by (tag, ...) ]
                                               aggregates; with by (*) each series is a group
              group_by(tag, ...)               the same as by, before the aggregate
              rate rate(1m) delta              without a window: from each value to the next
              where(value > 10)                = != < <= > >=
              math(value * 8 / 1000)           + - * / % and parentheses
              abs ceil floor round round(2)
              topk(n) bottomk(n)               the groups with the highest or lowest average
              limit(n)                         the first values of each group
              alias(name)                      the name of the values

stages.py has the stages, executor.py their valid orders.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from strandline.errors import Invalid
from strandline.views.metrics.aggregates import SECOND_NS, AggregateFunction, percentile
from strandline.views.metrics.query.durations import DURATION, MOMENT, duration_ns, moment_ns
from strandline.views.metrics.storage.series_index import Matcher
from strandline.views.metrics.value_types import AT_MAX

TEXT_MAX = 10_000
"""The maximal number of characters of a query."""


class QueryTime(NamedTuple):
    """A time, absolute or relative to now."""

    at: int
    is_before_now: bool = False

    def resolved(self, now_ns: int) -> int:
        return now_ns - self.at if self.is_before_now else self.at


class QueryRange(NamedTuple):
    """From ``first`` on and before ``next``; without ``next``, up to and including now."""

    first: QueryTime
    next: QueryTime | None


class Stage(NamedTuple):
    """One step after a pipe."""

    name: str
    arguments: tuple[Any, ...]
    offset: int
    """Its offset in the text."""


class MetricsQuery(NamedTuple):
    """A parsed query."""

    measurement: str
    matchers: tuple[Matcher, ...]
    range: QueryRange | None
    stages: tuple[Stage, ...]


_GRAMMAR = rf"""
start: name [matchers] [range] stage*
matchers: "{{" [matcher ("," matcher)*] "}}"
matcher: name OPERATOR value
value: name | NUMBER
range: "[" DURATION "]" -> last
     | "[" moment ".." moment "]" -> between
moment: MOMENT | BEFORE | NOW | NUMBER
stage: "|" step
?step: WINDOW "(" DURATION ")"
     | AGGREGATE [by]
     | PERCENTILE "(" NUMBER ")" [by]
     | RATE ["(" DURATION ")"] [by]
     | PLAIN
     | ROUND ["(" NUMBER ")"]
     | WHERE "(" "value" COMPARISON number ")"
     | NAMED "(" name ")"
     | GROUP_BY "(" names ")"
     | COUNTED "(" NUMBER ")"
     | MATH "(" expression ")"
by: "by" "(" names ")"
names: [name ("," name)*] | "*" -> each
expression: expression SIGN product -> binary
     | product
product: product FACTOR operand -> binary
     | operand
operand: NUMBER -> constant
     | "value" -> variable
     | "(" expression ")" -> inner
     | SIGN operand -> signed
number: NUMBER | SIGN NUMBER
name: NAME | STRING

OPERATOR: "=~" | "!~" | "!=" | "="
COMPARISON: "<=" | ">=" | "!=" | "=" | "<" | ">"
WINDOW: "window"
AGGREGATE.2: "avg" | "sum" | "count" | "min" | "max" | "first" | "last"
PERCENTILE: "percentile"
RATE: "rate"
PLAIN.2: "delta" | "abs" | "ceil" | "floor"
ROUND: "round"
WHERE: "where"
NAMED: "field" | "alias"
GROUP_BY: "group_by"
COUNTED: "topk" | "bottomk" | "limit"
MATH: "math"
SIGN: "+" | "-"
FACTOR: "*" | "/" | "%"
MOMENT.3: /{MOMENT}/
DURATION.2: /{DURATION}/
BEFORE: /(?:now)?-{DURATION}/
NOW: "now"
NUMBER: /[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/
NAME: /[A-Za-z_](?:[A-Za-z0-9_:-]|\.(?!\.))*/
STRING: /"(?:[^"\\\n]|\\.)*"/
%ignore /[ \t\r\n]+/
"""

_TOKEN_NAMES = {
    "AGGREGATE": "avg, sum, count, min, max, first, last",
    "PLAIN": "delta, abs, ceil, floor",
    "NAMED": "field, alias",
    "COUNTED": "topk, bottomk, limit",
    "OPERATOR": "= != =~ !~",
    "COMPARISON": "= != < <= > >=",
    "SIGN": "+ -",
    "FACTOR": "* / %",
    "NAME": "a name",
    "STRING": "",
    "NUMBER": "a number",
    "DURATION": "a duration (5m)",
    "MOMENT": "a time (2026-01-02T03:04:05Z)",
    "BEFORE": "-1h",
    "$END": "the end",
    "LBRACE": "{",
    "RBRACE": "}",
    "LSQB": "[",
    "RSQB": "]",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "VBAR": "|",
    "STAR": "*",
    "__ANON_0": "..",
}


class _SyntaxError(Exception):
    """Something at an offset of the text is not valid."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class _QueryBuilder(Transformer[Token, MetricsQuery]):
    """Builds the query from the parse tree, bottom up."""

    def start(self, parts: list[Any]) -> MetricsQuery:
        name, matchers, time_range, *stages = parts
        return MetricsQuery(name, tuple(matchers or ()), time_range, tuple(stages))

    def name(self, parts: list[Token]) -> str:
        (token,) = parts
        if token.type == "STRING":
            return _unquoted(token)
        return str(token)

    def value(self, parts: list[Any]) -> str:
        return str(parts[0])

    def matchers(self, parts: list[Any]) -> list[Matcher]:
        return [part for part in parts if part is not None]

    def matcher(self, parts: list[Any]) -> Matcher:
        tag, operator, value = parts
        return Matcher(tag, str(operator), value)  # type: ignore[arg-type]  # by the grammar

    def last(self, parts: list[Token]) -> QueryRange:
        return QueryRange(QueryTime(_duration(parts[0]), is_before_now=True), None)

    def between(self, parts: list[QueryTime]) -> QueryRange:
        return QueryRange(parts[0], parts[1])

    def moment(self, parts: list[Token]) -> QueryTime:
        (token,) = parts
        if token.type == "NOW":
            return QueryTime(0, is_before_now=True)
        if token.type == "BEFORE":
            return QueryTime(_duration(token, token.partition("-")[2]), is_before_now=True)
        if token.type == "MOMENT":
            try:
                return QueryTime(moment_ns(str(token)))
            except Invalid as error:
                raise _SyntaxError(token.start_pos or 0, str(error)) from error
        if not token.isdigit() or int(token) > AT_MAX:
            raise _SyntaxError(token.start_pos or 0, "nanoseconds since 1970 are a whole number")
        return QueryTime(int(token))

    def stage(self, parts: list[Any]) -> Stage:
        (step,) = parts
        tokens = step.children if hasattr(step, "children") else [step]
        word, *arguments = tokens
        return Stage(str(word), tuple(_argument(each) for each in arguments), word.start_pos)

    def by(self, parts: list[Any]) -> Any:
        return parts[0]

    def names(self, parts: list[Any]) -> tuple[str, ...]:
        return tuple(part for part in parts if part is not None)

    def each(self, _parts: list[Any]) -> str:
        return "*"

    def number(self, parts: list[Token]) -> float:
        return float("".join(parts))

    def constant(self, parts: list[Token]) -> list[Any]:
        return [float(parts[0])]

    def variable(self, _parts: list[Any]) -> list[Any]:
        return ["value"]

    def inner(self, parts: list[list[Any]]) -> list[Any]:
        return parts[0]

    def signed(self, parts: list[Any]) -> list[Any]:
        return [0.0, *parts[1], "-"] if parts[0] == "-" else parts[1]

    def binary(self, parts: list[Any]) -> list[Any]:
        left, sign, right = parts
        return [*left, *right, str(sign)]

    def product(self, parts: list[Any]) -> Any:
        return parts[0]

    def expression(self, parts: list[Any]) -> Any:
        return parts[0]


@functools.cache
def _parser() -> Lark:
    """The parser. Built at first use: that takes longer than opening a store."""
    return Lark(
        _GRAMMAR,
        parser="lalr",
        lexer="contextual",
        transformer=_QueryBuilder(),
        maybe_placeholders=True,
    )


def parse(text: str) -> MetricsQuery:
    """Parse a query; raises Invalid with line, column and the expected tokens."""
    if len(text) > TEXT_MAX:
        raise Invalid(f"a query has at most {TEXT_MAX} characters, not {len(text)}")
    try:
        parsed: Any = _parser().parse(text)
    except _SyntaxError as error:
        raise error_at(text, error.offset, str(error)) from error
    except UnexpectedInput as error:
        offset = error.pos_in_stream if isinstance(error.pos_in_stream, int) else len(text)
        if isinstance(error, UnexpectedToken) and error.token.type == "$END":
            offset = len(text)
        raise error_at(text, max(0, offset), f"expected {_expected(error)}") from error
    query: MetricsQuery = parsed
    return query


def error_at(text: str, offset: int, reason: str) -> Invalid:
    """An error that shows its position in the text."""
    before = text[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1)
    excerpt = text.split("\n")[line - 1]
    start = max(0, column - 60)
    excerpt, mark = excerpt[start : column + 40], " " * (column - start) + "^"
    return Invalid(f"line {line}, column {column + 1}: {reason}\n  {excerpt}\n  {mark}")


def _expected(error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedToken):
        names = error.accepts or error.expected
    elif isinstance(error, UnexpectedCharacters):
        names = error.allowed or set()
    else:
        names = set()
    words = {
        word for name in names for word in _TOKEN_NAMES.get(name, name.lower()).split(", ") if word
    }
    *others, last = sorted(words) or ["something else"]
    return f"{', '.join(others)} or {last}" if others else last


def _argument(part: Any) -> Any:
    if not isinstance(part, Token):
        return part
    if part.type == "DURATION":
        return _duration(part)
    return float(part) if part.type == "NUMBER" else str(part)


def _duration(token: Token, text: str | None = None) -> int:
    try:
        return duration_ns(str(token) if text is None else text)
    except Invalid as error:
        raise _SyntaxError(token.start_pos or 0, str(error)) from error


def _unquoted(token: Token) -> str:
    return token[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def aggregate_of(stage: Stage) -> tuple[AggregateFunction, Any] | None:
    """The aggregate and the groups of a stage; None if it is not an aggregate."""
    if stage.name == "percentile":
        return percentile(stage.arguments[0]), stage.arguments[1]
    if stage.name == "rate":
        per_ns, by = stage.arguments
        return AggregateFunction("rate", per_ns=per_ns or SECOND_NS), by
    if stage.name in ("avg", "sum", "count", "min", "max", "first", "last"):
        return AggregateFunction(stage.name), stage.arguments[0]
    return None
