"""``strandline sql``: a SELECT over the topics, views and tables of a store.

The result is printed as a table, JSON or lines of JSON as with every command; or as CSV or an
Arrow stream for other programs. Bytes are shown as text if they are UTF-8, also in CSV. The whole
result is in memory before it is printed.
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
from strandline.cli.engine_options import DEFAULT_QUERY_ENGINE, QueryEngineOptions
from strandline.cli.input.repl import Prompt, names_in
from strandline.cli.open_store import is_served
from strandline.cli.open_view import run_query
from strandline.cli.options import VIEW_TARGET, OutputFormat, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.columnar import ArrowOutput
from strandline.cli.output.formatting import Cells, Json, OutputRow, PreparedRow
from strandline.cli.output.output import output
from strandline.errors import Invalid, StrandlineError
from strandline.store import Store

if TYPE_CHECKING:  # DuckDB is imported when it is needed
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
    answerer: QueryEngineOptions = DEFAULT_QUERY_ENGINE,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Run a SELECT over topics, views and tables.

    Example: `select tag, count(*) from orders group by tag`. Relations are orders, log.orders,
    kv.profiles, queue.jobs, series.gps, metrics.usage, tables.signup, …

    Parameters
    ----------
    text
        The query. Default: the text of a piped stdin; on a terminal a prompt.
    as_of
        A time, or a position as JSON: topics, tables, maps and series as of then.
    param
        A value for `$NAME` in the query: a number, true, false or null, else text.
    timezone
        Time zone for times and for the limits of days.
    write
        CSV, or an Arrow stream, instead of `--output`.
    """
    options = _QueryOptions(as_of, _params(param or []), timezone, answerer)
    shape = write or target.output
    if text is None and sys.stdin.isatty():
        _prompt(target, options, shape)
    else:
        query = sys.stdin.read() if text is None else text
        print_result(_run_query(query, options, target), shape)


class _QueryOptions(NamedTuple):
    """Options of a query, besides its text."""

    as_of: str | None
    params: dict[str, Any] | None
    timezone: str
    answerer: QueryEngineOptions


def _run_query(query: str, options: _QueryOptions, target: ViewTarget) -> Result:
    def execute(store: Store) -> Result:
        if is_served(store):
            return _run_on_server(store, query, options)
        if options.answerer.engine == "spark":
            spark_options = (options.as_of, options.params, options.timezone)
            return options.answerer.sql(store, query, *spark_options)
        result: Result = import_module("strandline.query.sql.sql").sql(
            store, query, as_of=options.as_of, params=options.params, timezone=options.timezone
        )
        return result

    try:
        return run_query(target, execute)
    except Invalid as error:
        raise _explained(error) from error


def _prompt(target: ViewTarget, options: _QueryOptions, shape: OutputFormat) -> None:
    """Run queries from a terminal, each closed by `;` or an empty line."""
    words = [*KEYWORDS, *run_query(target, names_in)]
    with Prompt("sql", words, lambda text: text.rstrip(" ").endswith((";", "\n"))) as prompt:
        for query in prompt.commands():
            try:
                print_result(_run_query(query, options, target), shape)
            except StrandlineError as error:
                errors.report(error)


def _run_on_server(store: Store, query: str, options: _QueryOptions) -> Result:
    options.answerer.reject_server()
    if options.timezone != "UTC":
        raise Invalid("a server returns times in UTC: use `at time zone` in the query")
    return store.sql(query, as_of=options.as_of, params=options.params)


def _params(texts: Sequence[str]) -> dict[str, Any] | None:
    params: dict[str, Any] = {}
    for each in texts:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            raise Invalid(f"--param {each!r}: write it as NAME=VALUE, for $NAME in the query")
        try:
            params[name] = msgspec.json.decode(value, type=int | float | bool | str | None)
        except msgspec.MsgspecError:
            params[name] = value
    return params or None


def _explained(error: Invalid) -> Invalid:
    """An error of a query with its position in the message, and a hint."""
    message, hint = getattr(error, "message", ""), getattr(error, "hint", "")
    if not message:
        return error
    line, column = getattr(error, "line", 0), getattr(error, "column", 0)
    explained = Invalid(f"line {line}, column {column}: {message}" if line else message)
    explained.add_note(hint or "docs/guide/sql.md has examples; DESCRIBE name shows the columns")
    return explained


def print_result(result: Result, shape: OutputFormat) -> None:
    """Print rows; CSV and Arrow have the columns of the result, even without rows. Notes go to
    stderr."""
    for note in result.notes:
        print(f"note: {formatting.plain(note)}", file=sys.stderr)
    if shape == "arrow":
        ArrowOutput().table(result.arrow())
    elif shape == "csv":
        _write_csv(result)
    else:
        _print(result, shape)


def _print(result: Result, shape: OutputFormat) -> None:
    out = output(shape)
    page: list[OutputRow] = []
    for row in _rows(result):
        page.append(PreparedRow(_json(row), _cells(row)))
        if len(page) == _PAGE:
            out.rows(page)
            page = []
    out.rows(page)
    out.end()


def _rows(result: Result) -> Iterator[dict[str, Any]]:
    """Rows with unique column names, and times in the requested zone."""
    names: list[str] = []
    for name in result.columns:
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    values = import_module("strandline.query.execute.time_values")
    time_form = values.TimeForm(values.text_of_day, partial(_moment, values.text_of_moment))
    for batch in result.arrow().to_batches(max_chunksize=_PAGE):
        columns = [values.values(column, time_form) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _moment(text_of: Callable[..., str], micros: int, zone: str | None) -> str:
    return text_of(micros, zone, timespec="auto", shown_in=zone or "UTC")


def _json(row: dict[str, Any]) -> Json:
    json: Json = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            formatting.put_bytes(json, name, value)
        else:
            json[name] = _plain(value)
    return json


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
    """A value as a JSON type."""
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


def _write_csv(result: Result) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    for row in _rows(result):
        writer.writerow("" if value is None else _text(value) for value in row.values())
