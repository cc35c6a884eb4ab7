"""Appends over the wire: a body becomes a batch of its topic, all of it or nothing.

    place     checks and appends without waiting: for requests, the fast path and WebSockets
    Placed    the result: ``pending`` if it waits for a sync, then ``answer`` is the response
    append    the same for coroutines: creates the topic if allowed, waits until it is durable

``append_request.py`` decodes bodies. A single plain record takes the shortest path; its response is
formatted as bytes.
"""

from __future__ import annotations

import pyarrow as pa
from msgspec import UNSET

from strandline.api.errors import Refused
from strandline.api.records import MetaLimits, data_of, key_of, meta_of
from strandline.api.topics import AppendQuery
from strandline.errors import TooLarge, TopicFull, UnknownTopic
from strandline.log.append.append import PendingAppend
from strandline.log.topic.topic import Topic
from strandline.records import AppendResult
from strandline.security.principal import Principal
from strandline.server.app_state import AppState
from strandline.server.handlers import topic_options
from strandline.server.handlers.append_request import (
    JSON,
    MEDIA_TYPES,
    AppendRequest,
    decode_body,
    plain_batch,
    request_of,
    request_of_json,
)
from strandline.server.handlers.topic_cache import reload_topic, topic_of

__all__ = [
    "JSON",
    "LARGE",
    "MEDIA_TYPES",
    "NO_QUERY_OPTIONS",
    "AppendOutcome",
    "append",
    "place",
    "topic_full_error",
]

LARGE = 256 * 1024
"""Bodies over this size are decoded on a thread: they would block the loop."""

NO_QUERY_OPTIONS = AppendQuery()


class AppendOutcome:
    """An append that is in the log. Owned by the loop's thread."""

    __slots__ = (
        *("appended", "began", "created", "parts"),
        *("pending", "placed", "return_seqs", "topic"),
    )

    def __init__(
        self,
        parts: AppState,
        topic: str,
        appended: AppendResult,
        pending: PendingAppend | None,
        began: float,
    ) -> None:
        self.parts = parts
        self.topic = topic
        self.appended = appended
        self.pending = pending
        """Wait for this before the response; None when the append is durable enough already."""
        self.began = began
        self.placed = 0.0 if pending is None else parts.clock.monotonic()
        """When a pending append was in the log, on the monotonic clock."""
        self.created = False
        self.return_seqs = False

    def response(self) -> tuple[int, bytes]:
        """Status and body of the response."""
        first, last, head = (
            self.appended.first_seq,
            self.appended.last_seq,
            self.appended.head_seq,
        )
        seqs = b""
        if self.return_seqs:
            seqs = b'"seqs":[%b],' % b",".join([b"%d" % seq for seq in range(first, last + 1)])
        return (
            201 if self.created else 200,
            b'{"topic":"%b","first_seq":%d,"last_seq":%d,%b"head_seq":%d,"count":%d,'
            b'"created":%b,"deduped":%b,"performance":{"server_total_ms":%.3f%b}}'
            % (
                self.topic.encode(),
                first,
                last,
                seqs,
                head,
                last - first + 1 if first else 0,
                b"true" if self.created else b"false",
                b"true" if self.appended.deduped else b"false",
                (self.parts.clock.monotonic() - self.began) * 1000,
                b"" if self.pending is None else self._timings(),
            ),
        )

    def _timings(self) -> bytes:
        """Timings of a pending append: until it was in the log, and from then until its sync.

        ``throttle_wait_ms`` is the most that load shedding added to the latter: its sync window.
        """
        now, began, placed = self.parts.clock.monotonic(), self.began, self.placed
        throttled = min(now - placed, self.parts.hub.load_shedder.window_s)
        timings_ms = (placed - began) * 1000, (now - placed) * 1000, throttled * 1000
        return b',"wal_append_ms":%.3f,"fsync_ms":%.3f,"throttle_wait_ms":%.3f' % timings_ms


