"""The chapter of Spark: a stream over the live topic, added up and drawn; and pipelines.

One thread sells things. Spark follows the topic, adds up the sales of each second, and at the end
the sums are compared with what was sold. Meanwhile history moves into the lake in small files,
which are then merged into one. At last a remembered query of the chapter before is kept fresh.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from examples.tour import tables
from examples.tour.scene import Scene
from examples.tour.stage import Stage
from strandline.config.settings import LakeSettings, SegmentSettings, Settings
from strandline.errors import NotInstalled
from strandline.log.topic.topic import Topic
from strandline.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ITEMS = {"tea": 250, "cake": 420, "jam": 610}
_TICK_S = 0.05
_SHOWN = 6


def show(stage: Stage, scene: Scene) -> None:
    stage.title("Spark follows the live topic and adds it up by the second")
    try:
        import strandline.spark  # noqa: PLC0415 - the tour goes on without Spark

        spark = strandline.spark.session("local[2]")
    except (ImportError, NotInstalled) as error:
        stage.say(f"left out: {error}")
        return
    settings = Settings(
        segment=SegmentSettings(seal_records=1, own_bytes_min=1), lake=LakeSettings(hot_segments=1)
    )
    try:
        with Store(scene.store, settings=settings) as store:
            sales = store.topic("sales")
            sums = _follow(stage, scene, store, sales, spark)
            _compact(stage, store, sales, spark)
            _write_back(stage, store, sums, spark)
            _keep_fresh(stage, store, spark)
        _draw(stage, sums, scene.picture)
    finally:
        spark.stop()


def _follow(
    stage: Stage, scene: Scene, store: Store, sales: Topic, spark: SparkSession
) -> list[tuple[str, str, int, int]]:
    sold: Counter[str] = Counter()
    _sell_basket(sales, 0.0, sold)
    seller = threading.Thread(target=_sell, args=(store, sales, scene.sales_s, sold))
    live = spark.readStream.format("strandline").option("topic", "sales").load(store.path)
    query = (
        _by_second(live)
        .writeStream.outputMode("complete")
        .format("memory")
        .queryName("sales_by_second")
        .option("checkpointLocation", f"{scene.scratch}/checkpoint")
        .start()
    )
    with stage.bar("selling, and following", 1) as update:
        query.processAllAvailable()  # what comes first takes seconds: Spark plans and compiles
        seller.start()
        seller.join()
        query.processAllAvailable()
        update(1)
    batches = len([each for each in query.recentProgress if each["numInputRows"]])
    query.stop()
    rows = spark.table("sales_by_second").orderBy("second", "item").collect()
    sums = [(f"{row.second:%H:%M:%S}", row.item, row.sold, row.cents) for row in rows]
    stage.table(
        ("second", "item", "sold", "cents"),
        [
            (second, item, f"{count:,}", f"{cents:,}")
            for second, item, count, cents in sums[-_SHOWN:]
        ],
    )
    told: Counter[str] = Counter()
    for _, item, count, _ in sums:
        told[item] += count
    stage.check(
        told == sold,
        f"{batches} micro-batches while it was written, and every sale is counted once: "
        + ", ".join(f"{count:,} {item}" for item, count in sorted(told.items())),
    )
    return sums


def _by_second(sales: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f  # noqa: PLC0415

    sale = f.from_json(f.col("data").cast("string"), "item string, cents long")
    return (
        sales.select("ts", sale.alias("sale"))
        .groupBy(f.window("ts", "1 second").start.alias("second"), f.col("sale.item").alias("item"))
        .agg(f.count("*").alias("sold"), f.sum("sale.cents").alias("cents"))
    )


def _sell(store: Store, sales: Topic, seconds: float, sold: Counter[str]) -> None:
    """Sell more and more; older records go into the lake all the while."""
    begun = time.monotonic()
    ticks = 0
    while (gone_s := time.monotonic() - begun) < seconds:
        _sell_basket(sales, gone_s, sold)
        ticks += 1
        if ticks % 5 == 0:
            store.checkpoint()
            store.relocate()
        time.sleep(_TICK_S)


def _sell_basket(sales: Topic, gone_s: float, sold: Counter[str]) -> None:
    basket = [
        (item, cents)
        for place, (item, cents) in enumerate(_ITEMS.items())
        for _ in range(1 + place + int(gone_s * (place + 1)))
    ]
    sales.append_many([json.dumps({"item": i, "cents": c}).encode() for i, c in basket])
    sold.update(item for item, _ in basket)


def _compact(stage: Stage, store: Store, sales: Topic, spark: SparkSession) -> None:
    from strandline.pipelines import compact  # noqa: PLC0415
    from strandline.spark.engine import SparkEngine  # noqa: PLC0415

    store.checkpoint()
    store.relocate()
    before = [record.data for record in sales.follow(after=0, timeout_s=0)]
    done = compact(store, ["sales"], engine=SparkEngine(spark))
    store.relocate()
    after = [record.data for record in sales.follow(after=0, timeout_s=0)]
    stage.check(
        after == before and done.files_after < done.files_before,
        f"compact merged {done.files_before} lake files into {done.files_after} while the store is "
        f"open, and a reader finds the same {len(after):,} records",
    )


def _write_back(
    stage: Stage, store: Store, sums: list[tuple[str, str, int, int]], spark: SparkSession
) -> None:
    store.topic("sales-by-second")
    frame: Any = spark.createDataFrame(
        [(json.dumps({"second": s, "item": i, "sold": n, "cents": c}), i) for s, i, n, c in sums],
        "data string, tag string",
    )
    for _ in range(2):  # as a job that is run again by mistake
        frame.write.format("strandline").mode("append").option("topic", "sales-by-second").option(
            "writeId", "the demo"
        ).save(store.path)
    count = store.topic("sales-by-second").head_seq
    stage.check(
        count == len(sums),
        f"Spark wrote the {len(sums)} sums to a topic, twice, and each is there once",
    )


def _keep_fresh(stage: Stage, store: Store, spark: SparkSession) -> None:
    from strandline.spark.engine import SparkEngine  # noqa: PLC0415

    tables.kept_fresh(stage, store, SparkEngine(spark))


def _draw(stage: Stage, sums: list[tuple[str, str, int, int]], picture: str) -> None:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        stage.say("matplotlib is not installed: no picture")
        return
    seconds = sorted({second for second, *_ in sums})
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for name in _ITEMS:
        found = {second: cents / 100 for second, item, _, cents in sums if item == name}
        axes.plot(seconds, [found.get(second, 0.0) for second in seconds], marker="o", label=name)
    axes.set(title="Sales by the second, added up by Spark", xlabel="second", ylabel="sold for")
    axes.tick_params(axis="x", rotation=45)
    axes.legend()
    figure.savefig(picture, dpi=120)
    stage.say(f"drawn: {picture}")
