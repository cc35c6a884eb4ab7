"""Server-sent events out of the bytes of an answer. Pure.

An event is told once its empty line is here: what a connection that broke has left unfinished is
as if it had not come.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from strandline.api.records import ReadRecord
from strandline.client.page_codec import row_of
from strandline.errors import Unreachable
from strandline.log.read.page import Page
from strandline.records import Record

Told = TypeVar("Told")


class Event(NamedTuple):
    """Something that a stream tells."""

    name: str
    """``:`` for a comment, which says that the stream is alive; empty for an id alone."""
    data: bytes = b""
    id: str | None = None
    is_exact: bool = True
    """Whether the data are what was sent, byte for byte: SSE has its own ends of lines, and does
    not tell which ones there were."""


class Events:
    """Takes bytes, gives events. Owned by one stream."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[Event]:
        """The events that are whole by now."""
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        return [_event(block) for block in whole]


class ToldRecords(msgspec.Struct, frozen=True):
    """The data of a ``record`` event."""

    records: list[ReadRecord]
    from_seq: int
    to_seq: int
    head_seq: int

    def behind(self, after: int) -> list[Record]:
        """Those that a reader at this cursor does not have."""
        rows = [row_of(each) for each in self.records if each.seq > after]
        return Page([rows], following=self.to_seq, head_seq=0, epoch=0, tombstone=None).records


class ToldError(msgspec.Struct, frozen=True):
    """The data of an ``error`` event."""

    status: int = 500
    code: str = "internal"
    error: str = ""
    retry_after_ms: int = 0


def told_records(event: Event) -> ToldRecords:
    """What a ``record`` event tells."""
    return _told(event, ToldRecords)


def told_error(event: Event) -> ToldError:
    """What an ``error`` event tells."""
    return _told(event, ToldError)


def _told(event: Event, kind: type[Told]) -> Told:
    try:
        return msgspec.json.decode(event.data, type=kind)
    except msgspec.DecodeError as error:
        raise Unreachable(f"this is not an event of a Strandline server: {error}") from error


def _event(block: bytes) -> Event:
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
    return Event(name, b"\n".join(data), event_id, len(data) < 2)
