"""Appending over the wire: a body becomes a batch of its topic, all of it or nothing.

    place     decides and places, without waiting: for requests, the hot path and WebSockets
    Placed    what came of it: perhaps to be waited for (``pending``), then to be told (``answer``)
    append    the same for coroutines: makes the topic when it may, and waits until it is durable

What a body asks for is read by ``append_request.py``. A single plain record takes the shortest way
through; its answer is written as bytes.
"""

from __future__ import annotations

import pyarrow as pa
from msgspec import UNSET

from strandline.api.errors import Refused
from strandline.api.records import MetaLimits, data_of, key_of, meta_of
from strandline.api.topics import AppendQuery
from strandline.errors import TooLarge, TopicFull, UnknownTopic
from strandline.log.append.append import Pending
from strandline.log.topic.topic import Topic
from strandline.records import Appended
from strandline.security.principal import Principal
from strandline.server.app_state import Parts
from strandline.server.handlers import topic_options
from strandline.server.handlers.append_request import (
    JSON,
    MEDIA_TYPES,
    Asked,
    asked_of,
    asked_of_json,
    decoded,
    plain_batch,
)
from strandline.server.handlers.topic_cache import fresh_topic_of, topic_of

__all__ = ["JSON", "LARGE", "MEDIA_TYPES", "NOTHING_SAID", "Placed", "append", "full", "place"]

LARGE = 256 * 1024
"""Bodies over this are decoded on a thread: they would hold everybody up."""

NOTHING_SAID = AppendQuery()


class Placed:
    """An append that is placed. Owned by the loop's thread."""

    __slots__ = (
        *("appended", "began", "created", "parts"),
        *("pending", "placed", "return_seqs", "topic"),
    )

    def __init__(
        self, parts: Parts, topic: str, appended: Appended, pending: Pending | None, began: float
    ) -> None:
        self.parts = parts
        self.topic = topic
        self.appended = appended
        self.pending = pending
        """To be waited for before it is told; None when it is durable enough already."""
        self.began = began
        self.placed = 0.0 if pending is None else parts.clock.monotonic()
        """When it was in the log, of one that is waited for."""
        self.created = False
        self.return_seqs = False

    def answer(self) -> tuple[int, bytes]:
        """Status and body."""
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
                b"" if self.pending is None else self._took(),
            ),
        )

    def _took(self) -> bytes:
        """Of what was waited for: how long until it was in the log, and then until its sync.

        Of the latter, the server under pressure may have caused as much as its sync window.
        """
        now, began, placed = self.parts.clock.monotonic(), self.began, self.placed
        throttled = min(now - placed, self.parts.hub.governor.window_s)
        told = (placed - began) * 1000, (now - placed) * 1000, throttled * 1000
        return b',"wal_append_ms":%.3f,"fsync_ms":%.3f,"throttle_wait_ms":%.3f' % told


def place(
    parts: Parts,
    who: Principal,
    topic: str,
    body: bytes,
    media_type: str,
    *,
    idempotency_key: str | None = None,
    return_seqs: bool = False,
    said: AppendQuery = NOTHING_SAID,
) -> Placed:
    """Place an append. Never waits; UnknownTopic when the topic has to be made first, or its queue
    has to be opened or asked for room."""
    parts.auth.authorise(who, "write", topic)
    began = parts.clock.monotonic()
    placed = _place(parts, who, topic, body, media_type, idempotency_key, said, began)
    placed.return_seqs = return_seqs
    return placed


async def append(
    parts: Parts,
    who: Principal,
    topic: str,
    body: bytes,
    media_type: str,
    *,
    idempotency_key: str | None = None,
    return_seqs: bool = False,
    said: AppendQuery = NOTHING_SAID,
) -> Placed:
    """Append, making the topic when there is none and that is allowed."""
    parts.auth.authorise(who, "write", topic)
    began = parts.clock.monotonic()
    given = (parts, who, topic, body, media_type, idempotency_key, said, began)
    created = False
    while True:
        try:
            slow = len(body) > LARGE or not topic_of(parts, topic).is_quick
            placed = await _place_large(*given) if slow else _place(*given)
            break
        except UnknownTopic:
            if created:
                raise
            await _make(parts, who, topic, body, media_type, said)
            created = True
    placed.created = created
    placed.return_seqs = return_seqs
    if placed.pending is not None:
        await placed.pending.durable()
    return placed


def _place(
    parts: Parts,
    who: Principal,
    name: str,
    body: bytes,
    media_type: str,
    key: str | None,
    said: AppendQuery,
    began: float,
) -> Placed:
    topic = parts.handles.get(name)
    if topic is None or topic.is_gone:
        topic = fresh_topic_of(parts, name)
    if not topic.is_quick:
        raise UnknownTopic(f"topic {name!r} cannot be appended to on the loop")
    try:
        if media_type == JSON and said is NOTHING_SAID:
            data = plain_batch(body, parts.settings.limits.json_depth_max) if key is None else None
            if data:
                return _place_plain(parts, topic, data, len(body), began)
            asked = asked_of_json(decoded(body), key, said, len(body))
        else:
            asked = asked_of(body, media_type, key, said)
        _check_bypass(parts, who, name, asked)
        return _place_asked(parts, topic, asked, began)
    except TopicFull as error:
        raise full(topic, error) from error


