"""Builds a batch from the values of an append, and checks them against the limits. Pure.

A batch is one record with its fields, which becomes a single frame, or a draft of many records,
which becomes a block. Every error in a value is found here, before a seq is assigned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict

import pyarrow as pa

from strandline.config.settings import LimitSettings
from strandline.errors import BatchTooLarge, Invalid, TooLarge
from strandline.log.state import producer_seq
from strandline.log.state.reference_copies import CopyOrigin
from strandline.log.state.tag_index import Tags
from strandline.log.wal import block
from strandline.log.wal.block import Draft
from strandline.log.wal.codec import ABSENT
from strandline.log.wal.codec import NO_FIELDS as ALL_ABSENT
from strandline.records import BatchNumber

TAG_SIZE_MAX = 256
NODE_SIZE_MAX = 128
META_SIZE_MAX = 16 * 1024
KEY_SIZE_MAX = 4096
IDEMPOTENCY_KEY_SIZE_MAX = 256

_COLUMNS = (
    ("key", block.KEY, KEY_SIZE_MAX),
    ("tag", block.TAG, TAG_SIZE_MAX),
    ("node", block.NODE, NODE_SIZE_MAX),
    ("meta", block.META, META_SIZE_MAX),
)
_KINDS: dict[str, tuple[type, ...]] = {
    "key": (bytes, str),
    "tag": (str,),
    "node": (str,),
    "meta": (bytes,),
}
_WORDS: dict[type, str] = {bytes: "bytes", str: "text"}
_ARROW_COLUMNS = ("data", "key", "tag", "node", "meta")
_TEXT = ("tag", "node")
_BYTES_LIKE = (
    pa.types.is_null,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)

IdempotencyKey = bytes | str | BatchNumber
"""What identifies a batch that is appended again: an idempotency key, or a producer's number."""

Fields = tuple[bytes | None, bytes | None, bytes | None, bytes | None]
NO_FIELDS: Fields = (None, None, None, None)


class AppendOptions(TypedDict, total=False):
    """The options of one append, for all its records."""

    key: bytes | str | None
    tag: str | None
    node: str | None
    meta: bytes | None
    expected_head: int | None
    idempotency_key: IdempotencyKey | None


class Batch:
    """Records of one topic that become durable together or not at all."""

    __slots__ = (
        "count",
        "data",
        "draft",
        "fields",
        "idempotency_key",
        "origin",
        "payload",
        "sizes",
        "tags",
    )

    def __init__(self, *, count: int, payload: int, tags: Tags) -> None:
        self.count = count
        self.payload = payload
        self.tags = tags
        self.idempotency_key: bytes | None = None
        self.draft: Draft | None = None
        self.origin: CopyOrigin | None = None
        """The records that these are copies of, when the log may refer to them instead."""
        self.fields: Fields = NO_FIELDS
        self.sizes = 0
        self.data = b""


def check_options(options: Mapping[str, object]) -> None:
    """Raise Invalid for an unknown option."""
    for name in options:
        if name not in AppendOptions.__annotations__:
            known = ", ".join(AppendOptions.__annotations__)
            raise Invalid(f"unknown append option {name!r}: known are {known}")


def checked_fields(
    key: bytes | str | None, tag: str | None, node: str | None, meta: bytes | None
) -> Fields:
    """The optional fields as bytes, each within its limit."""
    key_bytes = _text(key, "key") if isinstance(key, str) else key
    return (
        _sized(key_bytes, "key", KEY_SIZE_MAX),
        _sized(_text(tag, "tag"), "tag", TAG_SIZE_MAX),
        _sized(_text(node, "node"), "node", NODE_SIZE_MAX),
        _sized(meta, "meta", META_SIZE_MAX),
    )


def of_plain(data: bytes, limits: LimitSettings) -> Batch:
    """A batch of one record without optional fields."""
    size = len(data)
    if size > limits.record_bytes_max:
        raise TooLarge(
            f"a record of {size} bytes is over record_bytes_max ({limits.record_bytes_max})"
        )
    batch = Batch(count=1, payload=size, tags=None)
    batch.data, batch.sizes = data, ALL_ABSENT
    return batch


def of_one(data: bytes, fields: Fields, tag: str | None, limits: LimitSettings) -> Batch:
    """A batch of one record with its fields."""
    if not isinstance(data, bytes):
        raise Invalid(f"a record is bytes, not {_kind_of(data)}: convert it first")
    batch = of_plain(data, limits)
    batch.fields, batch.tags, batch.sizes = fields, tag, 0
    for place, field in enumerate(fields):
        batch.sizes |= (ABSENT if field is None else len(field)) << (16 * place)
        batch.payload += 0 if field is None else len(field)
    return batch


def of_many(
    data: Sequence[bytes],
    columns: Mapping[str, object],
    idempotency_key: IdempotencyKey | None,
    limits: LimitSettings,
) -> Batch:
    """A batch of records; a column is one value for all, one for each, or None."""
    _check_records(data)
    for name, values in columns.items():
        if isinstance(values, (str, bytes)):
            _check_value(values, name)
        elif values is not None:
            _check_column(values, name, len(data))
    return _of_draft(block.draft(data), columns, idempotency_key, limits)


