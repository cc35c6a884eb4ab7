"""The query functions of the package. They import DuckDB and the grammar when they are called.

Every Python worker of Spark imports this package, and few of them run queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from strandline.query.execute.result import Result
    from strandline.store import Store


def run(spark: SparkSession, store: str | Store, text: str, **options: Any) -> Result:
    """Run a command, with Spark as the engine of its queries. Options: ``lake``, ``progress``.

    A store that is named by its folder is opened read-only, while it may be written; commands that
    change something need an open store.
    """
    from strandline.spark.sql import query  # noqa: PLC0415 - see above

    return query.run(spark, store, text, **options)


def frame(spark: SparkSession, store: str | Store, text: str, **options: Any) -> DataFrame:
    """The result of a QUERY as a frame, which Spark computes when it is used."""
    from strandline.spark.sql import query  # noqa: PLC0415 - see above

    return query.frame(spark, store, text, **options)


def sql(spark: SparkSession, store: str | Store, text: str, **options: Any) -> Result:
    """The result of a SELECT. Options: ``as_of``, ``params``, ``timezone``, ``lake``,
    ``progress``."""
    from strandline.spark.sql import statements  # noqa: PLC0415 - see above

    return statements.sql(spark, store, text, **options)
