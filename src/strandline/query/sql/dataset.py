"""A relation as a dataset of Arrow, from which DuckDB requests columns and rows.

DuckDB plans a query over a dataset of Arrow, then passes to each scan the columns it needs and the
filter on rows, as far as that compares columns with values. DuckDB does not apply this filter
again, so it is applied here, exactly. Batches are produced on request: a topic is never in memory
as a whole, and a scan that needs no more rows stops reading.

An error while rows are produced is raised in a thread of DuckDB, which would report it as its own
error with ours as text. So it is stored in ``failures``, and the caller of the query raises it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from strandline.query.execute.interrupt import current
from strandline.query.sql import filters

if TYPE_CHECKING:  # also used in a process that has no store
    from strandline.query.sql.relations.relation import Relation


class _Scan:
    """One scan, from which DuckDB gets a reader."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader


class RelationDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A relation with the interface of a dataset. Safe from many threads."""

    def __init__(self, relation: Relation, failures: list[Exception]) -> None:
        # No super().__init__(): Arrow cannot create this dataset, only the type is inherited.
        self.relation = relation
        self.failures = failures
        """Errors while rows were produced."""
        self._interrupt = current()

    @property
    def schema(self) -> pa.Schema:
        return self.relation.schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _Scan:
        """Called by DuckDB: these columns of the rows for which the filter holds."""
        schema = self.schema
        requested = list(schema.names if columns is None else columns)
        shape = pa.schema([schema.field(name) for name in requested])
        return _Scan(
            pa.RecordBatchReader.from_batches(shape, self._batches(requested, shape, filter))
        )

    def _batches(
        self, requested: list[str], shape: pa.Schema, filter: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        needed = list(dict.fromkeys([*requested, *filters.filter_columns(filter, self.schema)]))
        try:
            for batch in self.relation.batches(needed, filters.read(filter)):
                self._interrupt.check()
                matching = batch if filter is None else batch.filter(filter)
                if matching.num_rows:
                    yield matching.select(requested).cast(shape)
        except Exception as error:
            self.failures.append(error)
            raise
