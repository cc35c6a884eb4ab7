"""Lake files through Spark's own Parquet reader: code for tables of records and of events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from strandline.errors import Invalid

PATHS_MAX = 64
"""More files than this are named by their folder and a filter: Spark checks every path, one by
one."""

RANGES_MAX = 64
"""More hidden ranges than this are removed by a join."""


def filtered_without(
    spark: SparkSession, frame: DataFrame, conditions: Sequence[Column], seqs: Any
) -> DataFrame:
    """The rows that match all conditions, without these seqs."""
    ranges = _ranges(seqs)
    if len(ranges) > RANGES_MAX:
        listed = spark.createDataFrame(pa.table({"seq": seqs}))
        return filtered(frame, conditions).join(f.broadcast(listed), "seq", "left_anti")
    return filtered(frame, [*conditions, *(~f.col("seq").between(*ends) for ends in ranges)])


def _ranges(seqs: Any) -> list[tuple[int, int]]:
    """First and last of each run in an array of seqs."""
    if not len(seqs):
        return []
    breaks = np.flatnonzero(np.diff(seqs) > 1)
    firsts, lasts = seqs[np.r_[0, breaks + 1]], seqs[np.r_[breaks, len(seqs) - 1]]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def filtered(frame: DataFrame, conditions: Sequence[Column]) -> DataFrame:
    """The rows that match all conditions, in one step."""
    return frame.where(reduce(Column.__and__, conditions)) if conditions else frame


def spark_url(lake: str) -> str:
    """The URL of the lake for the file systems of Spark."""
    scheme, separator, rest = lake.partition("://")
    if not separator:
        return f"file://{lake}"
    if scheme == "s3":
        return f"s3a://{rest}".rstrip("/")
    if scheme in ("file", "gs"):
        return lake.rstrip("/")
    raise Invalid(f'Spark cannot read {lake} by itself: use spark.read.format("strandline")')
