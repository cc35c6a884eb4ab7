"""The fast path: the connection handles a plain append itself, without the application.

An append is plain if it is ``POST /v0/topics/NAME`` to a cached topic, without a query, with a body
of known, moderate size and no header that changes the application's response. The application
handles all others. Both append with the same function (``append.place``) and send the same bytes in
responses and errors: ``tests/server/test_hot_path.py``.

Clients send the same head many times. A head that led here is cached as bytes (``head_cache.py``),
and an equal one is not parsed again. State that may have changed since is checked each time:
rights, limits, the topic. A single record in the plainest form is not decoded, only validated; in
any doubtful case all steps are taken.
"""

from __future__ import annotations

import itertools
import math

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from strandline.api.errors import Refused, WireError, wire_error_of
from strandline.errors import StrandlineError, TopicFull, UnknownTopic
from strandline.log.append.append import PendingAppend
from strandline.log.topic.topic import Topic
from strandline.security.principal import ANONYMOUS, Principal
from strandline.server.app_state import AppState
from strandline.server.auth.host_origin import HostPolicy
from strandline.server.connection import head_cache
from strandline.server.connection.head_cache import CachedHead, IncomingAppend
from strandline.server.handlers import append as handlers_append
from strandline.server.limits.rate_limits import client_of

_LOG = structlog.get_logger("strandline.server")
_PATH = b"/v0/topics/"
_MEDIA_TYPES = {each.encode(): each for each in handlers_append.MEDIA_TYPES}
# Headers that require more than a plain response.
_NOT_PLAIN = frozenset(
    {b"expect", b"upgrade", b"origin", b"content-encoding", b"transfer-encoding"}
)
_KEEP = b"keep-alive"
_ANY = b"*/*"
_HOSTS_MAX = 100
_ACCEPTED = frozenset({b"*/*", b"application/json", b"application/json, */*"})
_HEADERS = (
    b"content-type: application/json\r\n"
    b"cache-control: no-store\r\n"
    b"x-content-type-options: nosniff\r\n"
)

Headers = list[tuple[bytes, bytes]]


class ResponseHeads:
    """Cached starts of responses, until the date changes. Owned by the loop's thread."""

    def __init__(self, life: int) -> None:
        self._ids = itertools.count(1)
        self._id = b"x-request-id: %x-h" % life
        self._common: Headers = []
        self._starts: dict[int, bytes] = {}

    def response(self, status: int, body: bytes, common: Headers) -> bytes:
        """A response in bytes, as ``responses.send_plain`` sends it."""
        if common is not self._common:
            self._common, self._starts = common, {}
        start = self._starts.get(status)
        if start is None:
            start = self._starts[status] = self._start(status, common)
        return b"%b%x\r\ncontent-length: %d\r\n\r\n%b" % (start, next(self._ids), len(body), body)

    def problem(self, problem: WireError, common: Headers, *, close: bool = False) -> bytes:
        """An error in bytes, as ``responses.send_problem`` sends it."""
        more = b""
        if problem.retry_after_s is not None:
            more += b"retry-after: %d\r\n" % max(1, math.ceil(problem.retry_after_s))
        if problem.status == 401:
            more += b"www-authenticate: Bearer\r\n"
        if close:
            more += b"connection: close\r\n"
        body, start = problem.body(), self._start(problem.status, common)
        return b"%b%x\r\n%bcontent-length: %d\r\n\r\n%b" % (
            *(start, next(self._ids), more, len(body), body),
        )

    def _start(self, status: int, common: Headers) -> bytes:
        lines = b"".join(b"%b: %b\r\n" % header for header in common)
        return STATUS_LINE[status] + lines + _HEADERS + self._id


class DelayedResponse:
    """An append whose response is sent when it is durable. Owned by the loop's thread."""

    __slots__ = ("_address", "_hot", "_placed", "_who", "pending", "response")

    def __init__(
        self,
        hot: FastAppend,
        placed: handlers_append.AppendOutcome,
        pending: PendingAppend,
        who: Principal,
        address: str,
    ) -> None:
        self._hot = hot
        self._placed = placed
        self.pending = pending
        self.response = b""
        """The response, once there is one."""
        self._who = who
        self._address = address

    def response_of(self, error: BaseException | None, common: Headers) -> bytes:
        """The response, once the wait has ended, with or without an error."""
        self._hot.parts.auth.quotas.end_request(self._who, self._address)
        if error is not None:
            return self._hot.error_response(error, common)
        return self._hot.response_of(self._placed, common)