def of_arrow(
    source: pa.RecordBatch | pa.Table, idempotency_key: IdempotencyKey | None, limits: LimitSettings
) -> Batch:
    """A batch of the rows of an Arrow batch or table."""
    if not isinstance(source, (pa.RecordBatch, pa.Table)):
        raise Invalid(f"give an Arrow record batch or table, not {type(source).__name__}")
    names = source.schema.names
    known = set(names) <= set(_ARROW_COLUMNS) and len(set(names)) == len(names)
    if "data" not in names or not known:
        raise Invalid(f"columns are data, key, tag, node and meta; found {', '.join(names)}")
    for name, kind in zip(names, source.schema.types, strict=True):
        if not _holds_bytes(kind):
            raise Invalid(f"column {name} is {kind}: give binary or text")
    try:
        source.validate(full=True)  # an array of the caller may be inconsistent
        columns = {
            name: block.plain_binary(
                _one_array(source.column(name)), pa.string() if name in _TEXT else pa.binary()
            )
            for name in names
        }
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise Invalid(f"data, key and meta are binary, tag and node text: {error}") from error
    draft = Draft(columns.pop("data"))
    return _of_draft(draft, columns, idempotency_key, limits)


def _of_draft(
    draft: Draft,
    columns: Mapping[str, object],
    idempotency_key: IdempotencyKey | None,
    limits: LimitSettings,
) -> Batch:
    if not 0 < draft.count <= limits.batch_records_max:
        raise BatchTooLarge(
            f"a batch of {draft.count} records: give 1 to {limits.batch_records_max} "
            "(batch_records_max)"
        )
    if draft.longest_last > limits.record_bytes_max:
        raise TooLarge(
            f"a record of {draft.longest_last} bytes is over record_bytes_max "
            f"({limits.record_bytes_max})"
        )
    for name, bit, size_max in _COLUMNS:
        draft.add(bit, columns.get(name))
        if draft.longest_last > size_max:
            raise TooLarge(f"a {name} of {draft.longest_last} bytes is over {size_max}")
    key = _idempotency_key(idempotency_key)
    if key is not None:
        draft.add_idempotency(key)
    if draft.size > limits.batch_bytes_max:
        kind = BatchTooLarge if draft.count > 1 else TooLarge
        raise kind(
            f"a batch of {draft.size} bytes is over batch_bytes_max ({limits.batch_bytes_max}): "
            "split it"
        )
    batch = Batch(count=draft.count, payload=draft.payload_size, tags=_tags(columns.get("tag")))
    batch.draft, batch.idempotency_key = draft, key
    return batch


def _idempotency_key(value: IdempotencyKey | None) -> bytes | None:
    if isinstance(value, BatchNumber):
        return producer_seq.encode(value)
    key = _text(value, "idempotency key") if isinstance(value, str) else value
    if key is None:
        return None
    if not isinstance(key, bytes):
        raise Invalid(f"an idempotency key is bytes or text, not {type(key).__name__}")
    if not 0 < len(key) <= IDEMPOTENCY_KEY_SIZE_MAX:
        raise TooLarge(f"an idempotency key has 1 to {IDEMPOTENCY_KEY_SIZE_MAX} bytes")
    if producer_seq.is_mark(key):
        raise Invalid("this key would look like a producer's number: use strandline.BatchNumber")
    return key


def _check_records(data: object) -> None:
    """Raise Invalid for anything but a list of bytes: Arrow would silently encode text."""
    if isinstance(data, bytes):
        raise Invalid("append_many takes a list of records: use append for one")
    is_one_value = isinstance(data, (str, bytearray, memoryview, Mapping))
    if is_one_value or not isinstance(data, Collection) or not hasattr(data, "__getitem__"):
        raise Invalid(f"a record is bytes, not {_kind_of(data)}: convert it first")
    if list(map(type, data)).count(bytes) == len(data):  # the cheapest test
        return
    for place, record in enumerate(data):
        if not isinstance(record, bytes):
            raise Invalid(f"record {place} is {_kind_of(record)}, not bytes: convert it first")


def _check_value(value: str | bytes, name: str) -> None:
    if not isinstance(value, _KINDS[name]):
        raise Invalid(f"{name} is {_kinds(name)}, not {_kind_of(value)}")
    if isinstance(value, str):
        _text(value, name)


def _check_column(values: object, name: str, count: int) -> None:
    """Raise Invalid for a column of another length, or with values that Arrow would convert."""
    if not isinstance(values, Sequence):
        raise Invalid(f"give the values of {name} as a list, not {_kind_of(values)}")
    if len(values) != count:
        raise Invalid(f"{len(values)} values of {name} for {count} records")
    if {*map(type, values)} <= {*_KINDS[name], type(None)}:
        return
    for place, value in enumerate(values):
        if value is not None and not isinstance(value, _KINDS[name]):
            raise Invalid(f"{name} {place} is {_kind_of(value)}: give {_kinds(name)} or None")


def _kinds(name: str) -> str:
    return " or ".join(_WORDS[kind] for kind in _KINDS[name])


def _kind_of(value: object) -> str:
    return type(value).__name__


def _tags(values: object) -> Tags:
    if values is None or isinstance(values, str):
        return values
    if isinstance(values, pa.Array):
        return values
    assert isinstance(values, Sequence)
    return list(values)


def _text(value: object, name: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise Invalid(f"{name} is text, not {type(value).__name__}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{name} is not valid Unicode: {error}") from error


def _sized(value: object, name: str, size_max: int) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, bytes):
        raise Invalid(f"{name} is bytes, not {type(value).__name__}")
    if len(value) > size_max:
        raise TooLarge(f"a {name} of {len(value)} bytes is over {size_max}")
    return value


def _holds_bytes(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are bytes or text: Arrow would convert numbers to text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(is_kind(kind) for is_kind in _BYTES_LIKE)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
