"""Serializes query results as JSON, NDJSON or Arrow, and parses parameters. Pure."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from datetime import datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET

from strandline.api import results as wire
from strandline.api.errors import Refused, wire_error_of
from strandline.errors import Invalid, StrandlineError
from strandline.lake.files.typed_columns import truncate_time
from strandline.query.execute import time_values
from strandline.query.execute.command_result import CommandResult
from strandline.query.execute.result import Result, message_of
from strandline.query.execute.time_values import TimeForm, text_of_day, text_of_moment
from strandline.server.http.arrow_streams import ipc_chunks, ipc_of

ROWS_AT_ONCE = 1000
_INT_MAX = 2**63
_encode = msgspec.json.Encoder().encode


def columns_of(schema: pa.Schema) -> list[wire.ResultColumn]:
    return [wire.ResultColumn(field.name, str(field.type)) for field in schema]


def rows_of(batch: pa.RecordBatch) -> list[list[Any]]:
    """Rows of a batch, with values that JSON can represent."""
    columns = [_values(column) for column in batch.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def json_stream(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], notes: Callable[[], Sequence[str]]
) -> Iterator[bytes]:
    """``wire.Result`` as JSON of rows that are still computed, with times in microseconds."""
    count = 0
    micros_schema = time_values.in_microseconds(schema.empty_table()).schema
    yield b'{"columns":%b,"rows":[' % _encode(columns_of(micros_schema))
    for batch in batches:
        for first in range(0, batch.num_rows, ROWS_AT_ONCE):
            rows = batch.slice(first, ROWS_AT_ONCE)
            yield (b"," if count else b"") + _encode(rows_of(rows))[1:-1]
            count += rows.num_rows
    yield b'],"message":%b' % _encode(message_of(count))
    texts = notes()
    yield b',"notes":%b}' % _encode(texts) if texts else b"}"


def json_chunks(result: Result) -> Generator[bytes]:
    """``wire.Result`` as JSON, some rows at a time."""
    yield b'{"columns":%b,"rows":[' % _encode(columns_of(result.schema))
    comma = b""
    for batch in result.batches(ROWS_AT_ONCE):
        yield comma + _encode(rows_of(batch))[1:-1]
        comma = b","
    yield b'],"message":%b' % _encode(result.message)
    chart = chart_of(result)
    if chart is not None:
        yield b',"chart":%b' % _encode(chart)
    if result.results:
        yield b',"results":'
        yield from json_list(result.results)
    if result.notes:
        yield b',"notes":%b' % _encode(result.notes)
    yield b"}"


def json_list(results: Sequence[Result]) -> Generator[bytes]:
    """Results as a JSON array of ``wire.Result``."""
    comma = b"["
    for result in results:
        yield comma
        yield from json_chunks(result)
        comma = b","
    yield b"]"


def ndjson_chunks(
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    message: str | None = None,
    results: Sequence[Result] = (),
    notes: Callable[[], Sequence[str]] = tuple,
) -> Generator[bytes]:
    """Lines: the schema, rows, the results of the commands of a BATCH, the end."""
    count = 0
    yield _encode(wire.SchemaLine(columns=columns_of(schema))) + b"\n"
    for batch in batches:
        for first in range(0, batch.num_rows, ROWS_AT_ONCE):
            rows = rows_of(batch.slice(first, ROWS_AT_ONCE))
            count += len(rows)
            yield _encode(wire.RowsLine(rows=rows)) + b"\n"
    for index, result in enumerate(results):
        yield from _result_lines(index, result)
    message = f"{count} rows" if message is None else message
    end = wire.EndLine(row_count=count, message=message, notes=list(notes()) or UNSET)
    yield _encode(end) + b"\n"


def _result_lines(index: int, result: Result) -> Generator[bytes]:
    """One result of a BATCH."""
    columns, chart = columns_of(result.schema), chart_of(result)
    chart_or_unset = UNSET if chart is None else chart
    head = wire.ResultLine(
        index=index, columns=columns, message=result.message, chart=chart_or_unset
    )
    yield _encode(head) + b"\n"
    for batch in result.batches(ROWS_AT_ONCE):
        yield _encode(wire.ResultRowsLine(index=index, rows=rows_of(batch))) + b"\n"


def error_as_last_line(lines: Generator[bytes]) -> Generator[bytes]:
    """The same lines; an error after the first line becomes the last line."""
    has_started = False
    try:
        with contextlib.closing(lines):
            for line in lines:
                yield line
                has_started = True
    except StrandlineError as error:
        if not has_started:
            raise
        problem = wire_error_of(error)
        fields = {"code": problem.code, "message": problem.message, "detail": problem.detail}
        yield _encode(wire.ErrorLine(error=fields)) + b"\n"


def arrow_chunks(result: Result) -> Generator[bytes]:
    """An IPC stream, with the other fields of the result in the schema's metadata."""
    metadata = {wire.MESSAGE: result.message.encode()}
    chart = chart_of(result)
    if chart is not None:
        metadata[wire.CHART] = _encode(chart)
    table = result.arrow()
    if result.results:
        metadata[wire.RESULTS] = wire.RESULT_COLUMN.encode()
        table = table.append_column(wire.RESULT_COLUMN, arrow_column(result.results))
    schema = table.schema.with_metadata({**(table.schema.metadata or {}), **metadata})
    batches = (batch.replace_schema_metadata(schema.metadata) for batch in table.to_batches(8192))
    return ipc_chunks(schema, batches)


