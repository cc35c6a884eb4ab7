"""``strandline sql``: a SELECT over everything that a store has.

The answer is a table, JSON or lines of JSON as with every command; or CSV, or a stream of Arrow for
other programs. Bytes are shown as text where they are UTF-8, as everywhere here, in CSV too. The
answer is in memory when it is printed.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from strandline.cli import cells, groups
from strandline.cli.cells import Cells, Json, Made, Row
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output import output
from strandline.cli.viewing import look
from strandline.errors import Invalid
from strandline.store import Store

if TYPE_CHECKING:  # DuckDB is loaded when it is needed
    from strandline.query.result import Result

PLACE = groups.PLACE + 1  # among the commands of the help page
_PAGE = 1000


def sql(
    text: str | None = None,
    /,
    *,
    as_of: str | None = None,
    param: Annotated[list[str] | None, Parameter(metavar="NAME=VALUE", negative="")] = None,
    timezone: str = "UTC",
    write: Literal["csv", "arrow"] | None = None,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Print the answer to a SELECT over topics, views and tables.

    Such as `select tag, count(*) from orders group by tag`. Relations are orders, log.orders,
    kv.profiles, queue.jobs, series.gps, metrics.usage, tables.signup, …

    Parameters
    ----------
    text
        The question. Without it, the text of a piped stdin is taken.
    as_of
        A time, or a position as JSON: topics, tables, maps and series as they were then.
    param
        A value for `$NAME` in the question: a number, true, false or null, else text.
    timezone
        How times are shown, and cut into days.
    write
        CSV, or a stream of Arrow, in the place of `--output`.
    """
    question = _question(text)
    params = _params(param or [])

    def ask(store: Store) -> Result:
        answer: Result = import_module("strandline.query.sql.sql").sql(
            store, question, as_of=as_of, params=params, timezone=timezone
        )
        return answer

    try:
        answer = look(target, ask)
    except Invalid as error:
        raise _told(error) from error
    if write == "arrow":
        _write_arrow(answer)
    elif write == "csv":
        _write_csv(answer)
    else:
        _print(answer, target)


def _question(text: str | None) -> str:
    if text is not None:
        return text
    if sys.stdin.isatty():
        raise Invalid("nothing to ask: give a question, or pipe one to stdin")
    return sys.stdin.read()


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


def _print(answer: Result, target: ViewTarget) -> None:
    out = output(target.output)
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
    table = answer.arrow().rename_columns(names)
    for batch in table.to_batches(max_chunksize=_PAGE):
        yield from batch.to_pylist()


def _json(row: dict[str, Any]) -> Json:
    made: Json = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            cells.put_bytes(made, name, value)
        else:
            made[name] = _plain(value)
    return made


def _cells(row: dict[str, Any]) -> Cells:
    return {name: None if value is None else _text(value) for name, value in row.items()}


def _text(value: object) -> str:
    """A value in a table, or in CSV."""
    if isinstance(value, bytes):
        return cells.plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    plain = _plain(value)
    return cells.plain(plain if isinstance(plain, str) else msgspec.json.encode(plain).decode())


def _plain(value: object) -> object:
    """A value as JSON has it."""
    if isinstance(value, datetime | date | time):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return cells.plain(value)
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


def _write_arrow(answer: Result) -> None:
    pa = import_module("pyarrow")
    table = answer.arrow()
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
        stream.write_table(table)
    sys.stdout.buffer.flush()
