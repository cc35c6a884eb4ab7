"""What an append over the wire asks for, whatever form its body has. Pure.

A body is JSON (``{"records": [...]}``), NDJSON (a record each line) or an Arrow stream. What the
body says wins over the query, and the query over the header.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pyarrow as pa

from strandline.api import arrow_records
from strandline.api.errors import Refused
from strandline.api.json_limits import are_plain, check_json
from strandline.api.records import WriteRecord, from_base64
from strandline.api.topics import Append, AppendQuery
from strandline.errors import Invalid
from strandline.log.append.batch import Once
from strandline.records import Numbered
from strandline.server.http import request_decoder

JSON = "application/json"
NDJSON = "application/x-ndjson"
MEDIA_TYPES = (JSON, NDJSON, arrow_records.MEDIA_TYPE)

Key = str | bytes


class PlainRecord(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A record of which nothing is said but its data."""

    data: msgspec.Raw


class PlainAppend(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An append of which nothing else is said."""

    records: list[PlainRecord]


_append = msgspec.json.Decoder(Append)
_plain = msgspec.json.Decoder(PlainAppend)
_record = msgspec.json.Decoder(WriteRecord)


class Asked(NamedTuple):
    """An append, whatever its body was."""

    records: list[WriteRecord]
    table: pa.Table | None
    node: str | None
    once: Once | None
    expected_head: int | None
    create: bool | None
    bypass: bool
    size: int
    """Of the body."""


def decoded(body: bytes) -> Append:
    """A JSON body; errors name the place."""
    try:
        return _append.decode(body)
    except msgspec.DecodeError as error:
        raise request_decoder.misfit(error) from error
    except RecursionError as error:
        raise request_decoder.invalid("the body is nested too deep") from error


def plain_batch(body: bytes, depth_max: int) -> list[bytes] | None:
    """The records of a JSON body that has nothing but their data, None when it says more."""
    try:
        records = _plain.decode(body).records
    except (msgspec.DecodeError, RecursionError):
        return None  # it says more, or something wrong, which the whole decoder can tell
    if not records:
        return None
    data = [bytes(record.data) for record in records]
    if not are_plain(body, max(map(len, data)), depth_max):
        for each in data:
            check_json(each, depth_max)
    return data


def asked_of(body: bytes, media_type: str, key: str | None, said: AppendQuery) -> Asked:
    """What a body of a type asks for, with a header's key and what the query says."""
    if media_type == JSON:
        return asked_of_json(decoded(body), key, said, len(body))
    once = _once(_key(said, key), said.producer, said.number)
    records: list[WriteRecord] = []
    table = None
    if media_type == NDJSON:
        try:
            records = _record.decode_lines(body)
        except msgspec.DecodeError as error:
            raise request_decoder.misfit(error) from error
        except RecursionError as error:
            raise request_decoder.invalid("a record is nested too deep") from error
    elif media_type == arrow_records.MEDIA_TYPE:
        table = arrow_records.table_of(body)
    else:
        raise Refused(415, "unsupported_media_type", f"send {' or '.join(MEDIA_TYPES)}")
    return Asked(
        records,
        table,
        said.node,
        once,
        said.expected_head_seq,
        said.create,
        said.disable_backpressure,
        len(body),
    )


def asked_of_json(request: Append, key: str | None, said: AppendQuery, size: int) -> Asked:
    """The same of a JSON body."""
    numbered = request.numbered
    producer, number = (
        (said.producer, said.number) if numbered is None else (numbered.producer, numbered.number)
    )
    return Asked(
        request.records,
        None,
        said.node if request.node is None else request.node,
        _once(_key(request, _key(said, key)), producer, number),
        said.expected_head_seq if request.expected_head_seq is None else request.expected_head_seq,
        said.create if request.create is None else request.create,
        request.disable_backpressure or said.disable_backpressure,
        size,
    )


def _key(given: Append | AppendQuery, otherwise: Key | None) -> Key | None:
    if given.idempotency_key_base64 is None:
        return otherwise if given.idempotency_key is None else given.idempotency_key
    if given.idempotency_key is not None:
        raise Invalid("give idempotency_key or idempotency_key_base64, not both")
    return from_base64(given.idempotency_key_base64, "idempotency_key_base64")


def _once(key: Key | None, producer: str | None, number: int | None) -> Once | None:
    if producer is None and number is None:
        return key
    if producer is None or number is None or key is not None:
        raise Invalid("give an idempotency key, or a producer with its number")
    return Numbered(producer, number)
