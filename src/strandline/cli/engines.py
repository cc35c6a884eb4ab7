"""What runs the tasks of a pipeline. Spark is imported only when it is taken."""

from __future__ import annotations

import dataclasses
import importlib.util
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from strandline import pipelines
from strandline.cli.options import byte_count
from strandline.errors import NotInstalled
from strandline.pipelines.engine import SPARK_FROM, Asked, Chooser, Engine
from strandline.settings import MIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK = "pip install 'strandline[spark]'"


@Parameter(name="*", group="Where it runs")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Where:
    """What runs the tasks of a pipeline."""

    engine: Annotated[
        Asked, Parameter(help="This process, Spark, or by the size of what there is to do.")
    ] = "auto"
    master: Annotated[
        str, Parameter(metavar="URL", help="The Spark master: local[*], spark://host:7077, …")
    ] = "local[*]"
    threshold: Annotated[
        str,
        Parameter(metavar="SIZE", help="Stored bytes from which on `auto` takes Spark."),
    ] = f"{SPARK_FROM // MIB}MiB"

    def chooser(self) -> Chooser:
        threshold = byte_count(self.threshold)
        return partial(pipelines.choose, asked=self.engine, threshold=threshold, spark=self._spark)

    def session(self) -> SparkSession:
        """A session, or ``NotInstalled`` with the command that installs what is missing."""
        if importlib.util.find_spec("pyspark") is None:
            raise NotInstalled(f"there is no pyspark here: {_SPARK}")
        from strandline.spark.sessions import session  # noqa: PLC0415 - heavy, often not wanted

        return session(self.master)

    def _spark(self) -> Engine:
        spark = self.session()
        from strandline.spark.engine import SparkEngine  # noqa: PLC0415 - as above

        return SparkEngine(spark)


HERE = Where()
