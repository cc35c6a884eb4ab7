"""Results of commands and SQL, read from Arrow: ``api/results.py`` has the format. Pure."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from strandline.api.results import CHART, MESSAGE, NOTES, RESULT_COLUMN, RESULTS
from strandline.query.execute.result import Result

_OURS = (MESSAGE, CHART, RESULTS)


class RemoteResult(Result):
    """An answer that a server has told. Immutable; safe from many threads."""

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
        """What PLOT has drawn, as a Vega-Lite specification."""

    @property
    def message(self) -> str:
        return self._message


def read_result(stream: bytes) -> Result:
    """The result that an IPC stream holds, with its notes."""
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
    """The results that the error of a BATCH has in its detail."""
    encoded = detail.get("results_arrow")
    if not isinstance(encoded, str):
        return ()
    return _results(_read(b64decode(encoded))[RESULT_COLUMN])


def result_from(table: pa.Table) -> Result:
    """A result, and of a BATCH the results of its commands."""
    told = table.schema.metadata or {}
    plain = table.replace_schema_metadata(
        {name: text for name, text in told.items() if name not in _OURS} or None
    )
    if MESSAGE not in told:
        return Result(plain)
    chart = msgspec.json.decode(told[CHART]) if CHART in told else None
    results: tuple[Result, ...] = ()
    if RESULTS in told:
        column = told[RESULTS].decode()
        results = _results(plain[column])
        plain = plain.drop_columns([column])
    return RemoteResult(plain, told[MESSAGE].decode(), chart, results)


def _results(column: pa.ChunkedArray) -> tuple[Result, ...]:
    """Results of a BATCH, each an IPC stream."""
    return tuple(result_from(_read(stream)) for stream in column.to_pylist())


def _read(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()