def place(
    parts: AppState,
    who: Principal,
    topic: str,
    body: bytes,
    media_type: str,
    *,
    idempotency_key: str | None = None,
    return_seqs: bool = False,
    query: AppendQuery = NO_QUERY_OPTIONS,
) -> AppendOutcome:
    """Append without waiting. UnknownTopic when the topic has to be created first, or its queue
    has to be opened or checked for room."""
    parts.auth.authorise(who, "write", topic)
    began = parts.clock.monotonic()
    placed = _place(parts, who, topic, body, media_type, idempotency_key, query, began)
    placed.return_seqs = return_seqs
    return placed


async def append(
    parts: AppState,
    who: Principal,
    topic: str,
    body: bytes,
    media_type: str,
    *,
    idempotency_key: str | None = None,
    return_seqs: bool = False,
    query: AppendQuery = NO_QUERY_OPTIONS,
) -> AppendOutcome:
    """Append; creates the topic if it does not exist and the client may create it."""
    parts.auth.authorise(who, "write", topic)
    began = parts.clock.monotonic()
    arguments = (parts, who, topic, body, media_type, idempotency_key, query, began)
    created = False
    while True:
        try:
            slow = len(body) > LARGE or not topic_of(parts, topic).is_quick
            placed = await _place_large(*arguments) if slow else _place(*arguments)
            break
        except UnknownTopic:
            if created:
                raise
            await _create_topic(parts, who, topic, body, media_type, query)
            created = True
    placed.created = created
    placed.return_seqs = return_seqs
    if placed.pending is not None:
        await placed.pending.durable()
    return placed


def _place(
    parts: AppState,
    who: Principal,
    name: str,
    body: bytes,
    media_type: str,
    key: str | None,
    query: AppendQuery,
    began: float,
) -> AppendOutcome:
    topic = parts.topic_handles.get(name)
    if topic is None or topic.is_gone:
        topic = reload_topic(parts, name)
    if not topic.is_quick:
        raise UnknownTopic(f"topic {name!r} cannot be appended to on the loop")
    try:
        if media_type == JSON and query is NO_QUERY_OPTIONS:
            data = plain_batch(body, parts.settings.limits.json_depth_max) if key is None else None
            if data:
                return _place_plain(parts, topic, data, len(body), began)
            request = request_of_json(decode_body(body), key, query, len(body))
        else:
            request = request_of(body, media_type, key, query)
        _check_bypass(parts, who, name, request)
        return _place_request(parts, topic, request, began)
    except TopicFull as error:
        raise topic_full_error(topic, error) from error


async def _place_large(
    parts: AppState,
    who: Principal,
    name: str,
    body: bytes,
    media_type: str,
    key: str | None,
    query: AppendQuery,
    began: float,
) -> AppendOutcome:
    """As ``_place``, on threads, except for rights: they are checked on the loop."""
    topic = topic_of(parts, name)
    request = await parts.bridge.run(request_of, body, media_type, key, query)
    _check_bypass(parts, who, name, request)
    try:
        return await parts.bridge.run(_place_request, parts, topic, request, began)
    except TopicFull as error:
        raise topic_full_error(topic, error) from error


def _check_bypass(parts: AppState, who: Principal, name: str, request: AppendRequest) -> None:
    if request.bypass:
        parts.auth.authorise(who, "bypass", name)


def topic_full_error(topic: Topic, error: TopicFull) -> Refused:
    """The error for an append to a full topic."""
    numbers = topic.estimate()
    return Refused(
        422,
        "topic_full",
        str(error),
        detail={
            "kind": error.code,
            "cap_records": numbers.config.cap_records,
            "cap_bytes": numbers.config.cap_bytes,
            "head_seq": numbers.head_seq,
            "earliest_seq": numbers.earliest_seq,
        },
    )


