"""SQL over the topics, views and tables of a store, run by Spark.

    sql(spark, "data", "select cur, sum(amount) from pay group by cur")

The text is the same as for ``store.sql``: it is parsed by DuckDB, rejected for the same reasons,
and translated for Spark by sqlglot, function by function. A function that Spark lacks is an error
of Spark. All relations are at one position.

Spark reads event tables itself, from their files (``spark/tables/event_rows.py``). Other relations
(records of topics, maps, queues, series) pass through this process as Arrow, with the columns that
the text names; for a topic that is too large, use ``strandline.spark.table``.
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
from strandline.query.sql.statement import RelationName, Statement
from strandline.spark.errors import explain, plain_errors
from strandline.spark.isolated_sessions import QueryViews, isolated_session, query_views
from strandline.spark.job_progress import run_with_progress
from strandline.spark.sql.query import with_store
from strandline.spark.tables.event_rows import frame_of_scan, spark_table
from strandline.store import Store

EXPORT_BYTES_MAX = 2 * GIB
"""The maximum size of a relation that is not a table in the memory of this process."""

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
    """The result of a SELECT over an open store, or over one named by its folder."""

    def run_query(opened: Store) -> Result:
        session = isolated_session(spark, timezone)
        statement, relations = opened.queries.relations(text, as_of=as_of)
        tree = _translated(statement, params)
        with query_views(session) as names, plain_errors(), _query_errors():
            _register(session, names, tree, relations)
            frame = names.sql(tree.sql("spark", unsupported_level=ErrorLevel.RAISE))
            clock = SystemClock()
            return Result(_unsigned(run_with_progress(session, frame.toArrow, progress, clock)))

    return with_store(store, lake, run_query)


@contextlib.contextmanager
def _query_errors() -> Iterator[None]:
    """Convert errors of a query to one line, and silence the page that Spark logs for each."""
    logger = logging.getLogger("SQLQueryContextLogger")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    except SqlglotError as error:
        raise Invalid(f"this cannot be translated for Spark: {error}") from error
    except PySparkException as error:
        if error.getCondition() is None or explain(error) is not None:
            raise
        reason = str(error).partition("\n")[0].partition(" SQLSTATE")[0]
        raise Invalid(f"Spark could not run the query: {reason}") from error
    finally:
        logger.disabled = was_disabled


def _translated(statement: Statement, params: Params | None) -> exp.Expression:
    """The text as a tree, with values for parameters."""
    try:
        tree = parse_one(statement.text, read="duckdb")
    except SqlglotError as error:
        raise Invalid(f"this cannot be translated for Spark: {error}") from error
    if not isinstance(tree, exp.Query):
        raise Invalid("Spark runs SELECT only: use the embedded engine for DESCRIBE and the like")
    numbers = itertools.count(1)

    def with_value(node: exp.Expression) -> Any:
        if not isinstance(node, exp.Placeholder):
            return node
        return exp.convert(_value(params, str(node.this or next(numbers))))

    translated: exp.Expression = tree.transform(with_value)
    return translated


def _value(params: Params | None, name: str) -> Any:
    try:
        if isinstance(params, Mapping):
            return params[name]
        return (params or ())[int(name) - 1]
    except (LookupError, ValueError):
        raise Invalid(f"the query has a parameter {name} without a value") from None


def _register(
    session: SparkSession,
    view_names: QueryViews,
    tree: exp.Expression,
    relations: Mapping[RelationName, Relation],
) -> None:
    """Register relations as views, and replace their names in the tree."""
    names: dict[tuple[str, str], str] = {}
    columns = _column_names(tree)
    for named, relation in relations.items():
        key = (named.schema.lower(), named.name.lower())
        names[key] = view_names.add(_frame(session, named, relation, columns))
    for table in list(_tables(tree)):
        name = table.name
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        table.set("this", exp.to_identifier(names[table.db.lower(), name.lower()], quoted=True))
        table.set("db", None)
    for column in tree.find_all(exp.Column):
        if column.db:  # kv.profiles.key: the name of the view has no schema
            column.set("db", None)


def _tables(tree: exp.Expression) -> Iterator[exp.Table]:
    """Relations of the store in the tree, without CTEs and functions."""
    for scope in traverse_scope(tree):
        for table in scope.tables:
            source = scope.sources.get(table.alias_or_name)
            if source is table and isinstance(table.this, exp.Identifier):
                yield table


def _column_names(tree: exp.Expression) -> set[str] | None:
    """Names of columns that may be needed; None for all."""
    for star in tree.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count):
            return None
    if any(join.method == "NATURAL" for join in tree.find_all(exp.Join)):
        return None
    return {each.name.lower() for each in tree.find_all(exp.Identifier)}


def _frame(
    session: SparkSession, named: RelationName, relation: Relation, columns: set[str] | None
) -> DataFrame:
    if isinstance(relation, TableRows):
        snapshot = relation.snapshot
        kinds = CORE_KINDS | snapshot.schema.columns()
        rows = frame_of_scan(session, named.name, kinds, snapshot.read(list(kinds)).external_scan())
        return rows.toDF(*relation.schema.names)
    names = [name for name in relation.schema.names if columns is None or name.lower() in columns]
    names = names or relation.schema.names[:1]
    schema = pa.schema([relation.schema.field(name) for name in names])
    rows = pa.Table.from_batches(_bounded(named, relation, names, schema), schema)
    return session.createDataFrame(spark_table(rows))


def _bounded(
    named: RelationName, relation: Relation, names: list[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in relation.batches(names, None):
        size += batch.nbytes
        if size > EXPORT_BYTES_MAX:
            raise MemoryPressure(
                f"{named.name!r} has more than the {EXPORT_BYTES_MAX // MIB} MiB that go through "
                "this process: name fewer columns, or make a frame with strandline.spark.table()"
            )
        yield batch.cast(schema)


def _unsigned(table: pa.Table) -> pa.Table:
    """Convert decimals back to unsigned numbers, as in results of the embedded engine."""
    for index, field in enumerate(table.schema):
        if field.type == _U64:
            table = table.set_column(index, field.name, table.column(index).cast(pa.uint64()))
    return table
