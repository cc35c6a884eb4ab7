"""Watch requests and messages on the wire, for server-sent events and WebSocket.

Server-sent events have ``event``, ``id`` and ``data``; over WebSocket the same data come with
``op``, the event's name with ``_`` for ``-``. Names of topics may be patterns: ``orders.*`` matches
every topic whose name begins with ``orders.``, including topics that are created later.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

LIMIT = 256
LIMIT_MAX = 1000
SIZE = 256 * 1024
SIZE_OF_ZERO = 1 << 20
SIZE_MAX = 8 << 20
HEARTBEAT_MS = 15_000
HEARTBEAT_MS_RANGE = (1000, 60_000)

Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Consistency = Literal["eventual", "strong"]


class StartPosition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The position at which a stream begins."""

    from_seq: Whole = 0
    """A cursor: the first record is the one after it. 0: the earliest live record."""
    tail: bool = False
    """Only records that are appended from now on."""
    epoch: Whole | None = None
    """The ``epoch`` that was returned with this cursor. If the topic has been re-created since, the
    stream begins with a tombstone whose reason is ``recreated``, whatever its head is."""


class LiveFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects records: every condition that is set must hold. Other records only advance the
    cursor."""

    tag: str | None = None
    tag_prefix: str | None = None
    key_prefix: str | None = None
    """Text; the bytes of the key begin with it in UTF-8."""
    where: dict[str, Any] | None = None
    """A condition on fields of ``data``, for topics that have a schema:
    ``{"type": "compare", "field": "amount", "op": ">=", "value": 10}``, also ``in``, ``truth``,
    ``not``, ``and`` and ``or``. A record that does not fit the schema is not selected."""


class WatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v0/watch."""

    topics: dict[str, StartPosition]
    node: Annotated[str, Meta(max_length=128)] | None = None
    """The node of the watching client: records of this node are not sent."""
    limit: Whole = LIMIT
    """Most records in one event: 0 is the default, more than 1000 is 1000."""
    max_batch_bytes: Whole = SIZE
    """Approximate bytes of data in one event: 0 is 1 MiB, more than 8 MiB is 8 MiB."""
    heartbeat_ms: Whole = HEARTBEAT_MS
    """A comment is sent after this time without an event: 1000 to 60000."""
    include_meta: bool = True
    include_tags: bool = False
    include_data: bool = True
    include_micros: bool = False
    consistency: Consistency = "eventual"
    """``strong``: a record is sent only when it would survive a power loss."""
    filter: LiveFilter = LiveFilter()


class WatchedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a watch session, at the time of its creation."""

    from_seq: int
    head_seq: int
    earliest_seq: int


class WatchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A watch session: open ``stream_url`` to receive its events."""

    wid: str
    stream_url: str
    session_ttl_ms: int
    """How long the session is kept without an open stream."""
    topics: dict[str, WatchedTopic]
    last_event_id: str
    """The id of the starting position: send it as ``Last-Event-ID`` when a stream broke before its
    first event."""


class DeleteWatchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """DELETE /v0/watch/{wid}."""

    wid: str
    forgotten: bool


class WatchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v0/watch?lenient=true omits unknown topics instead of failing."""

    lenient: bool = False


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GET /v0/watch/{wid}: browsers cannot send headers, so a ticket may be in the URL."""

    ticket: str | None = None
    token: str | None = None


class Subscribe(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="subscribe"):
    """WebSocket: subscribe to topics."""

    request_id: str | int | None = None
    topic: str | None = None
    topics: dict[str, StartPosition] | list[str] | None = None
    from_seq: Whole = 0
    """The starting cursor of topics that have none of their own."""
    tail: bool = False
    node: Annotated[str, Meta(max_length=128)] | None = None
    limit: Whole = LIMIT
    max_batch_bytes: Whole = SIZE
    include_meta: bool = True
    include_tags: bool = False
    include_data: bool = True
    include_micros: bool = False
    consistency: Consistency = "eventual"
    filter: LiveFilter = LiveFilter()


class Unsubscribe(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="unsubscribe"):
    """WebSocket: end subscriptions."""

    request_id: str | int | None = None
    topic: str | None = None
    topics: list[str] | None = None
    """Without ``topic`` and ``topics``: all subscriptions."""


class Publish(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="publish"):
    """WebSocket: append records, with the fields of the body of POST /v0/topics/{topic}."""

    topic: str
    records: msgspec.Raw
    request_id: str | int | None = None
    return_seqs: bool = False
    create: bool | UnsetType = UNSET
    config: msgspec.Raw | UnsetType = UNSET
    idempotency_key: str | UnsetType = UNSET
    node: str | UnsetType = UNSET
    disable_backpressure: bool | UnsetType = UNSET


class PingMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="ping"):
    """WebSocket: check that the connection is alive."""

    request_id: str | int | None = None


class LoginMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="auth"):
    """WebSocket: authenticate with the first message when there was no header."""

    token: str
    request_id: str | int | None = None


Message = Subscribe | Unsubscribe | Publish | PingMessage | LoginMessage
