"""Records as lines of JSON, as ``strandline read --output jsonl`` prints them. Pure.

    {"data": "tea", "key": "table-4", "tag": "eu"}
    {"data": {"price": 3.2}}
    {"data_base64": "/wA=", "seq": 7, "ts": 1774706700000000}

``data``, ``key`` and ``meta`` are text, or base64 under ``NAME_base64``; ``data`` and ``meta`` may
also be any other JSON, which is stored as its text. ``seq`` and ``ts`` are ignored: the topic
assigns new ones.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from strandline.cli.options import RecordFieldOptions
from strandline.errors import Invalid

_CODE_QUOTE = ord('"')


class RecordLineColumns(NamedTuple):
    """Records of one batch, field by field."""

    data: list[bytes]
    keys: list[bytes | str | None]
    tags: list[str | None]
    nodes: list[str | None]
    metas: list[bytes | None]


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data: Raw | UnsetType = UNSET
    data_base64: str | None = None
    key: str | None = None
    key_base64: str | None = None
    tag: str | None = None
    node: str | None = None
    meta: Raw | UnsetType = UNSET
    meta_base64: str | None = None
    seq: int | None = None
    ts: int | None = None


_decoder = msgspec.json.Decoder(_Line)


def columns_of(lines: list[bytes], before: int, fields: RecordFieldOptions) -> RecordLineColumns:
    """The records of a batch of lines; options fill missing fields. Empty lines are skipped.

    ``before`` is the number of earlier lines, for messages.
    """
    columns = RecordLineColumns([], [], [], [], [])
    for line_number, line in enumerate(lines, start=before + 1):
        if not line.strip():
            continue
        try:
            record = _decoder.decode(line)
            _add(columns, record, fields)
        except (msgspec.MsgspecError, UnicodeDecodeError, binascii.Error) as error:
            wrong = Invalid(f"line {line_number} is not a record: {error}")
            wrong.add_note('a line looks like {"data": "tea", "key": "table-4", "tag": "eu"}')
            raise wrong from error
    return columns


def _add(columns: RecordLineColumns, record: _Line, fields: RecordFieldOptions) -> None:
    data = _stored(record.data, record.data_base64)
    if data is None:
        raise msgspec.ValidationError("it has no `data`")
    meta = _stored(record.meta, record.meta_base64)
    key = record.key if record.key_base64 is None else _decoded(record.key_base64)
    columns.data.append(data)
    columns.keys.append(fields.key if key is None else key)
    columns.tags.append(fields.tag if record.tag is None else record.tag)
    columns.nodes.append(fields.node if record.node is None else record.node)
    shared_meta = None if fields.meta is None else fields.meta.encode()
    columns.metas.append(shared_meta if meta is None else meta)


def _stored(value: Raw | UnsetType, coded: str | None) -> bytes | None:
    if coded is not None:
        return _decoded(coded)
    if value is UNSET:
        return None
    text = bytes(value)
    if text == b"null":
        return None
    if text[0] == _CODE_QUOTE:
        return msgspec.json.decode(text, type=str).encode()
    return text


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
