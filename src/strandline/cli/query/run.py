"""``strandline run``: the command language over event tables, one command, a file, or a prompt.

A file has any number of commands, each closed by ``;``. At a prompt a command ends with its line,
unless a bracket is still open. Commands that only read open the store read-only, while another
process may write; the others open it for writing, and DEFINE creates it if it does not exist.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from strandline.cli import errors
from strandline.cli.engine_options import DEFAULT_QUERY_ENGINE, QueryEngineOptions
from strandline.cli.input.repl import Prompt, names_in
from strandline.cli.open_store import is_served, open_target_to_read
from strandline.cli.open_view import open_to_write, run_query
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow, fact_row
from strandline.cli.output.output import output
from strandline.cli.output.progress import Steps
from strandline.cli.query import sql
from strandline.errors import Invalid, StrandlineError
from strandline.store import Store

if TYPE_CHECKING:  # DuckDB and the grammar are imported when they are needed
    from strandline.query.execute.result import Result

_READING = {"Query", "Replay", "Show", "Explain", "Plot", "Ping", "ListUsers", "ShowPermissions"}
_CREATING = {"Define", "Batch", "CreateUser"}
_OPEN, _CLOSED = "[{(", "]})"
_PAGE = 1000
KEYWORDS = (
    *("DEFINE", "FIELDS", "STORE", "FOR", "PAYLOAD", "QUERY", "WHERE", "BY", "PER", "RETURN"),
    *("LIMIT", "OFFSET", "ORDER", "ASC", "DESC", "COUNT", "UNIQUE", "TOTAL", "AVG", "MIN", "MAX"),
    *("FOLLOWED", "PRECEDED", "WITHIN", "LINKED", "SINCE", "USING", "AND", "OR", "NOT", "IN"),
    *("REMEMBER", "SHOW", "REPLAY", "EXPLAIN", "PLOT", "FLUSH", "PING", "BATCH", "DELETE"),
    *("CREATE", "USER", "LIST", "USERS", "GRANT", "REVOKE", "PERMISSIONS", "TO", "ON", "FROM"),
    *("HOUR", "DAY", "WEEK", "MONTH", "YEAR"),
)


def run(
    text: str | None = None,
    /,
    *,
    file: Annotated[str | None, Parameter(name=["--file", "-f"])] = None,
    answerer: QueryEngineOptions = DEFAULT_QUERY_ENGINE,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Run commands of event tables: DEFINE, STORE, QUERY, ...

    Example: `QUERY pay COUNT, TOTAL amount BY currency`. Without a command, a terminal shows a
    prompt.

    Parameters
    ----------
    text
        The command. Default: the commands of a piped stdin.
    file
        A file with commands, each closed by `;`.
    """
    if text is not None and file is not None:
        raise Invalid("give a command or --file, not both")
    if text is not None:
        _run(text, target, answerer)
    elif file is None and sys.stdin.isatty():
        _prompt(target, answerer)
    else:
        for command in commands_of(_read(file)):
            _run(command, target, answerer)


def commands_of(text: str) -> Iterator[str]:
    """The commands of a text, each closed by a semicolon outside of brackets and strings."""
    start, depth, quoted, escaped = 0, 0, False, False
    for position, letter in enumerate(text):
        if quoted:
            quoted = escaped or letter != '"'
            escaped = not escaped and letter == "\\"
        elif letter == '"':
            quoted = True
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSED:
            depth -= 1
        elif letter == ";" and depth <= 0:
            if text[start:position].strip():
                yield text[start:position].strip()
            start, depth = position + 1, 0
    if text[start:].strip():
        yield text[start:].strip()


def _run(text: str, target: ViewTarget, answerer: QueryEngineOptions) -> None:
    """Run one command, in a store opened for it."""
    if target.is_remote:
        answerer.reject_server()
        with open_target_to_read(target) as store, _results_printed(text, target):
            _print(_run_on_server(store, text), target)
        return
    kind = type(_parsed(text)).__name__
    if kind in _READING:
        _print(run_query(target, _query(text, answerer)), target)
        return
    with open_to_write(target, create=kind in _CREATING) as store, _results_printed(text, target):
        _print(_run_here(store, text, answerer), target)


