"""Parses server-sent events from the bytes of a response. Pure.

An event is complete at its empty line. The incomplete rest of a broken connection is dropped.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from strandline.api.records import ReadRecord
from strandline.client.page_codec import row_of
from strandline.errors import ObjectStoreUnreachable
from strandline.log.read.page import Page
from strandline.records import Record

Decoded = TypeVar("Decoded")


class SseEvent(NamedTuple):
    """One event of a stream."""

    name: str
    """``:`` for a comment, which is a heartbeat; empty for an id without an event."""
    data: bytes = b""
    id: str | None = None
    is_exact: bool = True
    """Whether the data is what was sent, byte for byte: SSE normalizes line ends, so data of
    several lines may differ."""


class SseParser:
    """Splits bytes into events. Owned by one stream."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[SseEvent]:
        """Add bytes; return the events that are complete now."""
        *complete, self._rest = (self._rest + data).split(b"\n\n")
        return [_event(block) for block in complete]


class RecordsMessage(msgspec.Struct, frozen=True):
    """The data of a ``record`` event."""

    records: list[ReadRecord]
    from_seq: int
    to_seq: int
    head_seq: int

    def records_after(self, after: int) -> list[Record]:
        """The records after a cursor."""
        rows = [row_of(each) for each in self.records if each.seq > after]
        return Page([rows], following=self.to_seq, head_seq=0, epoch=0, tombstone=None).records


class ErrorMessage(msgspec.Struct, frozen=True):
    """The data of an ``error`` event."""

    status: int = 500
    code: str = "internal"
    error: str = ""
    retry_after_ms: int = 0


def decode_records(event: SseEvent) -> RecordsMessage:
    """Decode a ``record`` event."""
    return _decode(event, RecordsMessage)


def decode_error(event: SseEvent) -> ErrorMessage:
    """Decode an ``error`` event."""
    return _decode(event, ErrorMessage)


def _decode(event: SseEvent, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(event.data, type=kind)
    except msgspec.DecodeError as error:
        raise ObjectStoreUnreachable(
            f"this is not an event of a Strandline server: {error}"
        ) from error


def _event(block: bytes) -> SseEvent:
    name, event_id = "", None
    data: list[bytes] = []
    for line in filter(None, block.split(b"\n")):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not field:
            name = ":"
        elif field == b"event":
            name = value.decode(errors="replace")
        elif field == b"data":
            data.append(value)
        elif field == b"id":
            event_id = value.decode(errors="replace")
    return SseEvent(name, b"\n".join(data), event_id, len(data) < 2)
