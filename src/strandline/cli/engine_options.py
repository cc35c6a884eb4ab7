"""Options for the engine that runs pipeline tasks and queries. Spark is imported only when used."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from strandline import pipelines
from strandline.cli.options import byte_count
from strandline.cli.output.progress import Steps
from strandline.config.settings import MIB
from strandline.errors import Invalid, NotInstalled
from strandline.log.progress import Progress, silent
from strandline.pipelines.engine import SPARK_FROM, Chooser, Engine, EngineChoice
from strandline.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline.query.execute.result import Result

_SPARK = "pip install 'strandline[spark]'"
Conf = Annotated[
    tuple[str, ...],
    Parameter(
        name="--conf",
        negative="",
        metavar="NAME=VALUE",
        help="A setting of the Spark session, as in spark.executor.memory=4g; repeatable.",
    ),
]


@Parameter(name="*", group="Where it runs")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskEngineOptions:
    """Options for the engine that runs the tasks of a pipeline."""

    engine: Annotated[
        EngineChoice, Parameter(help="This process, Spark, or a choice by the size of the input.")
    ] = "auto"
    master: Annotated[
        str, Parameter(metavar="URL", help="The Spark master: local[*], spark://host:7077, …")
    ] = "local[*]"
    threshold: Annotated[
        str,
        Parameter(metavar="SIZE", help="Stored bytes from which `auto` chooses Spark."),
    ] = f"{SPARK_FROM // MIB}MiB"
    conf: Conf = ()

    def chooser(self, progress: Progress = silent) -> Chooser:
        """A function that chooses the engine. Spark is started when there is a task for it."""
        parse_conf(self.conf)
        threshold, spark = byte_count(self.threshold), partial(self._spark, progress)
        return partial(pipelines.choose, requested=self.engine, threshold=threshold, spark=spark)

    def session(self) -> SparkSession:
        """A session, or ``NotInstalled`` with the command that installs the missing package."""
        _check_installed()
        from strandline.spark.sessions import session  # noqa: PLC0415 - heavy, rarely used

        return session(self.master, **parse_conf(self.conf))

    def _spark(self, progress: Progress) -> Engine:
        _check_installed()
        from strandline.spark.engine import SparkEngine  # noqa: PLC0415 - as above
        from strandline.spark.sessions import check_java  # noqa: PLC0415 - as above

        if self.engine == "auto":  # which uses this process where there is no Java
            check_java()
        return SparkEngine(self.session, progress=progress)


def parse_conf(conf: Sequence[str]) -> dict[str, str]:
    """The values of ``--conf``, by name."""
    settings = {}
    for each in conf:
        name, equals, value = each.partition("=")
        if not equals or not name.strip().startswith("spark."):
            raise Invalid(f"--conf is NAME=VALUE, as in spark.executor.memory=4g, not {each!r}")
        settings[name.strip()] = value.strip()
    return settings


def _check_installed() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise NotInstalled(f"pyspark is not installed: {_SPARK}")


DEFAULT_TASK_ENGINE = TaskEngineOptions()


@Parameter(name="*", group="Where it runs")
@dataclasses.dataclass(frozen=True, kw_only=True)
class QueryEngineOptions:
    """Options for the engine that runs queries."""

    engine: Annotated[Literal["embedded", "spark"], Parameter(help="This process, or Spark.")] = (
        "embedded"
    )
    master: Annotated[
        str, Parameter(metavar="URL", help="The Spark master: local[*], spark://host:7077, …")
    ] = "local[*]"
    conf: Conf = ()

    def run(self, store: Store, text: str) -> Result:
        """Run a command of the query language."""
        if self.engine == "embedded":
            return store.run(text)
        with self._session_with_progress() as (spark, steps):
            from strandline.spark.sql.query import run  # noqa: PLC0415 - heavy, rarely used

            return run(spark, store, text, progress=steps.show)

    def sql(self, store: Store, text: str, as_of: str | None, params: Any, timezone: str) -> Result:
        """The result of a SELECT, from Spark."""
        with self._session_with_progress() as (spark, steps):
            from strandline.spark.sql.statements import sql  # noqa: PLC0415 - as above

            options = {"as_of": as_of, "params": params, "timezone": timezone}
            return sql(spark, store, text, progress=steps.show, **options)

    def reject_server(self) -> None:
        """Reject Spark for a server, which has an engine of its own."""
        if self.engine == "spark":
            raise Invalid(
                "--engine spark needs the directory of the store, not the URL of a server: run it "
                "where the store is, with --store; it works while the server runs"
            )

    @contextlib.contextmanager
    def _session_with_progress(self) -> Iterator[tuple[SparkSession, Steps]]:
        spark = TaskEngineOptions(master=self.master, conf=self.conf).session()
        with Steps() as steps:
            yield spark, steps


DEFAULT_QUERY_ENGINE = QueryEngineOptions()
