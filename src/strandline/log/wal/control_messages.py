"""Control messages: the entries of the log that are not records. Pure.

Each is the payload of one control block, MessagePack with the type's tag first. A reader that finds
an unknown tag rejects the log as one of a newer format: a control message is never optional.
"""

from __future__ import annotations

import msgspec

from strandline.config.settings import TopicConfig


class Control(msgspec.Struct, frozen=True, array_like=True, tag_field="type"):
    """The base of all messages. Without fields."""


class TopicCreated(Control, frozen=True, array_like=True, tag="create"):
    """A topic is created, empty, at seq 1."""

    name: str
    config: TopicConfig
    epoch: int


class TopicAltered(Control, frozen=True, array_like=True, tag="alter"):
    """New configuration from here on. The old one had evicted records below the floor."""

    config: TopicConfig
    evict_floor: int
    reason: str


class TopicDeleted(Control, frozen=True, array_like=True, tag="drop"):
    """The topic and its records are gone; its id is never used again."""


class RecordsDeleted(Control, frozen=True, array_like=True, tag="delete"):
    """Records deleted on request: all below ``before``, and the seqs of a roaring bitmap."""

    before: int
    seqs: bytes


class Evicted(Control, frozen=True, array_like=True, tag="evict"):
    """Retention evicted every record below the floor."""

    evict_floor: int
    reason: str


class Ceiling(Control, frozen=True, array_like=True, tag="ceiling"):
    """Seqs up to here may have been assigned before they were durable."""

    ceiling: int


class TailLost(Control, frozen=True, array_like=True, tag="lost"):
    """Seqs from here to the ceiling are lost. After a crash that lost the tail the epoch is new.

    ``mark`` is the number of a producer that reports its own loss (``log/topic/gap_marker.py``).
    """

    lost_from: int
    ceiling: int
    epoch: int
    reason: str
    mark: bytes = b""


class Copied(Control, frozen=True, array_like=True, tag="copy"):
    """Records from a seq on are copies of another topic's records, which are not written again.

    ``seqs`` is a roaring bitmap of the originals, ``kept`` the columns that are copied besides
    data, ``mark`` the idempotency key or producer's number.
    """

    source_id: int
    seqs: bytes
    first_seq: int
    count: int
    kept: int
    ts: int
    mark: bytes


class Checkpointed(Control, frozen=True, array_like=True, tag="mark"):
    """Everything below the lsn is in segments that the checkpoint of this number lists."""

    number: int
    lsn: int


class ClosedCleanly(Control, frozen=True, array_like=True, tag="close"):
    """The writer of this term stopped with everything synced."""


Message = (
    TopicCreated
    | TopicAltered
    | TopicDeleted
    | RecordsDeleted
    | Evicted
    | Ceiling
    | TailLost
    | Copied
    | Checkpointed
    | ClosedCleanly
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(payload: bytes) -> Message:
    """The message; ``msgspec.DecodeError`` when this version does not know it."""
    try:
        message: Message = _decoder.decode(payload)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error
    return message
