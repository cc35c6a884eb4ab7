"""Validates rows for a view, and handles invalid ones.

    onInvalid=fail       an invalid row fails the write: nothing is written
    onInvalid=TOPIC      an invalid row is written there: as JSON, with the reason in meta

A batch is encoded as a whole. If it is rejected it is halved until the invalid row is found, so
valid rows cost nothing extra and an invalid row a few more attempts.
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


class RejectedRowMeta(msgspec.Struct, frozen=True, kw_only=True):
    """The meta of an invalid row: JSON."""

    topic: str
    view: str
    reason: str


class RowValidator:
    """Validates the rows of one task. Owned by one thread."""

    def __init__(self, options: WriteOptions, encoder: Encoder) -> None:
        self._options = options
        self._encoder = encoder
        self._bad: list[tuple[bytes, bytes]] = []

    @property
    def rejected_count(self) -> int:
        """The number of invalid rows."""
        return len(self._bad)

    def records(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The records of valid rows."""
        for batch in rows:
            for encoded in self._encode(batch):
                if len(encoded):
                    yield encoded

    def rejected_rows(self) -> Iterator[pa.RecordBatch]:
        """The invalid rows, as records of another topic. Call it after ``records`` is consumed."""
        if self._bad:
            metas, data = zip(*self._bad, strict=True)
            arrays = [pa.array(metas, pa.binary()), pa.array(data, pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, schema=_LETTERS)

    def _encode(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if not len(batch):
            return
        try:
            encoded = self._encoder.encode(batch)
        except (Invalid, pa.ArrowInvalid) as error:
            if len(batch) == 1:
                self._reject(batch, error)
                return
            middle = len(batch) // 2
            yield from self._encode(batch.slice(0, middle))
            yield from self._encode(batch.slice(middle))
            return
        yield encoded

    def _reject(self, batch: pa.RecordBatch, error: Exception) -> None:
        options = self._options
        if options.on_invalid == FAIL:
            raise Invalid(
                f"a row does not fit view={options.view} of topic {options.topic!r}: {error}. "
                "Nothing was written; onInvalid=TOPIC writes such rows to that topic"
            )
        misfit = RejectedRowMeta(topic=options.topic, view=options.view, reason=str(error))
        row = msgspec.json.encode(batch.to_pylist()[0], enc_hook=_as_text)
        self._bad.append((msgspec.json.encode(misfit), row))


def _as_text(value: Any) -> str:
    return str(value)
