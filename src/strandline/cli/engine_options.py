"""What runs the tasks of a pipeline, and answers questions. Spark is imported only when taken."""

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
from strandline.pipelines.engine import SPARK_FROM, Asked, Chooser, Engine
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
        help="A setting of the Spark session, as spark.executor.memory=4g; any number of times.",
    ),
]


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
    conf: Conf = ()

    def chooser(self, progress: Progress = silent) -> Chooser:
        """Chooses what runs the tasks. Spark is started when there is a task for it."""
        settings_of(self.conf)
        threshold, spark = byte_count(self.threshold), partial(self._spark, progress)
        return partial(pipelines.choose, asked=self.engine, threshold=threshold, spark=spark)

    def session(self) -> SparkSession:
        """A session, or ``NotInstalled`` with the command that installs what is missing."""
        _check_installed()
        from strandline.spark.sessions import session  # noqa: PLC0415 - heavy, often not wanted

        return session(self.master, **settings_of(self.conf))

    def _spark(self, progress: Progress) -> Engine:
        _check_installed()
        from strandline.spark.engine import SparkEngine  # noqa: PLC0415 - as above
        from strandline.spark.sessions import check_java  # noqa: PLC0415 - as above

        if self.engine == "auto":  # which takes this process where there is no Java
            check_java()
        return SparkEngine(self.session, progress=progress)


def settings_of(conf: Sequence[str]) -> dict[str, str]:
    """What ``--conf`` was given, by name."""
    found = {}
    for each in conf:
        name, equals, value = each.partition("=")
        if not equals or not name.strip().startswith("spark."):
            raise Invalid(f"--conf is NAME=VALUE, as spark.executor.memory=4g, not {each!r}")
        found[name.strip()] = value.strip()
    return found


def _check_installed() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise NotInstalled(f"there is no pyspark here: {_SPARK}")


HERE = Where()


@Parameter(name="*", group="Where it runs")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Answerer:
    """What answers questions."""

    engine: Annotated[Literal["embedded", "spark"], Parameter(help="This process, or Spark.")] = (
        "embedded"
    )
    master: Annotated[
        str, Parameter(metavar="URL", help="The Spark master: local[*], spark://host:7077, …")
    ] = "local[*]"
    conf: Conf = ()

    def run(self, store: Store, text: str) -> Result:
        """Do what a command says."""
        if self.engine == "embedded":
            return store.run(text)
        with self._watched() as (spark, steps):
            from strandline.spark.sql.query import run  # noqa: PLC0415 - heavy, often not wanted

            return run(spark, store, text, progress=steps.show)

    def sql(self, store: Store, text: str, as_of: str | None, params: Any, timezone: str) -> Result:
        """The answer to a SELECT, from Spark."""
        with self._watched() as (spark, steps):
            from strandline.spark.sql.statements import sql  # noqa: PLC0415 - as above

            given = {"as_of": as_of, "params": params, "timezone": timezone}
            return sql(spark, store, text, progress=steps.show, **given)

    def refuse_server(self) -> None:
        """A server answers with what it has."""
        if self.engine == "spark":
            raise Invalid(
                "--engine spark needs the folder of the store, and not a server's url: run it "
                "where the store is, with --store; it works beside the server"
            )

    @contextlib.contextmanager
    def _watched(self) -> Iterator[tuple[SparkSession, Steps]]:
        spark = Where(master=self.master, conf=self.conf).session()
        with Steps() as steps:
            yield spark, steps


ITSELF = Answerer()
