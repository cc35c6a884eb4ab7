"""SQL queries over a whole store, all relations at one position.

    sql(store, "select key, count(*) from log.orders group by key")
    sql(store, "select * from kv.profiles where key = $who", params={"who": "ada"})
    sql(store, "from orders", as_of=datetime(2026, 1, 1, tzinfo=UTC))

``names.py`` lists the relations, ``as_of.py`` defines a position, ``statement.py`` rejects texts.
A relation has exactly the content that results from the records up to the pinned head of its topic.
The result is that of DuckDB: its functions, its types, its order of nulls. Times are timestamps
with a zone; ``timezone`` determines how they are shown and split into days.

DuckDB computes the result; it reads rows from the store as it needs them (``dataset.py``).
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
from strandline.query.language.errors import QueryError
from strandline.query.sql import as_of as sql_as_of
from strandline.query.sql import statement
from strandline.query.sql.dataset import RelationDataset
from strandline.query.sql.duckdb_errors import translate_error
from strandline.query.sql.names import Extra, RelationNames
from strandline.query.sql.relations.metrics import MetricsChanged
from strandline.query.sql.relations.relation import Notes, Relation, RelationSource, SqlStore
from strandline.query.sql.sandbox import SHARED, Params
from strandline.query.sql.statement import Parser, RelationName, Statement

BATCH_ROWS = 8192


class SqlSandbox(Protocol):
    """Parses and runs SQL: in this process, or in a separate one."""

    def parser(self) -> AbstractContextManager[Parser]: ...

    def open_database(self, timezone: str = "UTC") -> AbstractContextManager[Any]: ...


def sql(
    store: SqlStore,
    text: str,
    *,
    as_of: object = None,
    params: Params | None = None,
    timezone: str = "UTC",
    extra: Extra | None = None,
    sandbox: SqlSandbox = SHARED,
) -> Result:
    """The result of a SELECT, as of now, of a time, of seqs of topics, or of a position."""
    query = read(text, sandbox)
    _check_params(params)
    for copied in (False, True):
        notes = Notes()
        try:
            with _open(
                store, query, as_of, timezone, extra, sandbox, notes, copied=copied
            ) as database:
                table = database.query(text, params)
            return Result(table, notes=notes.texts())
        except MetricsChanged:
            continue
    raise AssertionError("a copy does not change")


@contextlib.contextmanager
def stream(
    store: SqlStore,
    text: str,
    *,
    as_of: object = None,
    params: Params | None = None,
    timezone: str = "UTC",
    extra: Extra | None = None,
    sandbox: SqlSandbox = SHARED,
    notes: Notes | None = None,
    copied: bool = True,
) -> Iterator[pa.RecordBatchReader]:
    """The same, for results that do not fit in memory: batches, computed as they are read.
    ``notes`` are complete when all batches are read. Without a copy of metrics it may raise
    ``Moved``: then run it again with a copy."""
    notes = notes or Notes()
    query = read(text, sandbox)
    _check_params(params)
    with _open(store, query, as_of, timezone, extra, sandbox, notes, copied=copied) as database:
        yield database.stream(text, params, BATCH_ROWS)


def relations(
    store: SqlStore,
    text: str,
    *,
    as_of: object = None,
    extra: Extra | None = None,
    sandbox: SqlSandbox = SHARED,
) -> tuple[Statement, dict[RelationName, Relation]]:
    """The statement of a text, and its relations at one position: for engines outside."""
    query = read(text, sandbox)
    return query, _pinned(store, query, as_of, extra, copied=True)


def read(text: str, sandbox: SqlSandbox = SHARED) -> Statement:
    """Parse a text; nothing is run."""
    with sandbox.parser() as connection:
        return statement.read(text, connection)


@contextlib.contextmanager
def _open(
    store: SqlStore,
    query: Statement,
    as_of: object,
    timezone: str,
    extra: Extra | None,
    sandbox: SqlSandbox,
    notes: Notes,
    *,
    copied: bool,
) -> Iterator[Any]:
    """A database with all relations of a query at one position; errors are translated."""
    by_name = _pinned(store, query, as_of, extra, copied=copied)
    notes.watch(by_name.values())
    failures: list[Exception] = []
    interrupt = current()
    with sandbox.open_database(timezone) as database:
        for named, relation in by_name.items():
            database.add(named.schema, named.name, RelationDataset(relation, failures))
        try:
            yield database
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # OSError: a reader failed
            interrupt.check()
            if failures:
                raise failures[0] from None
            raise translate_error(error, query, by_name) from error


def _pinned(
    store: SqlStore, query: Statement, as_of: object, extra: Extra | None, *, copied: bool
) -> dict[RelationName, Relation]:
    """The relations of a query, at one position."""
    sources = _sources(RelationNames(store, query, extra, copied=copied), query)
    pinned = sql_as_of.pin(store, list(sources.values()), as_of)
    return dict(zip(sources, pinned, strict=True))


def _sources(names: RelationNames, query: Statement) -> dict[RelationName, RelationSource]:
    """The relations, each once: names in SQL are not case-sensitive."""
    by_name: dict[tuple[str, str], tuple[RelationName, RelationSource]] = {}
    for named in dict.fromkeys(each._replace(at=-1) for each in query.relations):
        place = next(each.at for each in query.relations if each[:2] == named[:2])
        source = names.find(named._replace(at=place))
        key = (named.schema.lower(), named.name.lower())
        first_name, first_source = by_name.setdefault(key, (named, source))
        if [topic.name for topic in first_source.topics] != [topic.name for topic in source.topics]:
            raise QueryError(
                f"{first_name.name!r} and {named.name!r} are two topics, but one name in SQL, "
                "which is not case-sensitive: use two queries",
                query.text,
                place,
            )
    return dict(by_name.values())


def _check_params(params: object) -> None:
    if params is None or isinstance(params, (list, tuple, dict)):
        return
    raise Invalid(
        f"params must be a list for ? and $1, or a dict for $name, not {type(params).__name__}"
    )
