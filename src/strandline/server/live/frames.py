"""Events of a stream as bytes, built once for all subscribers that get the same. Pure.

An event of SSE is ``event``, ``data`` and ``id`` lines and an empty one; a WebSocket message is
the same data with ``op``. The wrapping depends on the layers between this code and the socket:

    chunk   an SSE event as a chunk of HTTP's chunked transfer: straight to the transport
    event   an SSE event, for an ASGI ``send`` that makes chunks itself
    frame   a WebSocket text frame: straight to the transport
    text    a WebSocket message, for an ASGI ``send``

The id of an event has the reader's cursors in all topics of the stream after the event. With one
topic it is the same for all subscribers; with several it is added for each stream.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from strandline.api.records import RecordFields, encode_records
from strandline.errors import Invalid
from strandline.records import Record, Tombstone

Wrapping = Literal["chunk", "event", "frame", "text"]

RETRY_MS = 2000
_text = msgspec.json.encode
_marks = msgspec.json.Decoder(dict[str, int])
_ID_SIZE_MAX = 256 * 1024


class Frame(NamedTuple):
    """An event of one topic."""

    event: str
    body: bytes
    """A JSON object."""
    topic: str
    cursor: int
    """The subscriber's cursor after the event; -1 when it stays the same."""

    def wrapped(self, wrapping: Wrapping, marks: dict[str, int] | None = None) -> bytes:
        """As bytes for the socket; ``marks`` are the stream's cursors after the event."""
        if wrapping in ("frame", "text"):
            message = b'{"op":"%b",%b' % (self.event.replace("-", "_").encode(), self.body[1:])
            return message if wrapping == "text" else text_frame(message)
        if marks is None and self.cursor >= 0:
            marks = {self.topic: self.cursor}
        event = sse_event(self.event, self.body, None if marks is None else encode_marks(marks))
        return chunk(event) if wrapping == "chunk" else event


def records(
    topic: str,
    rows: Sequence[Record],
    shown: RecordFields,
    *,
    after: int,
    following: int,
    head_seq: int,
) -> Frame:
    """Records, and the cursors before and after them."""
    body = b'{"topic":%b,"records":%b,"from_seq":%d,"to_seq":%d,"head_seq":%d}' % (
        _text(topic),
        encode_records(rows, shown),
        after,
        following,
        head_seq,
    )
    return Frame("record", body, topic, following)


def tombstone(topic: str, gap: Tombstone, earliest_seq: int, head_seq: int) -> Frame:
    """A gap: records were lost, and the reader resumes after them."""
    body = {
        "topic": topic,
        "reason": gap.reason,
        "gap_from": gap.gap_from,
        "gap_to": gap.gap_to,
        "missed_estimate": gap.missed,
        "earliest_seq": earliest_seq,
        "head_seq": head_seq,
    }
    # All records of a topic that was created again are sent, so the cursor is at its start.
    return Frame("tombstone", _text(body), topic, 0 if gap.reason == "recreated" else gap.gap_to)


def caught_up(topic: str, cursor: int, head_seq: int) -> Frame:
    """The subscriber has all records so far: later ones are new."""
    return Frame("caught-up", _text({"topic": topic, "head_seq": head_seq}), topic, cursor)


def topic_deleted(topic: str, head_seq: int, reason: str) -> Frame:
    """The topic was deleted; if one of its name is created, all its records are sent."""
    body = {"topic": topic, "head_seq": head_seq, "reason": reason}
    return Frame("topic-deleted", _text(body), topic, 0)


def error(
    status: int, code: str, message: str, *, retry_after_ms: int = 0, topics: Sequence[str] = ()
) -> Frame:
    """An error. 429 is a hint; 410 and the others end the stream."""
    body = {
        "status": status,
        "code": code,
        "error": message,
        "retry_after_ms": retry_after_ms,
        "topics": list(topics),
    }
    return Frame("error", _text(body), "", -1)


def sse_event(event: str, body: bytes, marks: bytes | None) -> bytes:
    """One event. Whitespace in JSON may have line ends, so each line gets its own ``data:``."""
    if b"\n" in body or b"\r" in body:
        body = b"\ndata: ".join(body.splitlines())
    lines = b"event: %b\ndata: %b\n" % (event.encode(), body)
    return lines + (b"\n" if marks is None else b"id: %b\n\n" % marks)


def stream_start(marks: dict[str, int]) -> bytes:
    """The first lines of an SSE stream: an id without data only sets the reader's last id."""
    return b"retry: %d\nid: %b\n\n" % (RETRY_MS, encode_marks(marks))


def heartbeat(now_ms: int) -> bytes:
    return b": hb %d\n\n" % now_ms


def encode_marks(marks: dict[str, int]) -> bytes:
    """Cursors as the id of an event."""
    return urlsafe_b64encode(_text(marks)).rstrip(b"=")


def decode_marks(text: str) -> dict[str, int]:
    """The cursors in an id that a client sent."""
    if len(text) > _ID_SIZE_MAX:
        raise Invalid("Last-Event-ID is too long: send the last id of the stream")
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        return _marks.decode(urlsafe_b64decode(padded))
    except (ValueError, msgspec.MsgspecError) as failure:
        raise Invalid("Last-Event-ID is not an id of a stream") from failure


def chunk(data: bytes) -> bytes:
    """A chunk of a body in HTTP's chunked transfer."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def text_frame(message: bytes) -> bytes:
    """A whole text message as one frame of RFC 6455: final, not masked, as servers send."""
    size = len(message)
    if size < 126:
        return struct.pack("!BB", 0x81, size) + message
    if size < 1 << 16:
        return struct.pack("!BBH", 0x81, 126, size) + message
    return struct.pack("!BBQ", 0x81, 127, size) + message
