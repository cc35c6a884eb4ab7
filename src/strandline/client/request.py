"""A request and its answer as values, and whether it may be made once more. Pure.

A request is made again when that cannot do harm:

    it is safe        it only asks, or the server knows it again (an append's idempotency key, a
                      lease): whatever happened to it before
    it was not done   no connection came about, or the server refused it for the moment (429, 503)

Anything else that fails on the way is told to the caller: it may have happened.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import httpx2
import msgspec

from strandline.api.errors import Problem, error_of
from strandline.client.result_codec import results_of
from strandline.client.settings import ClientSettings
from strandline.errors import Closed, StrandlineError, Unreachable
from strandline.platform.clock import Clock

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"

Told = TypeVar("Told")

_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_REFUSED_AT_THE_DOOR = frozenset({"throttled", "not_ready", "shutting_down", "overloaded"})


class Ask(NamedTuple):
    """A request."""

    method: str
    path: str
    """Quoted."""
    query: Mapping[str, str] = {}
    body: bytes = b""
    media_type: str = JSON
    accept: str = JSON
    safe: bool = False
    """Whether it may be made again whatever became of it."""
    wait_s: float = 0.0
    """How long the server may wait before it answers, because it was asked to."""
    in_loop: bool = False
    """Whether its caller is a loop that outlives the server's absence."""
    window_s: float | None = None
    """For how long the server knows it again; None is for ever."""
    closed_is_final: bool = False
    """Whether Closed is about what was asked for, and not about the server."""


class Reply(NamedTuple):
    """An answer that is no error."""

    status: int
    media_type: str
    content: bytes
    repeated: bool
    """Whether an earlier attempt may have been done already."""

    def told(self, kind: type[Told]) -> Told:
        """Its JSON."""
        try:
            return msgspec.json.decode(self.content, type=kind)
        except msgspec.DecodeError as error:
            raise Unreachable(f"this is not the answer of a Strandline server: {error}") from error


class Failed(Exception):
    """An attempt that failed. Never seen by callers: they get the error in it."""

    def __init__(
        self, error: StrandlineError, *, undone: bool, passing: bool, pause_s: float | None = None
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.undone = undone
        """Whether the server has certainly not done what was asked."""
        self.passing = passing
        """Whether it may go better next time."""
        self.pause_s = pause_s


class Quiet(Exception):
    """Nothing came for as long as was said. Never seen by callers."""


def failed_on_the_way(error: Exception, where: str) -> Failed:
    """What it means when there is no answer. The words of the error hold neither token nor body."""
    undone = isinstance(error, _UNSENT)
    said = str(error) or type(error).__name__
    told = f"{where} does not answer ({said})"
    told += ": is it running?" if undone else ": what was asked may have been done"
    return Failed(Unreachable(told), undone=undone, passing=True)


def refused(problem: Problem, ask: Ask) -> Failed:
    """What an answer means that is an error."""
    error = error_of(problem)
    error.results = results_of(problem.detail)
    if error.results:
        error.add_note(f"{len(error.results)} commands of the batch were done before it failed")
    at_the_door = problem.code in _REFUSED_AT_THE_DOOR and "kind" not in problem.detail
    throttled = problem.status == 429
    final = isinstance(error, Closed) and ask.closed_is_final
    passing = throttled or (problem.status in (502, 503, 504) and not final)
    undone = (at_the_door or throttled) and not error.results
    return Failed(error, undone=undone, passing=passing, pause_s=problem.retry_after_s)


def shut_down(response: httpx2.Response) -> None:
    """End an answer that goes on, whoever waits in it."""
    stream = response.extensions.get("network_stream")
    connection = None if stream is None else stream.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if connection is not None:
            connection.shutdown(socket.SHUT_RDWR)


class Patience:
    """Decides whether a request is made once more. Owned by one request."""

    def __init__(self, ask: Ask, settings: ClientSettings, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._most_s = settings.reconnect_s_max if ask.in_loop else settings.retry_s_max
        self._known_until = None if ask.window_s is None else clock.monotonic() + ask.window_s
        self._until: float | None = None
        self.perhaps_done = False
        """Whether an attempt so far may have been done."""

    def pause_after(self, error: Exception) -> bool | float:
        """False to give up, True or a pause in seconds to try again."""
        if not isinstance(error, Failed) or not error.passing:
            return False
        if not (error.undone or self._ask.safe):
            return False
        self.perhaps_done = self.perhaps_done or not error.undone
        now = self._clock.monotonic()
        if self._until is None:
            self._until = now + self._most_s
        then = now + (error.pause_s or 0.0)
        if then >= self._until:
            return False
        if self.perhaps_done and self._known_until is not None and then >= self._known_until:
            return False
        return True if error.pause_s is None else error.pause_s
