"""What a driver does on a cluster: ``python -m tests.cluster.jobs JOB ARGUMENTS RESULT``.

A job is a function; its arguments come as JSON, and what it returns is pickled to a file. It runs
until it is done or somebody kills it. One of them is no driver but the process that owns a store.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from strandline import pipelines
from strandline.config.settings import LakeSettings
from strandline.spark import SparkEngine, explain, plain_errors, register, session, table
from strandline.spark.sql import query as sql_query
from strandline.spark.tables.event_rows import frame_of_scan
from tests.cluster import gates
from tests.spark.stores import Row, all_rows, rows
from tests.unit.lake.small_lake import fill, open_small
from tests.unit.pipelines.lives import KINDS

CONF = {
    "spark.sql.shuffle.partitions": "3",
    "spark.driver.memory": "512m",
    "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than these queries
}
IMPATIENT = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.quantile": "0.5",
}
GROUPS = LakeSettings(file_bytes=1_500, zone_rows=200)
BREATH_S = 0.2


def read(master: str, store: str, gate: str) -> dict[str, list[Row]]:
    """A topic as a table and through the data source, and once more with a gate on the way."""
    spark = session(master, **CONF)
    found = {"table": table(spark, store, "t"), "source": _source(spark, store)}
    done = {name: rows(frame.toArrow()) for name, frame in found.items()}
    passing = gates.passing(gate)
    gated = found["source"].repartition(3, "seq").withColumn("seq", passing("seq"))
    return done | {"gated": rows(gated.toArrow())}


def write(master: str, store: str, count: int, gate: str) -> None:
    """Numbers into a topic, a slow task tried twice at once."""
    spark = session(master, **CONF, **IMPATIENT)
    numbers = spark.range(0, count, 1, 3).select(gates.passing(gate)("id").alias("number"))
    frame = numbers.select(f.concat(f.lit("row "), "number").alias("data"))
    with plain_errors():
        frame.write.format("strandline").mode("append").option("topic", "t").save(store)


def follow(master: str, store: str, checkpoint: str, per_batch: int, gate: str) -> None:
    """A topic as a stream, changed, into another topic, until all there is has been seen."""
    spark = session(master, **CONF)
    stream = (
        spark.readStream.format("strandline")
        .options(topic="t", maxRecordsPerTrigger=str(per_batch))
        .load(store)
    )
    query = (
        _changed(stream, gate)
        .writeStream.format("strandline")
        .options(topic="people", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start(store)
    )
    with plain_errors():
        query.awaitTermination()


def compact(master: str, store: str, gate: str) -> pipelines.CompactSummary:
    """The lake of a store in many small groups."""
    engine = gates.GatedEngine(session(master, **CONF), gate)
    return pipelines.compact(store, engine=engine, settings=GROUPS)


def materialize(master: str, store: str, gate: str) -> pipelines.MaterializeSummary:
    """All remembered queries of a store, with a gate in front of the sums."""
    spark = session(master, **CONF)
    passing = gates.passing(gate)

    def gated(*given: Any) -> DataFrame:
        made = frame_of_scan(*given)
        return made.withColumn("n", passing("n")) if "n" in made.columns else made

    setattr(sql_query, frame_of_scan.__name__, gated)
    return pipelines.materialize(store, engine=SparkEngine(spark))


def rebuild(master: str, store: str, gate: str) -> dict[str, bool]:
    """Every view folded anew and put in its place, then compared."""
    engine = gates.GatedEngine(session(master, **CONF), gate)
    for kind in KINDS:
        pipelines.rebuild(store, kind, kind, replace=True, engine=engine, rows_max=100)
    return {kind: pipelines.rebuild(store, kind, kind, engine=engine).same for kind in KINDS}


def rebuild_one(master: str, store: str, gate: str) -> pipelines.RebuildSummary:
    """A map folded anew and put in its place; its parts of the log one by one."""
    engine = gates.GatedEngine(session(master, **CONF), gate)
    pipelines.cuts.TASK_ROWS = 1
    return pipelines.rebuild(store, "kv", "kv", replace=True, engine=engine, rows_max=100)


def rollup(master: str, store: str, gate: str) -> pipelines.RollupSummary:
    """The rules of all views."""
    engine = gates.GatedEngine(session(master, **CONF), gate)
    return pipelines.rollup(store, engine=engine)


def own(master: str, store: str, ready: str, stop: str) -> list[Row]:
    """Have a store open, append and relocate, until there is a file; then what the topic holds."""
    del master
    with open_small(store) as opened:
        Path(ready).touch()
        while not Path(stop).exists():
            fill(opened, batches=1)
            time.sleep(BREATH_S)
        return all_rows(opened.topic("orders"))


def meet(master: str, days: dict[str, tuple[str, str, str]]) -> dict[str, tuple[str, str, str]]:
    """Read a store in each of some ways that must fail: the error, its message, what Spark said."""
    first = session(master, **CONF, **{"spark.task.maxFailures": "1"})
    told = {}
    for day, (way, store, python) in days.items():
        first.sparkContext.pythonExec = python
        spark = register(first.newSession())  # the source remembers the Python of its session
        try:
            (table(spark, store, "t") if way == "table" else _source(spark, store)).toArrow()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            plain = explain(error) or error
            told[day] = (type(plain).__name__, str(plain), str(error))
    return told


def _changed(stream: DataFrame, gate: str) -> DataFrame:
    """Every third person leaves, tags are shouted, and the rest moves to other tasks."""
    person = f.from_json(f.col("data").cast("string"), "number bigint, name string")
    people = stream.select("key", f.upper("tag").alias("tag"), person.alias("person"))
    kept = people.where("person.number % 3 != 0").repartition(3, "person.number")
    number: Column = gates.passing(gate)("person.number")
    told = f.to_json(f.struct(number.alias("number"), f.upper("person.name").alias("name")))
    return kept.select(told.cast("binary").alias("data"), "tag", "key")


def _source(spark: SparkSession, store: str) -> DataFrame:
    return spark.read.format("strandline").option("topic", "t").load(store)


def main(job: str, arguments: str, result: str) -> None:
    begun = time.monotonic()
    jobs: list[Any] = [read, write, follow, compact, materialize, rebuild, rebuild_one, rollup]
    jobs += [own, meet]
    returned = next(each for each in jobs if each.__name__ == job)(**json.loads(arguments))
    Path(result).write_bytes(pickle.dumps(returned))
    print(f"{job}: {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
