"""Requests and responses as values, and the retry policy of requests. Pure.

A request is repeated only when that has no second effect:

    it is safe        it only reads, or the server recognizes it (by the idempotency key of an
                      append, or a lease): repeated whatever happened to earlier attempts
    it was not done   no connection was made, or the server rejected it for now (429, 503)

Any other failure in transit is raised to the caller: the request may have been executed.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import httpx2
import msgspec

from strandline.api.errors import WireError, exception_of
from strandline.client.result_codec import results_of
from strandline.client.settings import ClientSettings
from strandline.errors import Closed, ObjectStoreUnreachable, StrandlineError
from strandline.platform.clock import Clock

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"

Decoded = TypeVar("Decoded")

_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_REJECTED_BEFORE_EXECUTION = frozenset({"throttled", "not_ready", "shutting_down", "overloaded"})


class Request(NamedTuple):
    """An HTTP request, with the rules for repeating it."""

    method: str
    path: str
    """Percent-encoded."""
    query: Mapping[str, str] = {}
    body: bytes = b""
    media_type: str = JSON
    accept: str = JSON
    safe: bool = False
    """Whether it may be repeated whatever happened to earlier attempts."""
    wait_s: float = 0.0
    """How long the request lets the server wait before it responds."""
    in_loop: bool = False
    """Whether the caller is a loop that continues after the server was unavailable."""
    window_s: float | None = None
    """For how long the server recognizes a repeated request; None is without end."""
    closed_is_final: bool = False
    """Whether Closed concerns the object of the request, and not the server."""


class Response(NamedTuple):
    """A response that is not an error."""

    status: int
    media_type: str
    content: bytes
    repeated: bool
    """Whether an earlier attempt may have been executed."""

    def decode(self, kind: type[Decoded]) -> Decoded:
        """Decode the JSON of the response."""
        try:
            return msgspec.json.decode(self.content, type=kind)
        except msgspec.DecodeError as error:
            raise ObjectStoreUnreachable(
                f"this is not a response of a Strandline server: {error}"
            ) from error


class FailedAttempt(Exception):
    """A failed attempt. Internal: callers get the error in it."""

    def __init__(
        self,
        error: StrandlineError,
        *,
        not_executed: bool,
        is_transient: bool,
        pause_s: float | None = None,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.undone = not_executed
        """Whether the server certainly did not execute the request."""
        self.passing = is_transient
        """Whether a later attempt may succeed."""
        self.pause_s = pause_s


class StreamTimeout(Exception):
    """No data arrived within the timeout of the stream. Internal: callers never get it."""


def transport_failure(error: Exception, where: str) -> FailedAttempt:
    """The failure of an attempt without a response. Its message has neither token nor body."""
    undone = isinstance(error, _UNSENT)
    reason = str(error) or type(error).__name__
    message = f"{where} does not respond ({reason})"
    message += ": is it running?" if undone else ": the request may have been executed"
    return FailedAttempt(ObjectStoreUnreachable(message), not_executed=undone, is_transient=True)


def rejection_failure(problem: WireError, request: Request) -> FailedAttempt:
    """The failure that an error response stands for."""
    error = exception_of(problem)
    error.results = results_of(problem.detail)
    if error.results:
        error.add_note(f"{len(error.results)} commands of the batch were executed before it failed")
    not_started = problem.code in _REJECTED_BEFORE_EXECUTION and "kind" not in problem.detail
    throttled = problem.status == 429
    final = isinstance(error, Closed) and request.closed_is_final
    passing = throttled or (problem.status in (502, 503, 504) and not final)
    undone = (not_started or throttled) and not error.results
    return FailedAttempt(
        error, not_executed=undone, is_transient=passing, pause_s=problem.retry_after_s
    )


def shut_down(response: httpx2.Response) -> None:
    """Shut down the socket of a streaming response, which wakes its readers."""
    stream = response.extensions.get("network_stream")
    connection = None if stream is None else stream.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if connection is not None:
            connection.shutdown(socket.SHUT_RDWR)


class RequestRetryPolicy:
    """Decides whether a request is repeated. Owned by one request."""

    def __init__(self, request: Request, settings: ClientSettings, clock: Clock) -> None:
        self._request = request
        self._clock = clock
        self._retry_s_max = settings.reconnect_s_max if request.in_loop else settings.retry_s_max
        self._recognized_until = (
            None if request.window_s is None else clock.monotonic() + request.window_s
        )
        self._until: float | None = None
        self.may_be_executed = False
        """Whether one of the attempts so far may have been executed."""

    def pause_after(self, error: Exception) -> bool | float:
        """False to give up, True or a pause in seconds to try again."""
        if not isinstance(error, FailedAttempt) or not error.passing:
            return False
        if not (error.undone or self._request.safe):
            return False
        self.may_be_executed = self.may_be_executed or not error.undone
        now = self._clock.monotonic()
        if self._until is None:
            self._until = now + self._retry_s_max
        next_attempt = now + (error.pause_s or 0.0)
        if next_attempt >= self._until:
            return False
        if (
            self.may_be_executed
            and self._recognized_until is not None
            and next_attempt >= self._recognized_until
        ):
            return False
        return True if error.pause_s is None else error.pause_s