async def _place_large(
    parts: Parts,
    who: Principal,
    name: str,
    body: bytes,
    media_type: str,
    key: str | None,
    said: AppendQuery,
    began: float,
) -> Placed:
    """The same on threads, but for rights: those are looked up on the loop."""
    topic = topic_of(parts, name)
    asked = await parts.bridge.run(asked_of, body, media_type, key, said)
    _check_bypass(parts, who, name, asked)
    try:
        return await parts.bridge.run(_place_asked, parts, topic, asked, began)
    except TopicFull as error:
        raise full(topic, error) from error


def _check_bypass(parts: Parts, who: Principal, name: str, asked: Asked) -> None:
    if asked.bypass:
        parts.auth.authorise(who, "bypass", name)


def full(topic: Topic, error: TopicFull) -> Refused:
    """What is told about a topic that takes no more."""
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


def _place_plain(parts: Parts, topic: Topic, data: list[bytes], size: int, began: float) -> Placed:
    """Place records of which nothing is said but their data."""
    _admit(parts, topic, len(data), size)
    waits = topic.config.durability == "fsync"
    if len(data) > 1:
        pending = topic.place_many(data)
        placed = Placed(parts, topic.name, pending.appended, pending if waits else None, began)
    elif waits:
        pending = topic.append_soon(data[0])
        placed = Placed(parts, topic.name, pending.appended, pending, began)
    else:
        placed = Placed(parts, topic.name, topic.append(data[0]), None, began)
    parts.counters.appends += 1
    parts.counters.records += len(data)
    return placed


def _place_asked(parts: Parts, topic: Topic, asked: Asked, began: float) -> Placed:
    count = len(asked.records) if asked.table is None else asked.table.num_rows
    _admit(parts, topic, count, asked.size, bypass=asked.bypass)
    if asked.table is not None:
        table = _with_node(asked.table, asked.node)
        pending = topic.place_arrow(
            table, expected_head=asked.expected_head, idempotency_key=asked.once
        )
    else:
        pending = _place_records(parts, topic, asked)
    parts.counters.appends += 1
    parts.counters.records += count
    waits = pending if topic.config.durability == "fsync" else None
    return Placed(parts, topic.name, pending.appended, waits, began)


def _admit(parts: Parts, topic: Topic, count: int, size: int, *, bypass: bool = False) -> None:
    """Raise when so many records in a body of this size may not be appended, or not now."""
    topic_options.check_open(topic)
    parts.hub.governor.admit(bypass=bypass)
    parts.fullness.admit(size)
    count_max = parts.settings.limits.batch_records_max
    if not 0 < count <= count_max:
        raise Refused(
            400,
            "batch_too_large" if count else "invalid_request",
            f"an append has 1 to {count_max} records, not {count}",
            detail={"limit": "batch_records_max", "max": count_max},
        )


def _place_records(parts: Parts, topic: Topic, asked: Asked) -> Pending:
    limits = parts.settings.limits
    records, depth_max = asked.records, limits.json_depth_max
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
    if asked.node is not None or any(record.node is not None for record in records):
        nodes = [asked.node if record.node is None else record.node for record in records]
    return topic.place_many(
        data,
        keys=keys,
        tags=tags,
        nodes=nodes,
        metas=metas,
        expected_head=asked.expected_head,
        idempotency_key=asked.once,
    )


def _check_sizes(data: list[bytes], metas: list[bytes | None], size_max: int) -> None:
    for payload, meta in zip(data, metas, strict=True):
        if len(payload) + len(meta or b"") > size_max:
            raise TooLarge(f"data and meta of a record are over {size_max} (record_bytes_max)")


def _with_node(table: pa.Table, node: str | None) -> pa.Table:
    if node is None:
        return table
    if "node" in table.column_names:
        place = table.column_names.index("node")
        return table.set_column(place, "node", table.column(place).fill_null(node))
    return table.append_column("node", pa.array([node] * table.num_rows, pa.string()))


async def _make(
    parts: Parts, who: Principal, name: str, body: bytes, media_type: str, said: AppendQuery
) -> None:
    config, create = None, said.create
    if media_type == JSON:
        request = decoded(body)
        config = request.config
        create = create if request.create is None else request.create
    if create is None:
        create = config is None or config.auto_create is not False
    if not create:
        raise UnknownTopic(f"there is no topic {name!r}: create it, or check the name")
    await topic_options.make(parts, who, name, config)
