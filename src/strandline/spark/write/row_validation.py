"""Which rows fit a view, and what becomes of the others.

    onInvalid=fail       one row that does not fit fails the write: nothing of it is written
    onInvalid=TOPIC      it goes there: the row as JSON, and in meta why it did not fit

A batch is encoded as a whole. When it is refused it is halved until the row is found that is to
blame, so what fits costs nothing extra and a bad row a few more tries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from strandline.errors import Invalid
from strandline.spark.read.options import FAIL, WriteOptions
from strandline.spark.row_mappers.row_encoder import Encoder

_LETTERS = pa.schema([pa.field("meta", pa.binary()), pa.field("data", pa.binary(), nullable=False)])


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """The meta of a row that did not fit: JSON."""

    topic: str
    view: str
    reason: str


class Fitting:
    """Rows of one task on their way into a view. Owned by one thread."""

    def __init__(self, options: WriteOptions, encoder: Encoder) -> None:
        self._options = options
        self._encoder = encoder
        self._bad: list[tuple[bytes, bytes]] = []

    @property
    def misfits(self) -> int:
        """How many rows did not fit."""
        return len(self._bad)

    def records(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The records of rows that fit."""
        for batch in rows:
            for found in self._fitting(batch):
                if len(found):
                    yield found

    def letters(self) -> Iterator[pa.RecordBatch]:
        """The rows that did not, as records of another topic. Ask when all records are taken."""
        if self._bad:
            metas, data = zip(*self._bad, strict=True)
            arrays = [pa.array(metas, pa.binary()), pa.array(data, pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, schema=_LETTERS)

    def _fitting(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if not len(batch):
            return
        try:
            found = self._encoder.encode(batch)
        except (Invalid, pa.ArrowInvalid) as error:
            if len(batch) == 1:
                self._refuse(batch, error)
                return
            middle = len(batch) // 2
            yield from self._fitting(batch.slice(0, middle))
            yield from self._fitting(batch.slice(middle))
            return
        yield found

    def _refuse(self, batch: pa.RecordBatch, error: Exception) -> None:
        options = self._options
        if options.on_invalid == FAIL:
            raise Invalid(
                f"a row does not fit view={options.view} of topic {options.topic!r}: {error}. "
                "Nothing was written; onInvalid=TOPIC would put such rows there"
            )
        misfit = Misfit(topic=options.topic, view=options.view, reason=str(error))
        row = msgspec.json.encode(batch.to_pylist()[0], enc_hook=_as_text)
        self._bad.append((msgspec.json.encode(misfit), row))


def _as_text(value: Any) -> str:
    return str(value)
