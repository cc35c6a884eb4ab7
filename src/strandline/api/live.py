"""Watching on the wire: what is asked of a stream, and what the server tells before and in it.

Server-sent events have ``event``, ``id`` and ``data``; over WebSocket the same data come with
``op``, the event's name with ``_`` for ``-``. Names of topics may be patterns: ``orders.*`` is
every topic whose name begins so, those made later included.
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


class From(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to begin."""

    from_seq: Whole = 0
    """A cursor: the first record is the one behind it. 0 is the earliest that is left."""
    tail: bool = False
    """Only what comes from now on."""
    epoch: Whole | None = None
    """The ``epoch`` that a page told with this cursor: a topic that was made anew since is told as
    such (a tombstone, ``recreated``), however far it has come."""


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which records are wanted: all that is said here must hold. Others move the cursor alone."""

    tag: str | None = None
    tag_prefix: str | None = None
    key_prefix: str | None = None
    """Text; the bytes of the key begin with it in UTF-8."""
    where: dict[str, Any] | None = None
    """A condition on fields of ``data``, for topics that have a schema:
    ``{"type": "compare", "field": "amount", "op": ">=", "value": 10}``, also ``in``, ``truth``,
    ``not``, ``and`` and ``or``. A record that does not fit the schema is not wanted."""


class WatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v0/watch."""

    topics: dict[str, From]
    node: Annotated[str, Meta(max_length=128)] | None = None
    """Who watches: records of this node are not told."""
    limit: Whole = LIMIT
    """Records in one event at most: 0 is the default, more than 1000 is 1000."""
    max_batch_bytes: Whole = SIZE
    """Bytes of data in one event, about: 0 is 1 MiB, more than 8 MiB is 8 MiB."""
    heartbeat_ms: Whole = HEARTBEAT_MS
    """A comment comes when nothing was told for so long: 1000 to 60000."""
    include_meta: bool = True
    include_tags: bool = False
    include_data: bool = True
    include_micros: bool = False
    consistency: Consistency = "eventual"
    """``strong``: a record is told only once it would survive a power loss."""
    filter: Filter = Filter()


class WatchedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a session, when it was made."""

    from_seq: int
    head_seq: int
    earliest_seq: int


class WatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A watch session: open ``stream_url`` to be told."""

    wid: str
    stream_url: str
    session_ttl_ms: int
    """How long the session is kept while no stream is open."""
    topics: dict[str, WatchedTopic]
    last_event_id: str
    """The id of the beginning: send it as ``Last-Event-ID`` when a stream broke before its first
    event."""


class WatchForgotten(msgspec.Struct, frozen=True, kw_only=True):
    """DELETE /v0/watch/{wid}."""

    wid: str
    forgotten: bool


class WatchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v0/watch?lenient=true leaves unknown topics out instead of refusing."""

    lenient: bool = False


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GET /v0/watch/{wid}: browsers cannot send headers, so a ticket may be in the address."""

    ticket: str | None = None
    token: str | None = None


class Subscribe(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="subscribe"):
    """WebSocket: be told of topics."""

    request_id: str | int | None = None
    topic: str | None = None
    topics: dict[str, From] | list[str] | None = None
    from_seq: Whole = 0
    """For those that do not say where they begin."""
    tail: bool = False
    node: Annotated[str, Meta(max_length=128)] | None = None
    limit: Whole = LIMIT
    max_batch_bytes: Whole = SIZE
    include_meta: bool = True
    include_tags: bool = False
    include_data: bool = True
    include_micros: bool = False
    consistency: Consistency = "eventual"
    filter: Filter = Filter()


class Unsubscribe(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="unsubscribe"):
    """WebSocket: no longer be told."""

    request_id: str | int | None = None
    topic: str | None = None
    topics: list[str] | None = None
    """Neither of them: all."""


class Publish(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="publish"):
    """WebSocket: append. What POST /v0/topics/{topic} takes as its body."""

    topic: str
    records: msgspec.Raw
    request_id: str | int | None = None
    return_seqs: bool = False
    create: bool | UnsetType = UNSET
    config: msgspec.Raw | UnsetType = UNSET
    idempotency_key: str | UnsetType = UNSET
    node: str | UnsetType = UNSET
    disable_backpressure: bool | UnsetType = UNSET


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="ping"):
    """WebSocket: is anybody there?"""

    request_id: str | int | None = None


class Login(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="auth"):
    """WebSocket: who this is, as the first message when no header could say it."""

    token: str
    request_id: str | int | None = None


Message = Subscribe | Unsubscribe | Publish | Ping | Login
