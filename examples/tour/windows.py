"""The Spark chapter: a stream over the live topic, summed and drawn; and pipelines.

One thread appends sales. Spark follows the topic and sums the sales of each second; at the end the
sums are compared with the sales. Meanwhile history moves into the lake in small files, which are
then merged into one. At the end a materialized query of an earlier chapter is refreshed.
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
    stage.title("Spark follows the live topic and sums it by the second")
    try:
        import strandline.spark  # noqa: PLC0415 - the tour continues without Spark

        spark = strandline.spark.session("local[2]")
    except (ImportError, NotInstalled) as error:
        stage.print_line(f"skipped: {error}")
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
        query.processAllAvailable()  # the first batch takes seconds: Spark plans and compiles
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
    counted: Counter[str] = Counter()
    for _, item, count, _ in sums:
        counted[item] += count
    stage.check(
        counted == sold,
        f"{batches} micro-batches during the writes, and every sale is counted once: "
        + ", ".join(f"{count:,} {item}" for item, count in sorted(counted.items())),
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
    """Append more and more sales, and relocate older records into the lake."""
    started_at = time.monotonic()
    ticks = 0
    while (elapsed_s := time.monotonic() - started_at) < seconds:
        _sell_basket(sales, elapsed_s, sold)
        ticks += 1
        if ticks % 5 == 0:
            store.checkpoint()
            store.relocate()
        time.sleep(_TICK_S)


def _sell_basket(sales: Topic, elapsed_s: float, sold: Counter[str]) -> None:
    basket = [
        (item, cents)
        for index, (item, cents) in enumerate(_ITEMS.items())
        for _ in range(1 + index + int(elapsed_s * (index + 1)))
    ]
    sales.append_many([json.dumps({"item": i, "cents": c}).encode() for i, c in basket])
    sold.update(item for item, _ in basket)


def _compact(stage: Stage, store: Store, sales: Topic, spark: SparkSession) -> None:
    from strandline.pipelines import compact  # noqa: PLC0415
    from strandline.spark.engine import SparkEngine  # noqa: PLC0415

    store.checkpoint()
    store.relocate()
    before = [record.data for record in sales.follow(after=0, timeout_s=0)]
    summary = compact(store, ["sales"], engine=SparkEngine(spark))
    store.relocate()
    after = [record.data for record in sales.follow(after=0, timeout_s=0)]
    stage.check(
        after == before and summary.files_after < summary.files_before,
        f"compact merged {summary.files_before} lake files into {summary.files_after} while the "
        f"store is open, and a reader gets the same {len(after):,} records",
    )


def _write_back(
    stage: Stage, store: Store, sums: list[tuple[str, str, int, int]], spark: SparkSession
) -> None:
    store.topic("sales-by-second")
    frame: Any = spark.createDataFrame(
        [(json.dumps({"second": s, "item": i, "sold": n, "cents": c}), i) for s, i, n, c in sums],
        "data string, tag string",
    )
    for _ in range(2):  # as if the job is repeated by mistake
        frame.write.format("strandline").mode("append").option("topic", "sales-by-second").option(
            "writeId", "the demo"
        ).save(store.path)
    count = store.topic("sales-by-second").head_seq
    stage.check(
        count == len(sums),
        f"Spark wrote the {len(sums)} sums to a topic twice, and each is stored once",
    )


def _keep_fresh(stage: Stage, store: Store, spark: SparkSession) -> None:
    from strandline.spark.engine import SparkEngine  # noqa: PLC0415

    tables.kept_fresh(stage, store, SparkEngine(spark))


def _draw(stage: Stage, sums: list[tuple[str, str, int, int]], picture: str) -> None:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        stage.print_line("matplotlib is not installed: no chart")
        return
    seconds = sorted({second for second, *_ in sums})
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for name in _ITEMS:
        revenue = {second: cents / 100 for second, item, _, cents in sums if item == name}
        axes.plot(seconds, [revenue.get(second, 0.0) for second in seconds], marker="o", label=name)
    axes.set(title="Sales by the second, summed by Spark", xlabel="second", ylabel="revenue")
    axes.tick_params(axis="x", rotation=45)
    axes.legend()
    figure.savefig(picture, dpi=120)
    stage.print_line(f"chart: {picture}")
