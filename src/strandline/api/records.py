"""Records on the wire: converts them to and from JSON. Pure.

    written  {"data": ..., "key"?, "tag"?, "node"?, "meta"?}
    read     {"$seq": 7, "$ts": 1790000000000, "$key"?, "$node"?, "$tag"?, "data": ..., "meta"?}

``data`` is any JSON value and is stored as the bytes that were sent. Bytes that are not JSON are
sent as ``data_base64``; the same holds for ``meta`` (a JSON object) and, when it is not UTF-8, for
``key``. Absent fields are omitted. ``$ts`` is in milliseconds, ``$us`` in microseconds.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from strandline.api.json_limits import check_json
from strandline.errors import Invalid, TooLarge
from strandline.records import Record

Tag = Annotated[str, Meta(max_length=256)]
Node = Annotated[str, Meta(max_length=128)]
Key = Annotated[str, Meta(max_length=4096)]

_BLANK = b" \t\r\n"
_READ_NAMES = {name: f"${name}" for name in ("seq", "ts", "us", "key", "key_base64", "node", "tag")}
_raw = msgspec.json.Decoder(Raw)
_object = msgspec.json.Decoder(dict[str, Raw])
_text = msgspec.json.Encoder().encode


class WriteRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A record to append: ``data`` or ``data_base64``; the other fields are optional."""

    data: Raw | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    key: Key | None = None
    key_base64: str | None = None
    tag: Tag | None = None
    node: Node | None = None
    meta: Raw | UnsetType = UNSET
    meta_base64: str | None = None


class ReadRecord(msgspec.Struct, kw_only=True, omit_defaults=True, rename=_READ_NAMES):
    """A record in a response."""

    seq: int
    ts: int
    us: int | UnsetType = UNSET
    key: str | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    node: str | UnsetType = UNSET
    tag: str | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    meta: Raw | UnsetType = UNSET
    meta_base64: str | UnsetType = UNSET


class RecordFields(NamedTuple):
    """The fields of records that a reader requests."""

    tags: bool = False
    meta: bool = True
    data: bool = True
    micros: bool = False


class MetaLimits(NamedTuple):
    """Limits of the ``meta`` of a record."""

    size_max: int
    keys_max: int


def as_json(data: bytes) -> Raw | None:
    """Bytes as a JSON value, None when they are not UTF-8, not JSON, or have blanks around it."""
    if not data or data[0] in _BLANK or data[-1] in _BLANK:
        return None
    try:
        if not data.isascii():
            data.decode()
        return _raw.decode(data)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return None


def from_base64(text: str, name: str) -> bytes:
    """The bytes that a base64 text encodes."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"{name} is not base64: {error}") from error


def to_base64(data: bytes) -> str:
    return b64encode(data).decode()


def encode_record(record: Record, shown: RecordFields) -> bytes:
    """A record as JSON."""
    ts = record.ts
    parts = [b'{"$seq":%d,"$ts":%d' % (record.seq, ts // 1000)]
    if shown.micros:
        parts.append(b',"$us":%d' % ts)
    if record.key is not None:
        parts.append(text_field(b"$key", record.key))
    if record.node is not None:
        parts.append(b',"$node":' + _text(record.node))
    if shown.tags and record.tag is not None:
        parts.append(b',"$tag":' + _text(record.tag))
    if shown.data:
        parts.append(value_field(b"data", record.data))
    if shown.meta and record.meta is not None:
        parts.append(value_field(b"meta", record.meta))
    parts.append(b"}")
    return b"".join(parts)


def value_field(name: bytes, data: bytes) -> bytes:
    """A field of an object, after others, whose value is JSON or else base64."""
    if as_json(data) is None:
        return b',"%b_base64":"%b"' % (name, b64encode(data))
    return b',"%b":%b' % (name, data)


def text_field(name: bytes, data: bytes) -> bytes:
    """A field of an object, after others, whose value is text or else base64."""
    try:
        return b',"%b":%b' % (name, _text(data.decode()))
    except UnicodeDecodeError:
        return b',"%b_base64":"%b"' % (name, b64encode(data))


def data_of(record: WriteRecord, depth_max: int) -> bytes:
    """The data of a record to append."""
    if record.data is not UNSET:
        if record.data_base64 is not UNSET:
            raise Invalid("a record has data and data_base64: send one of them")
        data = bytes(record.data)
        check_json(data, depth_max)
        return data
    if record.data_base64 is UNSET:
        raise Invalid("a record has no data: send data (any JSON value) or data_base64")
    return from_base64(record.data_base64, "data_base64")


def key_of(record: Any) -> bytes | None:
    """The key of a struct that has ``key`` and ``key_base64``."""
    if record.key_base64 is None:
        return None if record.key is None else record.key.encode()
    if record.key is not None:
        raise Invalid("send key or key_base64, not both")
    return from_base64(record.key_base64, "key_base64")


def meta_of(record: WriteRecord, limits: MetaLimits, depth_max: int) -> bytes | None:
    """The meta of a record to append."""
    if record.meta_base64 is not None:
        if record.meta is not UNSET:
            raise Invalid("a record has meta and meta_base64: send one of them")
        meta = from_base64(record.meta_base64, "meta_base64")
        _check_meta_size(meta, limits)
        return meta
    if record.meta is UNSET:
        return None
    meta = bytes(record.meta)
    if meta == b"null":
        return None
    _check_meta_size(meta, limits)
    check_json(meta, depth_max)
    try:
        count = len(_object.decode(meta))
    except msgspec.DecodeError as error:
        raise Invalid("meta is not a JSON object: send one") from error
    if count > limits.keys_max:
        raise TooLarge(f"a meta of {count} keys is over {limits.keys_max} (meta_keys_max)")
    return meta


def _check_meta_size(meta: bytes, limits: MetaLimits) -> None:
    if len(meta) > limits.size_max:
        raise TooLarge(f"a meta of {len(meta)} bytes is over {limits.size_max} (meta_bytes_max)")


def encode_records(records: Sequence[Record], shown: RecordFields) -> bytes:
    """Records as a JSON array."""
    return b"[" + b",".join([encode_record(record, shown) for record in records]) + b"]"
