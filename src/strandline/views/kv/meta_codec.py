"""The meta of a record of a key-value topic <-> bytes. Pure.

    key   meta                       meaning
    yes   none, or without the mark  a put without expiry
    yes   mark, ["p", expires_us]    a put that expires, in microseconds since 1970
    yes   mark, ["d", expired]       the key is deleted, by a caller or because it had expired
    none  mark, ["f", through]       delete markers up to this seq are forgotten
                                     (`views/kv/compaction.py`)
    none  anything else              ignored

An empty key counts as none. The mark is three bytes, the rest MessagePack. No MessagePack, JSON or
text begins with 0xC1, so the meta of a plain append is not mistaken for a marked one. A marked meta
that cannot be decoded is ignored: the record is a put, as without it.
"""

from __future__ import annotations

import msgspec

from strandline.views.view import MARKS

MARK = MARKS["kv"]
EXPIRES_US_MAX = 2**62


class ExpiryMeta(msgspec.Struct, frozen=True, array_like=True, tag="p", gc=False):
    """A put that expires."""

    expires_us: int


class DeletedMeta(msgspec.Struct, frozen=True, array_like=True, tag="d", gc=False):
    """The key has no value from this record on."""

    expired: bool = False


class ForgottenMeta(msgspec.Struct, frozen=True, array_like=True, tag="f", gc=False):
    """Keys whose newest record is a delete marker up to ``through`` are removed from the state."""

    through: int


Meta = ExpiryMeta | DeletedMeta | ForgottenMeta

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Meta)


def encode(meta: Meta) -> bytes:
    return MARK + _ENCODER.encode(meta)


DELETED = encode(DeletedMeta())
EXPIRED = encode(DeletedMeta(expired=True))


def expiry_meta(expires_us: int) -> bytes | None:
    """The meta of a put; 0 is no expiry."""
    return encode(ExpiryMeta(expires_us)) if expires_us else None


def decode(meta: bytes) -> Meta | None:
    """The decoded meta, None if it is not one of a key-value view."""
    if not meta.startswith(MARK):
        return None
    try:
        fields: Meta = _DECODER.decode(memoryview(meta)[len(MARK) :])
    except msgspec.MsgspecError:
        return None
    if type(fields) is ExpiryMeta and not 0 < fields.expires_us <= EXPIRES_US_MAX:
        return None
    return fields
