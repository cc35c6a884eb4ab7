"""``strandline run``: the command language over event tables, one command, a file, or a prompt.

A file has any number of commands, each closed by ``;``. At a prompt a command ends with its line,
unless a bracket is still open. Commands that only ask open the store read-only, beside a process
that writes; the others open it for writing, and DEFINE makes one if there is none.
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
from strandline.cli.engine_options import ITSELF, Answerer
from strandline.cli.input.repl import Prompt, names_in
from strandline.cli.open_store import is_served, reading
from strandline.cli.open_view import look, writing
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, Made, Row, fact_row
from strandline.cli.output.output import output
from strandline.cli.output.progress import Steps
from strandline.cli.query import sql
from strandline.errors import Invalid, StrandlineError
from strandline.store import Store

if TYPE_CHECKING:  # DuckDB and the grammar are loaded when they are needed
    from strandline.query.execute.result import Result

_ASKING = {"Query", "Replay", "Show", "Explain", "Plot", "Ping", "ListUsers", "ShowPermissions"}
_MAKING = {"Define", "Batch", "CreateUser"}
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
    answerer: Answerer = ITSELF,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Run commands of event tables: DEFINE, STORE, QUERY, ...

    Such as `QUERY pay COUNT, TOTAL amount BY currency`. On a terminal without a command there is a
    prompt.

    Parameters
    ----------
    text
        The command. Without it, those of a piped stdin are taken.
    file
        A file with commands, each closed by `;`.
    """
    if text is not None and file is not None:
        raise Invalid("give a command or --file, not both")
    if text is not None:
        _do(text, target, answerer)
    elif file is None and sys.stdin.isatty():
        _prompt(target, answerer)
    else:
        for command in commands_of(_read(file)):
            _do(command, target, answerer)


def commands_of(text: str) -> Iterator[str]:
    """The commands of a text, each closed by a semicolon that is in no bracket and no string."""
    begun, depth, quoted, escaped = 0, 0, False, False
    for place, letter in enumerate(text):
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
            if text[begun:place].strip():
                yield text[begun:place].strip()
            begun, depth = place + 1, 0
    if text[begun:].strip():
        yield text[begun:].strip()


def _do(text: str, target: ViewTarget, answerer: Answerer) -> None:
    """One command, in a store of its own."""
    if target.is_remote:
        answerer.refuse_server()
        with reading(target) as store, _results_printed(text, target):
            _print(_sent(store, text), target)
        return
    kind = type(_parsed(text)).__name__
    if kind in _ASKING:
        _print(look(target, _asked(text, answerer)), target)
        return
    with writing(target, create=kind in _MAKING) as store, _results_printed(text, target):
        _print(_done(store, text, answerer), target)


@contextlib.contextmanager
def _results_printed(text: str, target: ViewTarget) -> Iterator[None]:
    """When a BATCH fails, print the results of the commands that were done."""
    try:
        yield
    except StrandlineError as error:
        if error.results:
            count = len(error.results)
            _print_batch(_parsed(text).texts[:count], error.results, target)
            done = "1 command" if count == 1 else f"{count} commands"
            error.add_note(f"{done} of the batch done before it; {errors.explain(error)[1]}")
        raise


def _sent(store: Store, text: str) -> Result:
    """A server parses commands itself."""
    try:
        return store.run(text)
    except Invalid as error:
        raise _told(error) from error


def _asked(text: str, answerer: Answerer) -> Callable[[Store], Result]:
    def ask(store: Store) -> Result:
        return _done(store, text, answerer)

    return ask


def _done(store: Store, text: str, answerer: Answerer) -> Result:
    try:
        command = _parsed(text)
        if type(command).__name__ != "Remember" or answerer.engine == "spark":
            return answerer.run(store, text)
        with Steps() as bar:  # the first run may take long
            store.questions.remembered.remember(command, progress=bar.show)
        return store.run(f"SHOW {command.alias}")
    except Invalid as error:
        raise _told(error) from error


def _parsed(text: str) -> Any:
    try:
        return import_module("strandline.query.language.parser").parse(text)
    except Invalid as error:
        raise _told(error) from error


def _prompt(target: ViewTarget, answerer: Answerer) -> None:
    """Commands from a terminal until it is closed. What is wrong with one is told; it goes on."""
    with writing(target, create=True) as store:
        words = [*KEYWORDS, *names_in(store)]
        with Prompt("strandline", words, _is_whole) as prompt:
            for text in prompt.commands():
                try:
                    served = is_served(store)
                    with _results_printed(text, target):
                        done = _sent(store, text) if served else _done(store, text, answerer)
                    _print(done, target)
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


def _print(answer: Result, target: ViewTarget) -> None:
    if answer.results:
        names = [str(row["command"]) for row in answer]
        _print_batch(names, answer.results, target)
        return
    if target.output in ("csv", "arrow") and answer.columns:
        sql.print_answer(answer, target.output)
        return
    out = output(target.output)
    if not len(answer):
        if answer.columns and target.output != "table":
            out.end()
        else:
            out.one(fact_row({"message": answer.message}))
        return
    page: list[Row] = []
    for row in answer:
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
            output("table").notice(Made({}, {"notice": formatting.plain(command)}))
            _print(result, target)
        return
    out = output(target.output)
    for command, result in zip(commands, results, strict=True):
        rows = [_row(row).json for row in result]
        out.rows([fact_row({"command": command, "message": result.message, "rows": rows})])
    out.end()


def _row(row: dict[str, Any]) -> Row:
    json: Json = {name: _plain(value) for name, value in row.items()}
    texts = {name: None if value is None else _text(value) for name, value in json.items()}
    return Made(json, texts)


def _plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    return value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return formatting.plain(str(value))


def _told(error: Invalid) -> Invalid:
    """An error of a command as two lines: where and what, and what may have been meant."""
    message, hint = getattr(error, "message", ""), getattr(error, "hint", "")
    if not message:
        return error
    line, column = getattr(error, "line", 0), getattr(error, "column", 0)
    told = Invalid(f"line {line}, column {column}: {message}" if line else message)
    told.results = error.results
    told.add_note(hint or "docs/guide/queries.md has the commands")
    return told