def arrow_column(results: Sequence[Result]) -> pa.Array:
    """Each result as an IPC stream."""
    streams = [b"".join(arrow_chunks(result)) for result in results]
    return pa.array(streams, pa.large_binary())


def with_results(error: StrandlineError, *, arrow: bool) -> StrandlineError:
    """The error of a BATCH, with the results of the commands before it."""
    if not error.results:
        return error
    problem = wire_error_of(error)
    detail = dict(problem.detail)
    if arrow:
        table = pa.table({wire.RESULT_COLUMN: arrow_column(error.results)})
        detail["results_arrow"] = ipc_of(table)
    else:
        detail["results"] = msgspec.json.decode(b"".join(json_list(error.results)))
    retry_after_s = problem.retry_after_s
    return Refused(*problem[:3], detail=detail, retry_after_s=retry_after_s)


def chart_of(result: Result) -> dict[str, Any] | None:
    """The Vega-Lite specification of a PLOT."""
    chart = result.chart if isinstance(result, CommandResult) else None
    return None if chart is None else chart.vega


def params_of(params: list[Any] | dict[str, Any] | None) -> list[Any] | dict[str, Any] | None:
    """Parameters as Python values."""
    if isinstance(params, list):
        return [_param(value) for value in params]
    return None if params is None else {name: _param(value) for name, value in params.items()}


def _param(value: Any) -> Any:
    if isinstance(value, dict):
        (name, inner), *others = value.items() or [("", None)]
        if not others and name == "$base64" and isinstance(inner, str):
            return _converted(inner, bytes, "base64")
        if not others and name == "$time" and isinstance(inner, str):
            return _converted(truncate_time(inner), datetime, "a time")
    return value


def _converted(text: str, kind: type, what: str) -> Any:
    try:
        return msgspec.convert(text, kind)
    except msgspec.ValidationError as error:
        raise Invalid(f"a parameter is not {what}: {error}") from error


def _values(column: pa.Array) -> Sequence[Any]:
    values = time_values.values(column, _TIMES)
    plain = (
        *(pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_floating),
        *(pa.types.is_timestamp, pa.types.is_date32),
    )
    if any(kind(column.type) for kind in plain):
        return values  # msgspec encodes NaN and infinity as null
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """A value that JSON can represent."""
    convert = _CONVERTERS.get(type(value))
    return value if convert is None else convert(value)


def _whole(value: int) -> int | str:
    return value if -_INT_MAX <= value < 2 * _INT_MAX else str(value)


def _decimal(value: Decimal) -> Any:
    if value == value.to_integral_value() and value.as_tuple().exponent == 0:
        return _whole(int(value))
    return str(value)


_TIMES = TimeForm(text_of_day, partial(text_of_moment, timespec="microseconds"))
_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    int: _whole,
    float: lambda value: value if math.isfinite(value) else None,
    Decimal: _decimal,
    time: lambda value: value.isoformat(),
    timedelta: lambda value: value.total_seconds(),
    list: lambda value: [_plain(each) for each in value],
    tuple: lambda value: [_plain(each) for each in value],
    dict: lambda value: {str(name): _plain(each) for name, each in value.items()},
}
