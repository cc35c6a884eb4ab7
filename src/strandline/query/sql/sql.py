"""SQL over everything that a store has, all of it at one position.

    sql(store, "select key, count(*) from log.orders group by key")
    sql(store, "select * from kv.profiles where key = $who", params={"who": "ada"})
    sql(store, "from orders", as_of=datetime(2026, 1, 1, tzinfo=UTC))

``names.py`` tells what there is to ask, ``as_of.py`` what one position means, ``statement.py``
what is refused. Every relation shows exactly what the records up to the pinned head of its topic
make of it. The answer is DuckDB's: its functions, its types, its order of nulls. Times are
timestamps with a zone; ``timezone`` is how they are shown and cut into days.

DuckDB calculates; it pulls rows out of the store as it needs them (``dataset.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from strandline.errors import Invalid
from strandline.query.execute.interrupt import current
from strandline.query.execute.result import Result
from strandline.query.language.errors import Mistake
from strandline.query.sql import as_of as sql_as_of
from strandline.query.sql import statement
from strandline.query.sql.dataset import RelationDataset
from strandline.query.sql.duckdb_errors import translated
from strandline.query.sql.names import Extra, Names
from strandline.query.sql.relations.metrics import Moved
from strandline.query.sql.relations.relation import Notes, Relation, Source, Store
from strandline.query.sql.sandbox import SHARED, Params
from strandline.query.sql.statement import Named, Parser, Statement

BATCH_ROWS = 8192


class Calculator(Protocol):
    """What reads texts and answers them: in this process, or in one of its own."""

    def parser(self) -> AbstractContextManager[Parser]: ...

    def room(self, timezone: str = "UTC") -> AbstractContextManager[Any]: ...


def sql(
    store: Store,
    text: str,
    *,
    as_of: object = None,
    params: Params | None = None,
    timezone: str = "UTC",
    extra: Extra | None = None,
    sandbox: Calculator = SHARED,
) -> Result:
    """The answer to a SELECT; of now, or of a time, seqs of topics, or a position."""
    asked = read(text, sandbox)
    _check_params(params)
    for copied in (False, True):
        notes = Notes()
        try:
            with _room(store, asked, as_of, timezone, extra, sandbox, notes, copied=copied) as room:
                table = room.ask(text, params)
            return Result(table, notes=notes.texts())
        except Moved:
            continue
    raise AssertionError("what was copied stands still")


@contextlib.contextmanager
def stream(
    store: Store,
    text: str,
    *,
    as_of: object = None,
    params: Params | None = None,
    timezone: str = "UTC",
    extra: Extra | None = None,
    sandbox: Calculator = SHARED,
    notes: Notes | None = None,
    copied: bool = True,
) -> Iterator[pa.RecordBatchReader]:
    """The same, for answers that do not fit in memory: batches, calculated as they are read.
    ``notes`` are complete when all of them are. Without a copy of metrics it may raise ``Moved``:
    then ask again with one."""
    notes = notes or Notes()
    asked = read(text, sandbox)
    _check_params(params)
    with _room(store, asked, as_of, timezone, extra, sandbox, notes, copied=copied) as room:
        yield room.stream(text, params, BATCH_ROWS)


def relations(
    store: Store,
    text: str,
    *,
    as_of: object = None,
    extra: Extra | None = None,
    sandbox: Calculator = SHARED,
) -> tuple[Statement, dict[Named, Relation]]:
    """What a text asks for, and all of it at one position: for engines elsewhere."""
    asked = read(text, sandbox)
    return asked, _pinned(store, asked, as_of, extra, copied=True)


def read(text: str, sandbox: Calculator = SHARED) -> Statement:
    """What a text asks for; nothing runs."""
    with sandbox.parser() as connection:
        return statement.read(text, connection)


@contextlib.contextmanager
def _room(
    store: Store,
    asked: Statement,
    as_of: object,
    timezone: str,
    extra: Extra | None,
    sandbox: Calculator,
    notes: Notes,
    *,
    copied: bool,
) -> Iterator[Any]:
    """A room with all relations of a question at one position; errors are told in our words."""
    found = _pinned(store, asked, as_of, extra, copied=copied)
    notes.watch(found.values())
    failures: list[Exception] = []
    interrupt = current()
    with sandbox.room(timezone) as room:
        for named, relation in found.items():
            room.add(named.schema, named.name, RelationDataset(relation, failures))
        try:
            yield room
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # a reader tells with OSError
            interrupt.check()
            if failures:
                raise failures[0] from None
            raise translated(error, asked, found) from error


def _pinned(
    store: Store, asked: Statement, as_of: object, extra: Extra | None, *, copied: bool
) -> dict[Named, Relation]:
    """The relations of a question, at one position."""
    sources = _found(Names(store, asked, extra, copied=copied), asked)
    pinned = sql_as_of.pin(store, list(sources.values()), as_of)
    return dict(zip(sources, pinned, strict=True))


def _found(names: Names, asked: Statement) -> dict[Named, Source]:
    """The relations, each once: SQL does not tell large letters from small ones."""
    found: dict[tuple[str, str], tuple[Named, Source]] = {}
    for named in dict.fromkeys(each._replace(at=-1) for each in asked.relations):
        place = next(each.at for each in asked.relations if each[:2] == named[:2])
        source = names.find(named._replace(at=place))
        key = (named.schema.lower(), named.name.lower())
        other, first = found.setdefault(key, (named, source))
        if [topic.name for topic in first.topics] != [topic.name for topic in source.topics]:
            raise Mistake(
                f"{other.name!r} and {named.name!r} are two topics, and the same name to SQL: ask "
                "for them in two questions",
                asked.text,
                place,
            )
    return dict(found.values())


def _check_params(params: object) -> None:
    if params is None or isinstance(params, (list, tuple, dict)):
        return
    raise Invalid(
        f"params are a list for ? and $1, or a dict for $name, not {type(params).__name__}"
    )
