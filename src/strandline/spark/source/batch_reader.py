"""A batch read of topics through ``format("strandline")``: planned on the driver, run by executors.

The position is pinned when tasks are planned, once for the whole read. Supported conditions are
applied here; Spark checks the others itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.predicates import Condition
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.pipelines.splits.split_reader import Part
from strandline.spark.errors import short_errors
from strandline.spark.read import executor_read, read_plan
from strandline.spark.read.filters import condition_of_filter
from strandline.spark.read.options import LOG, ReadOptions
from strandline.spark.read.read_location import open_location
from strandline.spark.read.tasks import Task, in_tasks
from strandline.spark.source import lazy


class BatchReader(DataSourceReader):
    """One batch read. Owned by the driver, copied to executors."""

    def __init__(
        self,
        options: ReadOptions,
        pinned: StorePosition | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        """``schema`` has the columns of a view, None for records."""
        self.options = options
        self.conditions: tuple[Condition, ...] = options.conditions()
        self._pinned = pinned
        self._schema = schema

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        if self.options.view != LOG:
            return filters
        rest = []
        for each in filters:
            condition = condition_of_filter(each)
            if condition is None:
                rest.append(each)
            else:
                self.conditions = (*self.conditions, condition)
        return rest

    def partitions(self) -> Sequence[InputPartition]:
        with short_errors():
            options = self.options
            if self._schema is not None:
                return in_tasks(*lazy.view_parts(options, self._schema)) or [Task([])]
            if self._pinned is not None:
                hot: list[Part] = []
                for snapshot in self._pinned.topics:
                    span = split_planner.selected_range(snapshot, self.conditions)
                    hot += split_planner.hot_parts(self._pinned, snapshot, span)
                return in_tasks(hot) or [Task([])]
            with open_location(options) as location:
                position = location.pin(options.topics)
                parts = read_plan.batch_parts(
                    location, position, options, self.conditions, options.columns
                )
            return in_tasks(parts) or [Task([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        schema = self._schema
        names = self.options.columns if schema is None else schema.names
        with short_errors():
            yield from executor_read.rows(partition, schema, names, self._record_conditions())

    def _record_conditions(self) -> tuple[Condition, ...]:
        """The conditions for each record; none for the state of a view, which is at a position."""
        is_state = self._schema is not None and not lazy.is_log_view(self.options)
        return () if is_state else self.conditions
