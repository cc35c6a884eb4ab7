"""The doors to questions: DuckDB's parser and the grammar are loaded behind them.

Every Python worker of Spark imports this package, and few of them ever ask something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from strandline.query.execute.result import Result
    from strandline.store import Store


def run(spark: SparkSession, store: str | Store, text: str, **options: Any) -> Result:
    """Do what a command says, with Spark for its questions. Options: ``lake``, ``progress``.

    A store that is named by its folder is opened read-only, beside its writer; commands that
    change something need it open.
    """
    from strandline.spark.sql import query  # noqa: PLC0415 - see above

    return query.run(spark, store, text, **options)


def frame(spark: SparkSession, store: str | Store, text: str, **options: Any) -> DataFrame:
    """The answer to a QUERY as a frame, which Spark calculates when somebody wants it."""
    from strandline.spark.sql import query  # noqa: PLC0415 - see above

    return query.frame(spark, store, text, **options)


def sql(spark: SparkSession, store: str | Store, text: str, **options: Any) -> Result:
    """The answer to a SELECT. Options: ``as_of``, ``params``, ``timezone``, ``lake``,
    ``progress``."""
    from strandline.spark.sql import statements  # noqa: PLC0415 - see above

    return statements.sql(spark, store, text, **options)
