"""SQL over everything that a store has, calculated by Spark.

    sql(spark, "data", "select cur, sum(amount) from pay group by cur")

The text is the one that ``store.sql`` takes: it is read by DuckDB's parser, refused for the same
reasons, and told to Spark by sqlglot, function by function. What Spark does not have is an error of
Spark's. All relations are those of one position.

Event tables are read by Spark itself, from their files (``spark/tables/event_rows.py``).
Everything else (records of
topics, maps, queues, series) passes through this process as Arrow, with the columns that the text
names; of a topic that is too large for that, ``strandline.spark.table`` makes a frame.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from strandline.config.settings import GIB, MIB
from strandline.errors import Invalid, MemoryPressure
from strandline.log.progress import Progress, silent
from strandline.platform.clock import SystemClock
from strandline.query.execute.result import Result
from strandline.query.language.bound_ast import CORE_KINDS
from strandline.query.sql.relations.event_table import TableRows
from strandline.query.sql.relations.relation import Relation
from strandline.query.sql.sandbox import Params
from strandline.query.sql.statement import Named, Statement
from strandline.spark.errors import explain, plain_errors
from strandline.spark.isolated_sessions import Views, room, views
from strandline.spark.job_progress import watched
from strandline.spark.sql.query import looking
from strandline.spark.tables.event_rows import frame_of, spark_table
from strandline.store import Store

EXPORT_BYTES_MAX = 2 * GIB
"""What a relation that is no table may take of this process's memory."""

_U64 = pa.decimal128(20, 0)


def sql(
    spark: SparkSession,
    store: str | Store,
    text: str,
    *,
    as_of: object = None,
    params: Params | None = None,
    timezone: str = "UTC",
    lake: str = "",
    progress: Progress = silent,
) -> Result:
    """The answer to a SELECT over a store that is open, or by its folder, beside its writer."""

    def ask(opened: Store) -> Result:
        session = room(spark, timezone)
        asked, relations = opened.questions.relations(text, as_of=as_of)
        tree = _spoken(asked, params)
        with views(session) as made, plain_errors(), _told():
            _name(session, made, tree, relations)
            found = made.sql(tree.sql("spark", unsupported_level=ErrorLevel.RAISE))
            clock = SystemClock()
            return Result(_unsigned(watched(session, found.toArrow, progress, clock)))

    return looking(store, lake, ask)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Errors of a question as ours, in one line; Spark would also print a page about each."""
    logger = logging.getLogger("SQLQueryContextLogger")
    was, logger.disabled = logger.disabled, True
    try:
        yield
    except SqlglotError as error:
        raise Invalid(f"this cannot be told to Spark: {error}") from error
    except PySparkException as error:
        if error.getCondition() is None or explain(error) is not None:
            raise
        reason = str(error).partition("\n")[0].partition(" SQLSTATE")[0]
        raise Invalid(f"Spark could not answer: {reason}") from error
    finally:
        logger.disabled = was


def _spoken(asked: Statement, params: Params | None) -> exp.Expression:
    """The text as a tree, with values in the place of parameters."""
    try:
        tree = parse_one(asked.text, read="duckdb")
    except SqlglotError as error:
        raise Invalid(f"this cannot be told to Spark: {error}") from error
    if not isinstance(tree, exp.Query):
        raise Invalid("Spark is asked a SELECT: DESCRIBE and the like are for the other engine")
    places = itertools.count(1)

    def filled(node: exp.Expression) -> Any:
        if not isinstance(node, exp.Placeholder):
            return node
        return exp.convert(_value(params, str(node.this or next(places))))

    made: exp.Expression = tree.transform(filled)
    return made


def _value(params: Params | None, name: str) -> Any:
    try:
        if isinstance(params, Mapping):
            return params[name]
        return (params or ())[int(name) - 1]
    except (LookupError, ValueError):
        raise Invalid(
            f"the question has a parameter {name}, and no value for it was given"
        ) from None


def _name(
    session: SparkSession, made: Views, tree: exp.Expression, relations: Mapping[Named, Relation]
) -> None:
    """Make relations views, and have the tree name those."""
    names: dict[tuple[str, str], str] = {}
    wanted = _mentioned(tree)
    for named, relation in relations.items():
        key = (named.schema.lower(), named.name.lower())
        names[key] = made.add(_frame(session, named, relation, wanted))
    for table in list(_tables(tree)):
        name = table.name
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        table.set("this", exp.to_identifier(names[table.db.lower(), name.lower()], quoted=True))
        table.set("db", None)
    for column in tree.find_all(exp.Column):
        if column.db:  # kv.profiles.key: the table has no schema any more
            column.set("db", None)


def _tables(tree: exp.Expression) -> Iterator[exp.Table]:
    """Relations of the store, as the tree names them: no CTEs, no functions."""
    for scope in traverse_scope(tree):
        for table in scope.tables:
            source = scope.sources.get(table.alias_or_name)
            if source is table and isinstance(table.this, exp.Identifier):
                yield table


def _mentioned(tree: exp.Expression) -> set[str] | None:
    """Names of columns that may be needed; None for all."""
    for star in tree.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count):
            return None
    if any(join.method == "NATURAL" for join in tree.find_all(exp.Join)):
        return None
    return {each.name.lower() for each in tree.find_all(exp.Identifier)}


def _frame(
    session: SparkSession, named: Named, relation: Relation, wanted: set[str] | None
) -> DataFrame:
    if isinstance(relation, TableRows):
        snapshot = relation.snapshot
        kinds = CORE_KINDS | snapshot.schema.columns()
        rows = frame_of(session, named.name, kinds, snapshot.read(list(kinds)).apart())
        return rows.toDF(*relation.schema.names)
    names = [name for name in relation.schema.names if wanted is None or name.lower() in wanted]
    names = names or relation.schema.names[:1]
    shape = pa.schema([relation.schema.field(name) for name in names])
    rows = pa.Table.from_batches(_bounded(named, relation, names, shape), shape)
    return session.createDataFrame(spark_table(rows))


def _bounded(
    named: Named, relation: Relation, names: list[str], shape: pa.Schema
) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in relation.batches(names, None):
        size += batch.nbytes
        if size > EXPORT_BYTES_MAX:
            raise MemoryPressure(
                f"{named.name!r} has more than the {EXPORT_BYTES_MAX // MIB} MiB that go through "
                "this process: name fewer columns, or make a frame with strandline.spark.table()"
            )
        yield batch.cast(shape)


def _unsigned(table: pa.Table) -> pa.Table:
    """Numbers that were unsigned, as they are in an answer of the other engine."""
    for place, field in enumerate(table.schema):
        if field.type == _U64:
            table = table.set_column(place, field.name, table.column(place).cast(pa.uint64()))
    return table
