"""A driver of Spark that streams from one store into another, until it has all or is killed."""

from __future__ import annotations

import sys

from strandline.spark import session


def main(source: str, sink: str, checkpoint: str, scratch: str) -> None:
    spark = session("local[2]", **{"spark.driver.memory": "1g", "spark.local.dir": scratch})
    query = (
        spark.readStream.format("strandline")
        .options(topic="t", maxRecordsPerTrigger="40")
        .load(source)
        .select("data")
        .writeStream.format("strandline")
        .options(topic="t", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start(sink)
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
