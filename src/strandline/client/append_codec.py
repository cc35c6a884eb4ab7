"""Encodes appends as JSON or Arrow, after the checks that an embedded store makes. Pure.

A few small records are sent as JSON, more or larger ones as columns. Bytes that a server would
reject as JSON (nested too deep, or not JSON) are sent in base64, so any bytes arrive unchanged.

Only the server checks the sizes of records and batches: the limits are its settings.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from strandline.api.records import as_json, text_field
from strandline.client.bytes_fields import is_shallow
from strandline.client.request import ARROW, JSON
from strandline.config.settings import LimitSettings
from strandline.log.append.batch import IdempotencyKey, of_arrow, of_many
from strandline.log.topic.validation import check_expected_head
from strandline.records import BatchNumber

UNLIMITED = LimitSettings(
    record_bytes_max=2**62, batch_records_max=2**62, batch_bytes_max=2**62, page_records_max=2**62
)
_JSON_RECORDS_MAX = 32
_JSON_BYTES_MAX = 64 * 1024
_WIDE = {"data": pa.binary(), "key": pa.binary(), "meta": pa.binary()}
_COLUMNS = ("key", "tag", "node", "meta")
_text = msgspec.json.Encoder().encode

Columns = Mapping[str, Any]
"""key, tag, node and meta: one value for all records, one for each, or None."""


class Body(NamedTuple):
    """The body of a request."""

    media_type: str
    content: bytes
    query: Mapping[str, str] = {}


class AppendTerms(NamedTuple):
    """The options of an append besides its records."""

    expected_head: int | None = None
    once: IdempotencyKey | None = None


def encode_records(
    data: Sequence[bytes], columns: Columns, terms: AppendTerms, *, checked: bool = False
) -> Body:
    """The body that appends records; with ``checked`` they were validated before."""
    check_expected_head(terms.expected_head)
    if not checked:
        of_many(data, columns, terms.once, UNLIMITED)
    small = len(data) <= _JSON_RECORDS_MAX and sum(map(len, data)) <= _JSON_BYTES_MAX
    if not small:
        return _as_arrow(pa.table(_arrays(data, columns)), terms)
    records = b",".join(_record(index, each, columns) for index, each in enumerate(data))
    fields = b"".join(_fields(terms))
    return Body(JSON, b'{"records":[%b],"create":false%b}' % (records, fields))


def encode_table(batch: pa.RecordBatch | pa.Table, terms: AppendTerms) -> Body:
    """The body that appends the rows of an Arrow batch."""
    check_expected_head(terms.expected_head)
    of_arrow(batch, terms.once, UNLIMITED)
    return _as_arrow(batch, terms)


def value_field(name: bytes, data: bytes) -> bytes:
    """A field of a JSON object, with a comma before it: as JSON if every server accepts the bytes
    as JSON, else in base64.
    """
    if as_json(data) is not None and is_shallow(data):
        return b',"%b":%b' % (name, data)
    return b',"%b_base64":"%b"' % (name, b64encode(data))


def ipc(table: pa.RecordBatch | pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return bytes(sink.getvalue())


def _as_arrow(table: pa.RecordBatch | pa.Table, terms: AppendTerms) -> Body:
    query = {"create": "false"}
    if terms.expected_head is not None:
        query["expected_head_seq"] = str(terms.expected_head)
    if isinstance(terms.once, BatchNumber):
        query |= {"producer": terms.once.producer, "number": str(terms.once.number)}
    elif terms.once is not None:
        query |= [_once_field(terms.once)]
    return Body(ARROW, ipc(table), query)


def _arrays(data: Sequence[bytes], columns: Columns) -> dict[str, pa.Array]:
    arrays = {"data": pa.array(data, pa.binary())}
    for name in _COLUMNS:
        values = columns.get(name)
        if values is None:
            continue
        if isinstance(values, str | bytes):
            values = [values] * len(data)
        if name == "key":
            values = [each.encode() if isinstance(each, str) else each for each in values]
        arrays[name] = pa.array(values, _WIDE.get(name, pa.string()))
    return arrays


def _record(index: int, data: bytes, columns: Columns) -> bytes:
    parts = [value_field(b"data", data)]
    for name in _COLUMNS:
        value: Any = columns.get(name)
        if value is not None and not isinstance(value, str | bytes):
            value = value[index]
        if value is None:
            continue
        if name == "meta":
            parts.append(b',"meta_base64":"%b"' % b64encode(value))
        elif name == "key":
            parts.append(text_field(b"key", value.encode() if isinstance(value, str) else value))
        else:
            parts.append(b',"%b":%b' % (name.encode(), _text(value)))
    return b"{%b}" % b"".join(parts)[1:]


def _fields(terms: AppendTerms) -> list[bytes]:
    fields = []
    if terms.expected_head is not None:
        fields.append(b',"expected_head_seq":%d' % terms.expected_head)
    if isinstance(terms.once, BatchNumber):
        fields.append(b',"numbered":' + _text(terms.once))
    elif terms.once is not None:
        name, text = _once_field(terms.once)
        fields.append(b',"%b":%b' % (name.encode(), _text(text)))
    return fields


def _once_field(once: bytes | str) -> tuple[str, str]:
    """The name and the text of the field for an idempotency key."""
    try:
        return "idempotency_key", once.decode() if isinstance(once, bytes) else once
    except UnicodeDecodeError:
        assert isinstance(once, bytes)
        return "idempotency_key_base64", b64encode(once).decode()
