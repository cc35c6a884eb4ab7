"""Requests to one server: sent, answered, made again when that is safe.

The token is in a header and nowhere else. Redirects are not followed, and proxies of the
environment are not used: a token goes to the server that was named, or nowhere.
"""

from __future__ import annotations

import contextlib
import itertools
import ssl
from typing import NoReturn

import httpx2

from strandline.api.errors import read_problem
from strandline.client.address import Address
from strandline.client.request import (
    Ask,
    Failed,
    Patience,
    Reply,
    failed_on_the_way,
    refused,
    shut_down,
)
from strandline.client.settings import ClientSettings
from strandline.errors import Closed
from strandline.platform import process
from strandline.platform.clock import Clock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.retry_policy import Attempts

_MENTION_S = 1.0


class AsyncConnection:
    """A pool of connections to one server. Safe from many tasks of one loop."""

    def __init__(
        self,
        address: Address,
        *,
        token: str | None,
        verify: ssl.SSLContext | bool,
        settings: ClientSettings,
        clock: Clock,
    ) -> None:
        self.address = address
        self.settings = settings
        self.clock = clock
        self._headers = {"user-agent": "strandline-python"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._headers["accept-encoding"] = "identity" if address.is_near else "gzip"
        self._verify = verify
        self._closed = False
        self._name = OsDisk().random_id().hex()
        self._sent = itertools.count(1)
        self.forks = 0
        """How often it was forked: what was begun before is the parent's."""
        self._left_to_parent: list[httpx2.AsyncClient] = []
        self._streams: dict[int, httpx2.Response] = {}
        """Answers that go on, by their identity."""
        self._http = self._fresh()
        process.tell_when_forked(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection cannot be pickled: send the URL, and connect there")

    def __repr__(self) -> str:
        return f"AsyncConnection({self.address.shown!r})"

    def new_key(self) -> str:
        """A name for one append, which no other append ever has."""
        return f"{self._name}.{next(self._sent)}"

    async def ask(self, ask: Ask) -> Reply:
        """The answer to a request, or what an open store would raise."""
        patience = Patience(ask, self.settings, self.clock)
        try:
            async for attempt in Attempts(patience.pause_after):
                with attempt:
                    return await self._once(ask, repeated=patience.perhaps_done)
        except Failed as failed:
            raise failed.error from failed.__cause__
        raise AssertionError("the last attempt returns or raises")

    @property
    def is_closed(self) -> bool:
        return self._closed

    async def open(self, ask: Ask, headers: dict[str, str], quiet_s: float) -> httpx2.Response:
        """An answer that goes on, until it is left; it may say nothing for so long at a time."""
        if self._closed:
            raise Closed("the connection is closed: connect again")
        request = self._http.build_request(
            ask.method,
            self.address.url + ask.path,
            headers=_headers(ask) | headers,
            timeout=self._timeout(0.0, quiet_s),
        )
        try:
            response = await self._http.send(request, stream=True)
            if response.status_code < 300:
                self._streams[id(response)] = response
                return response
            content = await response.aread()
            await response.aclose()
        except httpx2.RequestError as error:
            if self._closed:
                raise Closed("the connection was closed meanwhile") from None
            raise failed_on_the_way(error, self.address.shown) from error
        wait_s = _seconds(response.headers.get("retry-after"))
        raise refused(read_problem(response.status_code, content, wait_s), ask)

    async def leave(self, response: httpx2.Response) -> None:
        """Hang up on an answer that goes on. Twice is fine."""
        self._streams.pop(id(response), None)
        await response.aclose()

    async def mention(self, ask: Ask) -> None:
        """Say something once, for the server's sake: nobody minds when it is not heard."""
        if self._closed:
            return
        url, headers = self.address.url + ask.path, _headers(ask)
        # RuntimeError: it was closed at this very moment.
        with contextlib.suppress(httpx2.HTTPError, RuntimeError):
            await self._http.request(ask.method, url, headers=headers, timeout=_MENTION_S)

    async def close(self) -> None:
        """Close all connections. Twice is fine."""
        self._closed = True
        for response in list(self._streams.values()):
            shut_down(response)  # closing alone does not wake who waits in it
        await self._http.aclose()

    def forked(self) -> None:
        """In a forked child: the connections are the parent's, so make others when needed."""
        self._left_to_parent.append(self._http)  # closing them here could say so to the server
        self._streams = {}
        self.forks += 1
        self._http = self._fresh()
        self._name = OsDisk().random_id().hex()

    async def _once(self, ask: Ask, *, repeated: bool) -> Reply:
        if self._closed:
            raise Closed("the connection is closed: connect again")
        try:
            response = await self._http.request(
                ask.method,
                self.address.url + ask.path,
                params=ask.query or None,
                content=ask.body or None,
                headers=_headers(ask),
                timeout=self._timeout(ask.wait_s),
            )
        except httpx2.RequestError as error:
            if self._closed:
                raise Closed("the connection was closed meanwhile") from None
            raise failed_on_the_way(error, self.address.shown) from error
        if response.status_code >= 300:
            wait_s = _seconds(response.headers.get("retry-after"))
            problem = read_problem(response.status_code, response.content, wait_s)
            raise refused(problem, ask)
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Reply(response.status_code, media_type, response.content, repeated)

    def _timeout(self, wait_s: float, quiet_s: float | None = None) -> httpx2.Timeout:
        settings = self.settings
        return httpx2.Timeout(
            settings.answer_s_max,
            connect=settings.connect_s_max,
            read=settings.answer_s_max + wait_s if quiet_s is None else quiet_s,
        )

    def _fresh(self) -> httpx2.AsyncClient:
        settings = self.settings
        transport = httpx2.AsyncHTTPTransport(
            # Without encryption there is nothing to look at, and loading authorities takes 20 ms.
            verify=self._verify if self.address.is_encrypted else False,
            trust_env=False,
            uds=self.address.socket or None,
            limits=httpx2.Limits(
                max_connections=settings.connections_max,
                max_keepalive_connections=settings.idle_connections_max,
                keepalive_expiry=settings.idle_s_max,
            ),
        )
        return httpx2.AsyncClient(transport=transport, headers=self._headers, trust_env=False)


def _headers(ask: Ask) -> dict[str, str]:
    headers = {"accept": ask.accept}
    if ask.body or ask.method != "GET":
        headers["content-type"] = ask.media_type
    return headers


def _seconds(text: str | None) -> float | None:
    """What Retry-After says; a date is as good as nothing."""
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None
