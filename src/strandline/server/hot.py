"""The hot path: a plain append is answered by its connection, without the application.

What is plain: ``POST /v0/topics/NAME`` to a topic at hand, without a query, with a body of known,
moderate size and no header that would make the application answer in another way. All the rest
gets the application's answer. Both place an append with the same function (``appending.place``) and
tell its answer and its errors with the same bytes: ``tests/server/test_hot_path.py``.
"""

from __future__ import annotations

import asyncio
import itertools
import math

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from strandline.errors import StrandlineError, UnknownTopic
from strandline.record import Appended
from strandline.security.principal import Principal
from strandline.server import appending
from strandline.server.gates import Gate
from strandline.server.parts import Parts
from strandline.wire.problems import Problem, Refused, problem_of

_LOG = structlog.get_logger("strandline.server")
_PATH = b"/v0/topics/"
_MEDIA_TYPES = {each.encode(): each for each in appending.MEDIA_TYPES}
# Headers that ask for more than a plain answer.
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


class Append:
    """A plain append whose body is arriving. Owned by the loop's thread."""

    __slots__ = ("authorization", "idempotency_key", "media_type", "pieces", "topic")

    def __init__(
        self, topic: str, media_type: str, authorization: str | None, idempotency_key: str | None
    ) -> None:
        self.topic = topic
        self.media_type = media_type
        self.authorization = authorization
        self.idempotency_key = idempotency_key
        self.pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        pieces = self.pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Heads:
    """Beginnings of answers, made anew when the date changes. Owned by the loop's thread."""

    def __init__(self, life: int) -> None:
        self._ids = itertools.count(1)
        self._id = b"x-request-id: %x-h" % life
        self._of: Headers = []
        self._begun: dict[int, bytes] = {}

    def answer(self, status: int, body: bytes, common: Headers) -> bytes:
        """An answer in bytes, as ``answers.send_plain`` sends it."""
        if common is not self._of:
            self._of, self._begun = common, {}
        begun = self._begun.get(status)
        if begun is None:
            begun = self._begun[status] = self._begin(status, common)
        return b"%b%x\r\ncontent-length: %d\r\n\r\n%b" % (begun, next(self._ids), len(body), body)

    def problem(self, problem: Problem, common: Headers, *, close: bool = False) -> bytes:
        """An error in bytes, as ``answers.send_problem`` sends it."""
        more = b""
        if problem.retry_after_s is not None:
            more += b"retry-after: %d\r\n" % max(1, math.ceil(problem.retry_after_s))
        if problem.status == 401:
            more += b"www-authenticate: Bearer\r\n"
        if close:
            more += b"connection: close\r\n"
        body, begun = problem.body(), self._begin(problem.status, common)
        return b"%b%x\r\n%bcontent-length: %d\r\n\r\n%b" % (
            *(begun, next(self._ids), more, len(body), body),
        )

    def _begin(self, status: int, common: Headers) -> bytes:
        told = b"".join(b"%b: %b\r\n" % header for header in common)
        return STATUS_LINE[status] + told + _HEADERS + self._id


class Waiting:
    """An append that is told when it is durable. Owned by the loop's thread."""

    __slots__ = ("_address", "_hot", "_placed", "_who", "future")

    def __init__(
        self,
        hot: Hot,
        placed: appending.Placed,
        future: asyncio.Future[Appended],
        who: Principal,
        address: str,
    ) -> None:
        self._hot = hot
        self._placed = placed
        self.future = future
        self._who = who
        self._address = address

    def answer(self, common: Headers) -> bytes:
        """What to tell, once the future is done."""
        self._hot.parts.auth.quotas.end(self._who, self._address)
        error = self.future.exception()
        if error is not None:
            return self._hot.refused(error, common)
        return self._hot.told(self._placed, common)


class Hot:
    """The hot path of a server. Owned by the loop's thread."""

    def __init__(self, parts: Parts, gate: Gate, heads: Heads) -> None:
        self.parts = parts
        self.heads = heads
        self._gate = gate
        self._hosts: set[bytes | None] = set()  # that the gate lets in
        self._size_max = min(appending.LARGE, parts.settings.limits.body_bytes_max)

    def plain(self, url: bytes, headers: dict[bytes, bytes]) -> Append | None:
        """The append that a head announces; None when the application has to answer."""
        parts, asked = self.parts, headers.get
        if not url.startswith(_PATH) or not headers.keys().isdisjoint(_NOT_PLAIN):
            return None
        media_type = _MEDIA_TYPES.get(asked(b"content-type", b""))
        size = asked(b"content-length", b"")
        if media_type is None or not size or len(size) > 9 or int(size) > self._size_max:
            return None
        if asked(b"connection", _KEEP).lower() != _KEEP or asked(b"accept", _ANY) not in _ACCEPTED:
            return None
        # Where topics are at hand by their names, there are no others than proper names.
        topic = url[len(_PATH) :].decode("latin-1")
        if topic not in parts.handles or parts.draining or not self._is_ours(asked(b"host")):
            return None
        authorization = asked(b"authorization")
        if authorization is None:
            return Append(topic, media_type, None, _text(asked(b"idempotency-key")))
        told = authorization.decode("latin-1")
        if parts.auth.takes_time(told):
            return None
        return Append(topic, media_type, told, _text(asked(b"idempotency-key")))

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

    def take(self, append: Append, address: str, common: Headers) -> bytes | Waiting | None:
        """The answer to an append, or how it comes; None when the application has to give it."""
        auth, body = self.parts.auth, append.body
        try:
            who = auth.authenticate(append.authorization, address)
            auth.quotas.begin(who, address, len(body))
        except StrandlineError as error:
            return self.refused(error, common)
        waits = False
        try:
            placed = appending.place(
                self.parts,
                who,
                append.topic,
                body,
                append.media_type,
                idempotency_key=append.idempotency_key,
            )
            if placed.pending is not None:
                future = placed.pending.durable()
                waits = not future.done()
                if waits:
                    return Waiting(self, placed, future, who, address)
            return self.told(placed, common)
        except UnknownTopic:
            return None  # deleted a moment ago: the application may make it again
        except Exception as error:  # noqa: BLE001 - a bug must not look like the client's mistake
            if not isinstance(error, StrandlineError):
                _LOG.error("an append met a bug", topic=append.topic, exc_info=error)
            return self.refused(error, common)
        finally:
            if not waits:
                auth.quotas.end(who, address)

    def told(self, placed: appending.Placed, common: Headers) -> bytes:
        """The answer to an append that is acknowledged."""
        status, body = placed.answer()
        self.parts.counters.requests[status] += 1
        return self.heads.answer(status, body, common)

    def refused(self, error: BaseException, common: Headers) -> bytes:
        """The answer to one that is not."""
        problem = problem_of(error)
        self.parts.counters.requests[problem.status] += 1
        return self.heads.problem(problem, common)


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")
