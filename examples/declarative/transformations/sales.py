"""Tables over the topic `sales` of a store: one that grows with it, two that are made from that.

`sales` is a streaming table: each run reads on from where the last one ended, so records that have
left the topic since stay in the table. The views are computed anew from it in every run.

The store is the folder that STRANDLINE_STORE names, the topic has JSON such as
{"item": "tea", "cents": 250}.
"""

import os

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from strandline.spark.source.source import StrandlineSource

STORE = os.path.abspath(os.environ.get("STRANDLINE_STORE", "data"))
SALE = "item string, cents long"

spark = SparkSession.active()
spark.dataSource.register(StrandlineSource)


@pipelines.table(comment="Every sale, once, with its place and time in the topic.")
def sales() -> DataFrame:
    records = spark.readStream.format("strandline").option("topic", "sales").load(STORE)
    sale = f.from_json(f.col("data").cast("string"), SALE)
    return records.select("seq", "ts", sale.alias("sale")).select("seq", "ts", "sale.*")


@pipelines.materialized_view(comment="What was sold in each hour.")
def hourly() -> DataFrame:
    hour = f.date_trunc("hour", "ts").alias("hour")
    sold = f.count("*").alias("sold")
    return spark.read.table("sales").groupBy(hour, "item").agg(sold, f.sum("cents").alias("cents"))