@contextlib.contextmanager
def _results_printed(text: str, target: ViewTarget) -> Iterator[None]:
    """When a BATCH fails, print the results of the commands that completed."""
    try:
        yield
    except StrandlineError as error:
        if error.results:
            count = len(error.results)
            _print_batch(_parsed(text).texts[:count], error.results, target)
            completed = "1 command" if count == 1 else f"{count} commands"
            error.add_note(
                f"{completed} of the batch completed before it; {errors.explain(error)[1]}"
            )
        raise


def _run_on_server(store: Store, text: str) -> Result:
    """Run a command on a server, which parses it itself."""
    try:
        return store.run(text)
    except Invalid as error:
        raise _explained(error) from error


def _query(text: str, answerer: QueryEngineOptions) -> Callable[[Store], Result]:
    def execute(store: Store) -> Result:
        return _run_here(store, text, answerer)

    return execute


def _run_here(store: Store, text: str, answerer: QueryEngineOptions) -> Result:
    try:
        command = _parsed(text)
        if type(command).__name__ != "Remember" or answerer.engine == "spark":
            return answerer.run(store, text)
        with Steps() as bar:  # the first run may take a while
            store.queries.remembered.remember(command, progress=bar.show)
        return store.run(f"SHOW {command.alias}")
    except Invalid as error:
        raise _explained(error) from error


def _parsed(text: str) -> Any:
    try:
        return import_module("strandline.query.language.parser").parse(text)
    except Invalid as error:
        raise _explained(error) from error


def _prompt(target: ViewTarget, answerer: QueryEngineOptions) -> None:
    """Run commands from a terminal until it is closed. Errors are printed."""
    with open_to_write(target, create=True) as store:
        words = [*KEYWORDS, *names_in(store)]
        with Prompt("strandline", words, _is_whole) as prompt:
            for text in prompt.commands():
                try:
                    served = is_served(store)
                    with _results_printed(text, target):
                        result = (
                            _run_on_server(store, text)
                            if served
                            else _run_here(store, text, answerer)
                        )
                    _print(result, target)
                except StrandlineError as error:
                    errors.report(error)


def _is_whole(text: str) -> bool:
    """Whether no bracket is open."""
    return sum(map(text.count, _OPEN)) <= sum(map(text.count, _CLOSED))


def _read(file: str | None) -> str:
    if file is None:
        return sys.stdin.read()
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read {file}: {error}") from error


def _print(result: Result, target: ViewTarget) -> None:
    if result.results:
        names = [str(row["command"]) for row in result]
        _print_batch(names, result.results, target)
        return
    if target.output in ("csv", "arrow") and result.columns:
        sql.print_result(result, target.output)
        return
    out = output(target.output)
    if not len(result):
        if result.columns and target.output != "table":
            out.end()
        else:
            out.one(fact_row({"message": result.message}))
        return
    page: list[OutputRow] = []
    for row in result:
        page.append(_row(row))
        if len(page) == _PAGE:
            out.rows(page)
            page = []
    out.rows(page)
    out.end()


def _print_batch(commands: Sequence[str], results: Sequence[Result], target: ViewTarget) -> None:
    """The result of each command: in a table one after the other, else a row for each."""
    if target.output == "table":
        for command, result in zip(commands, results, strict=True):
            output("table").notice(PreparedRow({}, {"notice": formatting.plain(command)}))
            _print(result, target)
        return
    out = output(target.output)
    for command, result in zip(commands, results, strict=True):
        rows = [_row(row).json for row in result]
        out.rows([fact_row({"command": command, "message": result.message, "rows": rows})])
    out.end()


def _row(row: dict[str, Any]) -> OutputRow:
    json: Json = {name: _plain(value) for name, value in row.items()}
    texts = {name: None if value is None else _text(value) for name, value in json.items()}
    return PreparedRow(json, texts)


def _plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    return value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return formatting.plain(str(value))


def _explained(error: Invalid) -> Invalid:
    """An error of a command with its position in the message, and a hint."""
    message, hint = getattr(error, "message", ""), getattr(error, "hint", "")
    if not message:
        return error
    line, column = getattr(error, "line", 0), getattr(error, "column", 0)
    explained = Invalid(f"line {line}, column {column}: {message}" if line else message)
    explained.results = error.results
    explained.add_note(hint or "docs/guide/queries.md lists the commands")
    return explained
