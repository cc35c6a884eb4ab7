"""Imports formats that only Spark reads: Delta, Iceberg, ORC, Avro, and others with a jar.

Rows are written like every other write to a topic (``spark/source/writers.py``), as one delivery
with a name of its own: a repeated import appends nothing. They become records as rows of other
files do (``pipelines/transfer/row_mapping.py``), with the same JSON. A bad row ends the import
before anything is appended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypedDict, Unpack

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from xxhash import xxh3_128_hexdigest

from strandline.errors import Invalid, NotInstalled
from strandline.pipelines.delivery_client import await_delivered
from strandline.pipelines.splits.snapshot_position import matching, open_readonly, path_of
from strandline.pipelines.transfer.import_files import ImportSummary
from strandline.pipelines.transfer.row_mapping import Fields, RecordMapper
from strandline.platform.clock import Clock, SystemClock
from strandline.spark.errors import explain, short_errors
from strandline.spark.sessions import register
from strandline.spark.source.writers import producer_of
from strandline.store import Store

_NO_FORMAT = re.compile(r"\[(DATA_SOURCE_NOT_FOUND|AVRO_DATA_SOURCE_NOT_ENABLED)\]")
_REASON = re.compile(r"\[[A-Z_.]+\] .+")
_PACKAGES = {
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13",
    "avro": "org.apache.spark:spark-avro_2.13",
}


class FormatOptions(TypedDict, total=False):
    """Options of an import through Spark; as ``pipelines.ImportOptions``."""

    fields: Fields
    id: str
    create: bool
    lake: str


def import_format(
    spark: SparkSession | Callable[[], SparkSession],
    store: str | Store,
    topic: str,
    sources: str | Sequence[str],
    kind: str,
    *,
    dry_run: bool = False,
    clock: Clock | None = None,
    **options: Unpack[FormatOptions],
) -> ImportSummary:
    """Append the rows of ``spark.read.format(kind).load(sources)``, each once.

    ``spark`` is a session, or a function that returns one, called when there are rows to import.
    """
    clock = clock or SystemClock()
    started_s = clock.monotonic()
    paths = [sources] if isinstance(sources, str) else list(sources)
    fields = options.get("fields", Fields())
    fields.check()
    path, lake = path_of(store), options.get("lake", "")
    identity = msgspec.msgpack.encode((topic, kind, paths, fields))
    import_id = options.get("id", "") or xxh3_128_hexdigest(identity)
    summary = ImportSummary(store=path, topic=topic, id=import_id, engine="spark", parts=1)
    summary.bad, summary.dry_run, summary.files = [], dry_run, len(paths)
    write_id, create = f"import/{import_id}", options.get("create", False)
    if not dry_run:
        await_delivered(path, topic, producer_of(write_id), lake=lake, clock=clock)
    summary.complete = _is_delivered(path, lake, topic, write_id, create=create)
    summary.parts_before = int(summary.complete)
    if not summary.complete:
        summary.rows = None
        if not dry_run:
            frame = _loaded(register(spark() if callable(spark) else spark), kind, paths)
            write_options = {"store": path, "topic": topic, "lake": lake, "writeId": write_id}
            write_options["createTopic"] = str(create).lower()
            summary.rows = _written(frame, fields, write_options)
    summary.seconds = clock.monotonic() - started_s
    return summary


def _is_delivered(path: str, lake: str, topic: str, write_id: str, *, create: bool) -> bool:
    with open_readonly(path, lake) as opened:
        if create and topic not in opened.topics():
            return False
        matching(opened, [topic])
        return opened.existing_topic(topic).last_number(producer_of(write_id)) is not None


def _loaded(spark: SparkSession, kind: str, paths: list[str]) -> DataFrame:
    try:
        return spark.read.format(kind).load(paths if len(paths) > 1 else paths[0])
    except (PySparkException, Py4JJavaError) as error:
        if _NO_FORMAT.search(str(error)):
            package = _PACKAGES.get(kind.lower())
            setting = f"spark.jars.packages={package}:VERSION" if package else "spark.jars.packages"
            raise NotInstalled(
                f"Spark has no format {kind!r}: check the name, or add its package with {setting}"
            ) from None
        raise Invalid(f"Spark cannot read {paths[0]} as {kind}: {_short(error)}") from None


def _written(frame: DataFrame, fields: Fields, options: dict[str, str]) -> int:
    observation = Observation()
    schema = ", ".join(f"{field.name} {_sql(field.type)}" for field in fields.schema())
    records = frame.mapInArrow(partial(_records, fields), schema)
    counted = records.observe(observation, f.count(f.lit(1)).alias("rows"))
    try:
        counted.write.format("strandline").mode("append").options(**options).save()
    except (PySparkException, Py4JJavaError) as error:
        raise explain(error) or Invalid(_short(error)) from None
    return int(observation.get["rows"])


def _records(fields: Fields, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert rows into records, on an executor."""
    with short_errors():
        shaper = RecordMapper(fields, (), _RejectBadRows())
        for batch in batches:
            yield shaper.of_table(batch, range(len(batch)), {})


class _RejectBadRows:
    """Rejects the import at a row that cannot become a record."""

    def report(self, row: int, reason: str) -> None:
        del row
        raise Invalid(f"a row cannot become a record: {reason}; nothing was imported")


def _sql(kind: pa.DataType) -> str:
    return "string" if pa.types.is_string(kind) else "binary"


def _short(error: Exception) -> str:
    """The line with the reason."""
    text = str(error)
    reason = _REASON.search(text)
    return reason[0] if reason else text.strip().partition("\n")[0]
