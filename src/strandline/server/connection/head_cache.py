"""Plain appends, and a cache of request heads, so that an equal head is not parsed again. Pure.

The key is the bytes of the head. The parser and the checks of a head depend on nothing else, so
their results hold for every request with equal bytes.
"""

from __future__ import annotations

import msgspec

from strandline.config.settings import TopicConfig
from strandline.log.topic.topic import Topic
from strandline.security.principal import Principal
from strandline.server.handlers.append_request import JSON
from strandline.server.limits.byte_budget import BudgetHold

CACHED_MAX = 1024
_HEAD_SIZE_MAX = 2048
_START = b'{"records":[{"data":'
_END = b"}]}"
_BLANK = b" \t\r\n"
_NUMBER_SIZE_MAX = 1000  # as in api/json_limits.py: longer data may have a number that is too long
_is_value = msgspec.json.Decoder(msgspec.Raw).decode

Headers = list[tuple[bytes, bytes]]


class IncomingAppend:
    """A plain append whose body is arriving. Owned by the loop's thread."""

    __slots__ = ("authorization", "hold", "idempotency_key", "media_type", "pieces", "topic", "who")

    def __init__(
        self,
        topic: str,
        media_type: str,
        authorization: str | None,
        idempotency_key: str | None,
        who: Principal,
    ) -> None:
        self.topic = topic
        self.media_type = media_type
        self.authorization = authorization
        self.idempotency_key = idempotency_key
        self.who = who
        """The principal that the head was authenticated as."""
        self.pieces: list[bytes] = []
        self.hold: BudgetHold | None = None
        """The bytes of an unfinished body in the budget."""

    @property
    def body(self) -> bytes:
        pieces = self.pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class CachedHead:
    """A head that led to a plain append. Owned by the loop's thread."""

    __slots__ = (
        "_config",
        "authorization",
        "headers",
        "is_json",
        "media_type",
        "name",
        "response_template",
        "size",
        "topic",
        "waits",
    )

    def __init__(self, topic: Topic, append: IncomingAppend, headers: Headers) -> None:
        self.topic = topic
        self.name = append.topic
        self.media_type = append.media_type
        self.is_json = append.media_type == JSON
        self.authorization = append.authorization
        self.headers = headers
        self.size = len(append.body)
        """Size of the body: part of the head."""
        self.response_template = (
            b'{"topic":"%b","first_seq":%%d,"last_seq":%%d,"head_seq":%%d,"count":1,'
            b'"created":false,"deduped":false,"performance":{"server_total_ms":%%.3f}}'
        ) % append.topic.encode()
        """Template of the response to a single record, without its numbers."""
        self.waits = False
        """Whether appends to the topic wait for a sync."""
        self._config: TopicConfig | None = None

    def accepts_appends(self, config: TopicConfig) -> bool:
        """Whether clients may append to a topic with this configuration without being admitted by
        a view or a queue."""
        if config is self._config:
            return True
        if config.views.owner or config.views.queue is not None:
            return False
        self._config, self.waits = config, config.durability == "fsync"
        return True


def is_head(head: bytes) -> bool:
    """Whether bytes up to the first empty line are cached."""
    return head.startswith(b"POST ") and len(head) <= _HEAD_SIZE_MAX


def single_data(body: bytes, depth_max: int) -> bytes | None:
    """The data of a body that has one record with data only; None when it has to be decoded.

    If the bytes between the fixed start and end of the body are one JSON value, they are the data.
    """
    if not body.startswith(_START) or not body.endswith(_END):
        return None
    data = body[20:-3]
    if (
        not 0 < len(data) <= _NUMBER_SIZE_MAX
        or data[0] in _BLANK
        or data[-1] in _BLANK
        or not data.isascii()
        or data.count(b"{") + data.count(b"[") > depth_max
    ):
        return None
    try:
        _is_value(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return data
