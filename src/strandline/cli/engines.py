"""Which engine runs the tasks of a pipeline: ``--engine``, ``--master``."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from cyclopts import Parameter

from strandline.cli.options import byte_count
from strandline.errors import NotInstalled
from strandline.pipelines.engine import SPARK_FROM, Asked, Chooser, Engine, choose


@Parameter(name="*", group="What runs it")
@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Threads of this process, or Spark."""

    engine: Annotated[
        Asked, Parameter(help="Threads here (embedded), Spark, or by size (auto).")
    ] = "auto"
    master: Annotated[str, Parameter(help="Where Spark runs: local[*], spark://host:7077, …")] = (
        "local[*]"
    )
    spark_from: Annotated[
        str | None, Parameter(metavar="SIZE", help="From how many bytes on auto takes Spark.")
    ] = None

    def chooser(self) -> Chooser:
        """The engine for work on so many bytes."""
        threshold = SPARK_FROM if self.spark_from is None else byte_count(self.spark_from)

        def chosen(size: int) -> Engine:
            return choose(size, asked=self.engine, threshold=threshold, spark=self._spark)

        return chosen

    def session(self) -> Any:
        """A session of Spark."""
        try:
            from strandline.spark import session  # noqa: PLC0415 - optional, and slow to import
        except ImportError as error:
            raise NotInstalled(
                f"there is no pyspark ({error}): pip install 'strandline[spark]'"
            ) from error
        return session(self.master)

    def _spark(self) -> Engine:
        spark = self.session()
        from strandline.spark import SparkEngine  # noqa: PLC0415 - as above

        return SparkEngine(spark)


ENGINE = EngineOptions()
