"""What a record of a key-value topic says besides key and value. Pure.

    key   meta                       meaning
    yes   none, or without our mark  a put that stays
    yes   mark, ["p", expires_us]    a put until then, in microseconds since 1970
    yes   mark, ["d", expired]       the key is deleted, by a caller or because its time was over
    none  mark, ["f", through]       delete markers up to this seq are forgotten (compaction.py)
    none  anything else              not for us

An empty key is none. The mark is three bytes, the rest MessagePack. No MessagePack, JSON or text
begins with 0xC1, so a plain append's own meta is not taken for ours. A marked meta that cannot be
read is nobody's: the record is a put, as without it.
"""

from __future__ import annotations

import msgspec

from strandline.views.view import MARKS

MARK = MARKS["kv"]
EXPIRES_US_MAX = 2**62


class Until(msgspec.Struct, frozen=True, array_like=True, tag="p", gc=False):
    """A put that ends."""

    expires_us: int


class Deleted(msgspec.Struct, frozen=True, array_like=True, tag="d", gc=False):
    """The key has no value from here on."""

    expired: bool = False


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="f", gc=False):
    """Keys whose newest record is a delete marker up to ``through`` are as if they never were."""

    through: int


Meta = Until | Deleted | Forgotten

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Meta)


def encode(meta: Meta) -> bytes:
    return MARK + _ENCODER.encode(meta)


DELETED = encode(Deleted())
EXPIRED = encode(Deleted(expired=True))


def until(expires_us: int) -> bytes | None:
    """The meta of a put; 0 is for ever."""
    return encode(Until(expires_us)) if expires_us else None


def decode(meta: bytes) -> Meta | None:
    """What the meta says, None when it is not ours."""
    if not meta.startswith(MARK):
        return None
    try:
        found: Meta = _DECODER.decode(memoryview(meta)[len(MARK) :])
    except msgspec.MsgspecError:
        return None
    if type(found) is Until and not 0 < found.expires_us <= EXPIRES_US_MAX:
        return None
    return found