def _place_plain(
    parts: AppState, topic: Topic, data: list[bytes], size: int, began: float
) -> AppendOutcome:
    """Append records that have only data."""
    _admit(parts, topic, len(data), size)
    waits = topic.config.durability == "fsync"
    if len(data) > 1:
        pending = topic.place_many(data)
        placed = AppendOutcome(
            parts, topic.name, pending.appended, pending if waits else None, began
        )
    elif waits:
        pending = topic.append_nowait(data[0])
        placed = AppendOutcome(parts, topic.name, pending.appended, pending, began)
    else:
        placed = AppendOutcome(parts, topic.name, topic.append(data[0]), None, began)
    parts.counters.appends += 1
    parts.counters.records += len(data)
    return placed


def _place_request(
    parts: AppState, topic: Topic, request: AppendRequest, began: float
) -> AppendOutcome:
    count = len(request.records) if request.table is None else request.table.num_rows
    _admit(parts, topic, count, request.size, bypass=request.bypass)
    if request.table is not None:
        table = _with_node(request.table, request.node)
        pending = topic.place_arrow(
            table, expected_head=request.expected_head, idempotency_key=request.once
        )
    else:
        pending = _place_records(parts, topic, request)
    parts.counters.appends += 1
    parts.counters.records += count
    waits = pending if topic.config.durability == "fsync" else None
    return AppendOutcome(parts, topic.name, pending.appended, waits, began)


def _admit(parts: AppState, topic: Topic, count: int, size: int, *, bypass: bool = False) -> None:
    """Raise when ``count`` records in a body of ``size`` bytes are not admitted."""
    topic_options.check_open(topic)
    parts.hub.load_shedder.admit(bypass=bypass)
    parts.storage_quota.admit(size)
    count_max = parts.settings.limits.batch_records_max
    if not 0 < count <= count_max:
        raise Refused(
            400,
            "batch_too_large" if count else "invalid_request",
            f"an append has 1 to {count_max} records, not {count}",
            detail={"limit": "batch_records_max", "max": count_max},
        )


def _place_records(parts: AppState, topic: Topic, request: AppendRequest) -> PendingAppend:
    limits = parts.settings.limits
    records, depth_max = request.records, limits.json_depth_max
    metas = None
    data = [data_of(record, depth_max) for record in records]
    if any(record.meta is not UNSET or record.meta_base64 is not None for record in records):
        meta_limits = MetaLimits(limits.meta_bytes_max, limits.meta_keys_max)
        metas = [meta_of(record, meta_limits, depth_max) for record in records]
        _check_sizes(data, metas, parts.settings.store.limits.record_bytes_max)
    keys = tags = nodes = None
    if any(record.key is not None or record.key_base64 is not None for record in records):
        keys = [key_of(record) for record in records]
    if any(record.tag is not None for record in records):
        tags = [record.tag for record in records]
    if request.node is not None or any(record.node is not None for record in records):
        nodes = [request.node if record.node is None else record.node for record in records]
    return topic.place_many(
        data,
        keys=keys,
        tags=tags,
        nodes=nodes,
        metas=metas,
        expected_head=request.expected_head,
        idempotency_key=request.once,
    )


def _check_sizes(data: list[bytes], metas: list[bytes | None], size_max: int) -> None:
    for payload, meta in zip(data, metas, strict=True):
        if len(payload) + len(meta or b"") > size_max:
            raise TooLarge(f"data and meta of a record exceed {size_max} bytes (record_bytes_max)")


def _with_node(table: pa.Table, node: str | None) -> pa.Table:
    if node is None:
        return table
    if "node" in table.column_names:
        index = table.column_names.index("node")
        return table.set_column(index, "node", table.column(index).fill_null(node))
    return table.append_column("node", pa.array([node] * table.num_rows, pa.string()))


async def _create_topic(
    parts: AppState, who: Principal, name: str, body: bytes, media_type: str, query: AppendQuery
) -> None:
    config, create = None, query.create
    if media_type == JSON:
        request = decode_body(body)
        config = request.config
        create = create if request.create is None else request.create
    if create is None:
        create = config is None or config.auto_create is not False
    if not create:
        raise UnknownTopic(f"there is no topic {name!r}: create it, or check the name")
    await topic_options.ensure_topic(parts, who, name, config)
