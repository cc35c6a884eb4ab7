"""Decodes results of commands and SQL from Arrow; ``api/results.py`` has the format. Pure."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from strandline.api.results import CHART, MESSAGE, NOTES, RESULT_COLUMN, RESULTS
from strandline.query.execute.result import Result

_OWN_KEYS = (MESSAGE, CHART, RESULTS)


class RemoteResult(Result):
    """A result that a server has returned. Immutable; safe from many threads."""

    def __init__(
        self,
        table: pa.Table,
        message: str,
        chart: dict[str, Any] | None,
        results: tuple[Result, ...] = (),
    ) -> None:
        super().__init__(table)
        self._message = message
        self.results = results
        self.chart = chart
        """The chart of PLOT, as a Vega-Lite specification."""

    @property
    def message(self) -> str:
        return self._message


def read_result(stream: bytes) -> Result:
    """Decode a result with its notes from an IPC stream."""
    batches, notes = [], b"[]"
    with pa.ipc.open_stream(stream) as reader:
        for batch, metadata in reader.iter_batches_with_custom_metadata():
            batches.append(batch)
            notes = (metadata or {}).get(NOTES, notes)
        table = pa.Table.from_batches(batches, reader.schema)
    result = result_from(table)
    result.notes = tuple(msgspec.json.decode(notes))
    return result


def results_of(detail: Mapping[str, Any]) -> tuple[Result, ...]:
    """The results in the detail of the error of a BATCH."""
    encoded = detail.get("results_arrow")
    if not isinstance(encoded, str):
        return ()
    return _results(_read(b64decode(encoded))[RESULT_COLUMN])


def result_from(table: pa.Table) -> Result:
    """A result; for a BATCH with the results of its commands."""
    metadata = table.schema.metadata or {}
    plain = table.replace_schema_metadata(
        {name: text for name, text in metadata.items() if name not in _OWN_KEYS} or None
    )
    if MESSAGE not in metadata:
        return Result(plain)
    chart = msgspec.json.decode(metadata[CHART]) if CHART in metadata else None
    results: tuple[Result, ...] = ()
    if RESULTS in metadata:
        column = metadata[RESULTS].decode()
        results = _results(plain[column])
        plain = plain.drop_columns([column])
    return RemoteResult(plain, metadata[MESSAGE].decode(), chart, results)


def _results(column: pa.ChunkedArray) -> tuple[Result, ...]:
    """Results of a BATCH, each an IPC stream."""
    return tuple(result_from(_read(stream)) for stream in column.to_pylist())


def _read(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()
