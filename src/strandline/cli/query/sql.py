"""``strandline sql``: a SELECT over everything that a store has.

The answer is a table, JSON or lines of JSON as with every command; or CSV, or a stream of Arrow for
other programs. Bytes are shown as text where they are UTF-8, as everywhere here, in CSV too. The
answer is in memory when it is printed.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import time
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from cyclopts import Parameter

from strandline.cli import errors
from strandline.cli.engine_options import ITSELF, Answerer
from strandline.cli.input.repl import Prompt, names_in
from strandline.cli.open_store import is_served
from strandline.cli.open_view import look
from strandline.cli.options import VIEW_TARGET, Shape, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.columnar import ArrowOutput
from strandline.cli.output.formatting import Cells, Json, Made, Row
from strandline.cli.output.output import output
from strandline.errors import Invalid, StrandlineError
from strandline.store import Store

if TYPE_CHECKING:  # DuckDB is loaded when it is needed
    from strandline.query.execute.result import Result

_PAGE = 1000
KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "OFFSET", "AS", "ON"),
    *("JOIN", "LEFT", "ASOF", "UNION", "ALL", "DISTINCT", "WITH", "CASE", "WHEN", "THEN", "ELSE"),
    *("END", "AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "BETWEEN", "CAST", "INTERVAL"),
    *("COUNT", "SUM", "AVG", "MIN", "MAX", "OVER", "PARTITION", "DESCRIBE", "EXPLAIN"),
)


def sql(
    text: str | None = None,
    /,
    *,
    as_of: str | None = None,
    param: Annotated[list[str] | None, Parameter(metavar="NAME=VALUE", negative="")] = None,
    timezone: str = "UTC",
    write: Literal["csv", "arrow"] | None = None,
    answerer: Answerer = ITSELF,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Run a SELECT over topics, views and tables.

    Such as `select tag, count(*) from orders group by tag`. Relations are orders, log.orders,
    kv.profiles, queue.jobs, series.gps, metrics.usage, tables.signup, …

    Parameters
    ----------
    text
        The question. Without it, the text of a piped stdin is taken; on a terminal there is a
        prompt.
    as_of
        A time, or a position as JSON: topics, tables, maps and series as they were then.
    param
        A value for `$NAME` in the question: a number, true, false or null, else text.
    timezone
        How times are shown, and cut into days.
    write
        CSV, or a stream of Arrow, in the place of `--output`.
    """
    asked = Asked(as_of, _params(param or []), timezone, answerer)
    shape = write or target.output
    if text is None and sys.stdin.isatty():
        _prompt(target, asked, shape)
    else:
        question = sys.stdin.read() if text is None else text
        print_answer(_answer(question, asked, target), shape)


class Asked(NamedTuple):
    """How a question is asked, besides its text."""

    as_of: str | None
    params: dict[str, Any] | None
    timezone: str
    answerer: Answerer


def _answer(question: str, asked: Asked, target: ViewTarget) -> Result:
    def ask(store: Store) -> Result:
        if is_served(store):
            return _sent(store, question, asked)
        if asked.answerer.engine == "spark":
            given = (asked.as_of, asked.params, asked.timezone)
            return asked.answerer.sql(store, question, *given)
        answer: Result = import_module("strandline.query.sql.sql").sql(
            store, question, as_of=asked.as_of, params=asked.params, timezone=asked.timezone
        )
        return answer

    try:
        return look(target, ask)
    except Invalid as error:
        raise _told(error) from error


def _prompt(target: ViewTarget, asked: Asked, shape: Shape) -> None:
    """Questions from a terminal, each closed by `;` or an empty line."""
    words = [*KEYWORDS, *look(target, names_in)]
    with Prompt("sql", words, lambda text: text.rstrip(" ").endswith((";", "\n"))) as prompt:
        for question in prompt.commands():
            try:
                print_answer(_answer(question, asked, target), shape)
            except StrandlineError as error:
                errors.report(error)


def _sent(store: Store, question: str, asked: Asked) -> Result:
    asked.answerer.refuse_server()
    if asked.timezone != "UTC":
        raise Invalid("a server shows times in UTC: ask for `at time zone` in the question itself")
    return store.sql(question, as_of=asked.as_of, params=asked.params)


def _params(given: Sequence[str]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            raise Invalid(f"--param {each!r}: write it as NAME=VALUE, for $NAME in the question")
        try:
            found[name] = msgspec.json.decode(value, type=int | float | bool | str | None)
        except msgspec.MsgspecError:
            found[name] = value
    return found or None


def _told(error: Invalid) -> Invalid:
    """An error of a question as two lines: where and what, and what may have been meant."""
    message, hint = getattr(error, "message", ""), getattr(error, "hint", "")
    if not message:
        return error
    line, column = getattr(error, "line", 0), getattr(error, "column", 0)
    told = Invalid(f"line {line}, column {column}: {message}" if line else message)
    told.add_note(hint or "docs/guide/sql.md has examples; DESCRIBE name shows the columns")
    return told


def print_answer(answer: Result, shape: Shape) -> None:
    """Print rows; CSV and Arrow have the columns of the answer, also when it has no row. Notes go
    to stderr."""
    for note in answer.notes:
        print(f"note: {formatting.plain(note)}", file=sys.stderr)
    if shape == "arrow":
        ArrowOutput().table(answer.arrow())
    elif shape == "csv":
        _write_csv(answer)
    else:
        _print(answer, shape)


def _print(answer: Result, shape: Shape) -> None:
    out = output(shape)
    page: list[Row] = []
    for row in _rows(answer):
        page.append(Made(_json(row), _cells(row)))
        if len(page) == _PAGE:
            out.rows(page)
            page = []
    out.rows(page)
    out.end()


def _rows(answer: Result) -> Iterator[dict[str, Any]]:
    """Rows with names that are all different, times in the zone that was asked for."""
    names: list[str] = []
    for name in answer.columns:
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    values = import_module("strandline.query.execute.time_values")
    form = values.TimeForm(values.text_of_day, partial(_moment, values.text_of_moment))
    for batch in answer.arrow().to_batches(max_chunksize=_PAGE):
        columns = [values.values(column, form) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _moment(text_of: Callable[..., str], micros: int, zone: str | None) -> str:
    return text_of(micros, zone, timespec="auto", shown_in=zone or "UTC")


def _json(row: dict[str, Any]) -> Json:
    made: Json = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            formatting.put_bytes(made, name, value)
        else:
            made[name] = _plain(value)
    return made


def _cells(row: dict[str, Any]) -> Cells:
    return {name: None if value is None else _text(value) for name, value in row.items()}


def _text(value: object) -> str:
    """A value in a table, or in CSV."""
    if isinstance(value, bytes):
        return formatting.plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    plain = _plain(value)
    return formatting.plain(
        plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
    )


def _plain(value: object) -> object:
    """A value as JSON has it."""
    if isinstance(value, time):
        return value.isoformat()
    if isinstance(value, bytes):
        return formatting.plain(value)
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _write_csv(answer: Result) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in _rows(answer):
        writer.writerow("" if value is None else _text(value) for value in row.values())
