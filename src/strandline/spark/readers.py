"""A batch read of topics through ``format("strandline")``: planned on the driver, run by executors.

The position is pinned when tasks are planned, once for the whole read. Conditions that we
understand are taken over from Spark; the others it checks itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from strandline.pipelines import cuts, parts
from strandline.pipelines.conditions import Condition
from strandline.pipelines.parts import Part
from strandline.pipelines.positions import Position, open_readonly, pin
from strandline.spark import plans
from strandline.spark.failures import told_briefly
from strandline.spark.filters import of_filter
from strandline.spark.options import ReadOptions


class Task(InputPartition):
    """Parts that one task reads."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__(None)
        self.parts = parts


class BatchReader(DataSourceReader):
    """One batch read. Owned by the driver, copied to executors."""

    def __init__(self, options: ReadOptions, pinned: Position | None = None) -> None:
        self.options = options
        self.conditions: tuple[Condition, ...] = options.conditions()
        self._pinned = pinned

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        rest = []
        for each in filters:
            condition = of_filter(each)
            if condition is None:
                rest.append(each)
            else:
                self.conditions = (*self.conditions, condition)
        return rest

    def partitions(self) -> Sequence[InputPartition]:
        with told_briefly():
            options = self.options
            if self._pinned is not None:
                found: list[Part] = []
                for snapshot in self._pinned.topics:
                    wanted = cuts.wanted_range(snapshot, self.conditions)
                    found += cuts.hot_parts(self._pinned, snapshot, wanted)
            else:
                with open_readonly(options.store, options.lake) as store:
                    position = pin(store, options.topics, options.lake)
                    found = plans.batch_parts(store, position, options, self.conditions)
            return [Task(group) for group in cuts.in_tasks(found)] or [Task([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        with told_briefly():
            yield from parts.read(partition.parts, self.options.columns, self.conditions)
