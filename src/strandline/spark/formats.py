"""Imports what only Spark can read: Delta, Iceberg, ORC, Avro, and whatever else it has a jar for.

Rows go the way of every other write to a topic (``spark/source/writers.py``), as one delivery with
a name of its own: repeated, it appends nothing. They become records as rows of other files do
(``pipelines/transfer/row_mapping.py``), with the same JSON. A bad row ends it before anything is
appended.
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
from strandline.pipelines.transfer.row_mapping import Fields, Shaper
from strandline.platform.clock import Clock, SystemClock
from strandline.spark.errors import explain, told_briefly
from strandline.spark.sessions import register
from strandline.spark.source.writers import producer_of
from strandline.store import Store

_NO_FORMAT = re.compile(r"\[(DATA_SOURCE_NOT_FOUND|AVRO_DATA_SOURCE_NOT_ENABLED)\]")
_TOLD = re.compile(r"\[[A-Z_.]+\] .+")
_PACKAGES = {
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13",
    "avro": "org.apache.spark:spark-avro_2.13",
}


class FormatOptions(TypedDict, total=False):
    """What an import through Spark may be told; as ``pipelines.ImportOptions``."""

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
    """Append the rows that ``spark.read.format(kind).load(sources)`` gives, each once.

    ``spark`` is a session, or makes one, which is called when there is something to import.
    """
    clock = clock or SystemClock()
    begun_s = clock.monotonic()
    places = [sources] if isinstance(sources, str) else list(sources)
    fields = options.get("fields", Fields())
    fields.check()
    path, lake = path_of(store), options.get("lake", "")
    told = msgspec.msgpack.encode((topic, kind, places, fields))
    own_id = options.get("id", "") or xxh3_128_hexdigest(told)
    summary = ImportSummary(store=path, topic=topic, id=own_id, engine="spark", parts=1)
    summary.bad, summary.dry_run, summary.files = [], dry_run, len(places)
    write_id, create = f"import/{own_id}", options.get("create", False)
    if not dry_run:
        await_delivered(path, topic, producer_of(write_id), lake=lake, clock=clock)
    summary.complete = _is_there(path, lake, topic, write_id, create=create)
    summary.parts_before = int(summary.complete)
    if not summary.complete:
        summary.rows = None
        if not dry_run:
            frame = _loaded(register(spark() if callable(spark) else spark), kind, places)
            writing = {"store": path, "topic": topic, "lake": lake, "writeId": write_id}
            writing["createTopic"] = str(create).lower()
            summary.rows = _written(frame, fields, writing)
    summary.seconds = clock.monotonic() - begun_s
    return summary


def _is_there(path: str, lake: str, topic: str, write_id: str, *, create: bool) -> bool:
    with open_readonly(path, lake) as opened:
        if create and topic not in opened.topics():
            return False
        matching(opened, [topic])
        return opened.existing_topic(topic).taken(producer_of(write_id)) is not None


def _loaded(spark: SparkSession, kind: str, places: list[str]) -> DataFrame:
    try:
        return spark.read.format(kind).load(places if len(places) > 1 else places[0])
    except (PySparkException, Py4JJavaError) as error:
        if _NO_FORMAT.search(str(error)):
            package = _PACKAGES.get(kind.lower())
            how = f"spark.jars.packages={package}:VERSION" if package else "spark.jars.packages"
            raise NotInstalled(
                f"Spark has no format {kind!r}: check the name, or give it the package with {how}"
            ) from None
        raise Invalid(f"Spark cannot read {places[0]} as {kind}: {_short(error)}") from None


def _written(frame: DataFrame, fields: Fields, writing: dict[str, str]) -> int:
    seen = Observation()
    schema = ", ".join(f"{field.name} {_sql(field.type)}" for field in fields.schema())
    records = frame.mapInArrow(partial(_records, fields), schema)
    counted = records.observe(seen, f.count(f.lit(1)).alias("rows"))
    try:
        counted.write.format("strandline").mode("append").options(**writing).save()
    except (PySparkException, Py4JJavaError) as error:
        raise explain(error) or Invalid(_short(error)) from None
    return int(seen.get["rows"])


def _records(fields: Fields, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: rows as records."""
    with told_briefly():
        shaper = Shaper(fields, (), _Refusing())
        for batch in batches:
            yield shaper.of_table(batch, range(len(batch)), {})


class _Refusing:
    """What is done about a row that cannot become a record."""

    def tell(self, row: int, reason: str) -> None:
        del row
        raise Invalid(f"a row cannot become a record: {reason}; nothing was imported")


def _sql(kind: pa.DataType) -> str:
    return "string" if pa.types.is_string(kind) else "binary"


def _short(error: Exception) -> str:
    """The line that says what is wrong."""
    text = str(error)
    told = _TOLD.search(text)
    return told[0] if told else text.strip().partition("\n")[0]
