"""A relation as DuckDB reads it: it asks for columns and rows, and gets them as they are made.

DuckDB plans a question over a dataset of Arrow, then tells each scan which columns it needs and
which rows, as far as that is a comparison with values. What it tells it does not check again, so
the filter is applied here, to the letter. Batches are made when DuckDB wants the next one: a topic
is never whole in memory, and a scan that needs no more rows stops reading.

What goes wrong while rows are made happens in a thread of DuckDB, and would come out as its own
error with ours as text. So it is kept, for whoever runs the question to raise it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from strandline.query.execute.interrupt import current
from strandline.query.sql import filters

if TYPE_CHECKING:  # a process of its own reads relations, and has no store
    from strandline.query.sql.relations.relation import Relation


class _Scan:
    """One scan: DuckDB asks it for a reader."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader


class RelationDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A relation in the place of a dataset. Safe from many threads."""

    def __init__(self, relation: Relation, failures: list[Exception]) -> None:
        # Datasets of Arrow are made by Arrow alone: this one has nothing of theirs but the name.
        self.relation = relation
        self.failures = failures
        """What went wrong while rows were made."""
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
        """DuckDB's question: these columns of the rows for which the filter holds."""
        schema = self.schema
        wanted = list(schema.names if columns is None else columns)
        shape = pa.schema([schema.field(name) for name in wanted])
        return _Scan(pa.RecordBatchReader.from_batches(shape, self._batches(wanted, shape, filter)))

    def _batches(
        self, wanted: list[str], shape: pa.Schema, filter: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        needed = list(dict.fromkeys([*wanted, *filters.mentioned(filter, self.schema)]))
        try:
            for batch in self.relation.batches(needed, filters.read(filter)):
                self._interrupt.check()
                found = batch if filter is None else batch.filter(filter)
                if found.num_rows:
                    yield found.select(wanted).cast(shape)
        except Exception as error:
            self.failures.append(error)
            raise