class FastAppend:
    """The fast path of a server. Owned by the loop's thread."""

    def __init__(self, parts: AppState, gate: HostPolicy, heads: ResponseHeads) -> None:
        self.parts = parts
        self.heads = heads
        self._gate = gate
        self._hosts: set[bytes | None] = set()  # that the gate accepted
        limits = parts.settings.limits
        self._size_max = min(handlers_append.LARGE, limits.body_bytes_max, limits.json_objects_max)
        self._depth_max = limits.json_depth_max
        self._monotonic = parts.clock.monotonic
        self._governor = parts.hub.load_shedder
        self.cached_heads: dict[bytes, CachedHead] = {}
        """Heads that led here, at most ``head_cache.CACHED_MAX``."""

    def plain_append(
        self, url: bytes, headers: dict[bytes, bytes], address: str
    ) -> IncomingAppend | None:
        """The append of a head; None when the application has to handle it, as for a client that
        is not authenticated yet."""
        parts, get = self.parts, headers.get
        if not url.startswith(_PATH) or not headers.keys().isdisjoint(_NOT_PLAIN):
            return None
        media_type = _MEDIA_TYPES.get(get(b"content-type", b""))
        size = get(b"content-length", b"")
        if media_type is None or not size or len(size) > 9 or int(size) > self._size_max:
            return None
        if get(b"connection", _KEEP).lower() != _KEEP or get(b"accept", _ANY) not in _ACCEPTED:
            return None
        # The cache has existing topics only, so a name that is found there is valid.
        topic = url[len(_PATH) :].decode("latin-1")
        if topic not in parts.topic_handles or parts.draining or not self._is_ours(get(b"host")):
            return None
        authorization = _text(get(b"authorization"))
        who = parts.auth.cached_principal(authorization, address)
        if who is None:
            return None
        return IncomingAppend(topic, media_type, authorization, _text(get(b"idempotency-key")), who)

    def hold(self, append: IncomingAppend, address: str) -> None:
        """Count an unfinished body; Refused with 503 when there is no room for it."""
        if append.hold is None:
            append.hold = self.parts.budget.hold(client_of(append.who, address))
        append.hold.resize(sum(map(len, append.pieces)))

    def _is_ours(self, host: bytes | None) -> bool:
        if host in self._hosts:
            return True
        try:
            self._gate.check(_text(host), None)
        except Refused:
            return False
        if len(self._hosts) < _HOSTS_MAX:
            self._hosts.add(host)
        return True

    def append(
        self, append: IncomingAppend, address: str, common: Headers
    ) -> bytes | DelayedResponse | None:
        """The response to an append, now or later; None when the application has to handle it."""
        auth, body = self.parts.auth, append.body
        try:
            who = auth.authenticate(append.authorization, address)
            auth.quotas.start_request(who, address, len(body))
        except StrandlineError as error:
            return self.error_response(error, common)
        waits = False
        try:
            placed = handlers_append.place(
                self.parts,
                who,
                append.topic,
                body,
                append.media_type,
                idempotency_key=append.idempotency_key,
            )
            auth.cache_writer(append.authorization, who, append.topic)
            if placed.pending is not None:
                waits = True
                return DelayedResponse(self, placed, placed.pending, who, address)
            return self.response_of(placed, common)
        except UnknownTopic:
            return None  # deleted in the meantime: the application may create it again
        except Exception as error:  # noqa: BLE001 - a bug is a 500, not the client's error
            if not isinstance(error, StrandlineError):
                _LOG.error("internal error in an append", topic=append.topic, exc_info=error)
            return self.error_response(error, common)
        finally:
            if not waits:
                auth.quotas.end_request(who, address)

    def cache_head(self, head: bytes, append: IncomingAppend, headers: Headers) -> None:
        """Cache the head of an append that was handled here."""
        topic = self.parts.topic_handles.get(append.topic)
        if topic is None or append.idempotency_key is not None or not head_cache.is_head(head):
            return  # a head with an idempotency key does not repeat
        if len(self.cached_heads) >= head_cache.CACHED_MAX:
            self.cached_heads.clear()
        self.cached_heads[head] = CachedHead(topic, append, headers)

    def append_repeat(
        self, repeat: CachedHead, body: bytes, address: str, common: Headers
    ) -> bytes | DelayedResponse | None:
        """As ``take``, for an append with a cached head; None when it has to be parsed again."""
        parts = self.parts
        topic = repeat.topic
        if parts.draining or parts.topic_handles.get(repeat.name) is not topic:
            return None
        data = head_cache.single_data(body, self._depth_max) if repeat.is_json else None
        if data is None or not repeat.accepts_appends(topic.config):
            append = IncomingAppend(
                repeat.name, repeat.media_type, repeat.authorization, None, ANONYMOUS
            )
            append.pieces.append(body)
            return self.append(append, address, common)
        started_s = self._monotonic()
        auth = parts.auth
        who = auth.cached_writer(repeat.authorization, address, repeat.name)
        if (
            who is None
            or topic.is_gone
            or self._governor.is_rejecting
            or parts.storage_quota.is_bounded
            or not auth.quotas.has_room(who, address)
        ):
            return None
        try:
            if repeat.waits:
                return self._wait_for(topic, data, who, address, started_s)
            seq = topic.append(data).first_seq
        except UnknownTopic:
            return None
        except Exception as error:  # noqa: BLE001 - as in take
            return self._failed(topic, error, common)
        counters = parts.counters
        counters.appends += 1
        counters.records += 1
        counters.requests[200] += 1
        body = repeat.response_template % (seq, seq, seq, (self._monotonic() - started_s) * 1000)
        return self.heads.response(200, body, common)

    def _wait_for(
        self, topic: Topic, data: bytes, who: Principal, address: str, started_s: float
    ) -> DelayedResponse:
        parts = self.parts
        pending = topic.append_nowait(data)
        parts.counters.appends += 1
        parts.counters.records += 1
        placed = handlers_append.AppendOutcome(
            parts, topic.name, pending.appended, pending, started_s
        )
        parts.auth.quotas.start_request(who, address)
        return DelayedResponse(self, placed, pending, who, address)

    def _failed(self, topic: Topic, error: Exception, common: Headers) -> bytes:
        if isinstance(error, TopicFull):
            error = handlers_append.topic_full_error(topic, error)
        elif not isinstance(error, StrandlineError):
            _LOG.error("internal error in an append", topic=topic.name, exc_info=error)
        return self.error_response(error, common)

    def response_of(self, placed: handlers_append.AppendOutcome, common: Headers) -> bytes:
        """The response to an acknowledged append."""
        status, body = placed.response()
        self.parts.counters.requests[status] += 1
        return self.heads.response(status, body, common)

    def error_response(self, error: BaseException, common: Headers) -> bytes:
        """The response to a failed append."""
        problem = wire_error_of(error)
        self.parts.counters.requests[problem.status] += 1
        return self.heads.problem(problem, common)


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")
