"""Decodes append requests, in every media type. Pure.

A body is JSON (``{"records": [...]}``), NDJSON (one record per line) or an Arrow stream. Values of
the body win over the query, and those of the query over the header.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pyarrow as pa

from strandline.api import arrow_records
from strandline.api.errors import Refused
from strandline.api.json_limits import certainly_accepts, check_json
from strandline.api.records import WriteRecord, from_base64
from strandline.api.topics import AppendBody, AppendQuery
from strandline.errors import Invalid
from strandline.log.append.batch import IdempotencyKey
from strandline.records import BatchNumber
from strandline.server.http import request_decoder

JSON = "application/json"
NDJSON = "application/x-ndjson"
MEDIA_TYPES = (JSON, NDJSON, arrow_records.MEDIA_TYPE)

Key = str | bytes


class _PlainRecord(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A record that has only data."""

    data: msgspec.Raw


class _PlainAppend(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An append that has only records with data."""

    records: list[_PlainRecord]


_append = msgspec.json.Decoder(AppendBody)
_plain = msgspec.json.Decoder(_PlainAppend)
_record = msgspec.json.Decoder(WriteRecord)


class AppendRequest(NamedTuple):
    """A decoded append request."""

    records: list[WriteRecord]
    table: pa.Table | None
    node: str | None
    once: IdempotencyKey | None
    expected_head: int | None
    create: bool | None
    bypass: bool
    size: int
    """Of the body, in bytes."""


def decode_body(body: bytes) -> AppendBody:
    """The append of a JSON body; errors name the field."""
    try:
        return _append.decode(body)
    except msgspec.DecodeError as error:
        raise request_decoder.body_error(error) from error
    except RecursionError as error:
        raise request_decoder.invalid("the body is nested too deep") from error


def plain_batch(body: bytes, depth_max: int) -> list[bytes] | None:
    """The data of the records of a JSON body; None when the body has more than data."""
    try:
        records = _plain.decode(body).records
    except (msgspec.DecodeError, RecursionError):
        return None  # more fields, or an error, which the full decoder reports
    if not records:
        return None
    data = [bytes(record.data) for record in records]
    if not certainly_accepts(body, max(map(len, data)), depth_max):
        for each in data:
            check_json(each, depth_max)
    return data


def request_of(body: bytes, media_type: str, key: str | None, query: AppendQuery) -> AppendRequest:
    """The append request of a body, with the key of the header and the options of the query."""
    if media_type == JSON:
        return request_of_json(decode_body(body), key, query, len(body))
    once = _once(_key(query, key), query.producer, query.number)
    records: list[WriteRecord] = []
    table = None
    if media_type == NDJSON:
        try:
            records = _record.decode_lines(body)
        except msgspec.DecodeError as error:
            raise request_decoder.body_error(error) from error
        except RecursionError as error:
            raise request_decoder.invalid("a record is nested too deep") from error
    elif media_type == arrow_records.MEDIA_TYPE:
        table = arrow_records.table_of(body)
    else:
        raise Refused(415, "unsupported_media_type", f"send {' or '.join(MEDIA_TYPES)}")
    return AppendRequest(
        records,
        table,
        query.node,
        once,
        query.expected_head_seq,
        query.create,
        query.disable_backpressure,
        len(body),
    )


def request_of_json(
    request: AppendBody, key: str | None, query: AppendQuery, size: int
) -> AppendRequest:
    """The append request of a decoded JSON body."""
    numbered = request.numbered
    producer, number = (
        (query.producer, query.number) if numbered is None else (numbered.producer, numbered.number)
    )
    return AppendRequest(
        request.records,
        None,
        query.node if request.node is None else request.node,
        _once(_key(request, _key(query, key)), producer, number),
        query.expected_head_seq if request.expected_head_seq is None else request.expected_head_seq,
        query.create if request.create is None else request.create,
        request.disable_backpressure or query.disable_backpressure,
        size,
    )


def _key(fields: AppendBody | AppendQuery, default: Key | None) -> Key | None:
    if fields.idempotency_key_base64 is None:
        return default if fields.idempotency_key is None else fields.idempotency_key
    if fields.idempotency_key is not None:
        raise Invalid("send idempotency_key or idempotency_key_base64, not both")
    return from_base64(fields.idempotency_key_base64, "idempotency_key_base64")


def _once(key: Key | None, producer: str | None, number: int | None) -> IdempotencyKey | None:
    if producer is None and number is None:
        return key
    if producer is None or number is None or key is not None:
        raise Invalid("send an idempotency key, or a producer with its number")
    return BatchNumber(producer, number)
