# Made from asynchronous/connection.py by tests/house/blocking.py: change that one.
"""Sends requests to one server, and repeats them when that is safe.

The token is sent in a header and nowhere else. Redirects are not followed and proxies of the
environment are not used, so the token is sent only to the named server.
"""

from __future__ import annotations

import contextlib
import itertools
import ssl
from typing import NoReturn

import httpx2

from strandline.api.errors import read_wire_error
from strandline.client.address import Address
from strandline.client.request import (
    FailedAttempt,
    Request,
    RequestRetryPolicy,
    Response,
    rejection_failure,
    shut_down,
    transport_failure,
)
from strandline.client.settings import ClientSettings
from strandline.errors import Closed
from strandline.platform import process
from strandline.platform.clock import Clock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.retry_policy import Attempts

_SEND_ONCE_TIMEOUT_S = 1.0


class RemoteConnection:
    """A pool of connections to one server. Safe from many threads."""

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
        self._headers["accept-encoding"] = "identity" if address.is_local else "gzip"
        self._verify = verify
        self._closed = False
        self._name = OsDisk().random_id().hex()
        self._key_numbers = itertools.count(1)
        self.forks = 0
        """How often the process was forked: sessions begun before belong to the parent."""
        self._parent_clients: list[httpx2.Client] = []
        self._streams: dict[int, httpx2.Response] = {}
        """Streaming responses, by their identity."""
        self._http = self._new_client()
        process.register_forkable(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection cannot be pickled: send the URL, and connect there")

    def __repr__(self) -> str:
        return f"RemoteConnection({self.address.shown!r})"

    def new_key(self) -> str:
        """An idempotency key that no other append has."""
        return f"{self._name}.{next(self._key_numbers)}"

    def request(self, request: Request) -> Response:
        """Send a request; return the response, or raise what an embedded store would raise."""
        patience = RequestRetryPolicy(request, self.settings, self.clock)
        try:
            for attempt in Attempts(patience.pause_after):
                with attempt:
                    return self._attempt(request, repeated=patience.may_be_executed)
        except FailedAttempt as failed:
            raise failed.error from failed.__cause__
        raise AssertionError("the last attempt returns or raises")

    @property
    def is_closed(self) -> bool:
        return self._closed

    def open_stream(
        self, request: Request, headers: dict[str, str], quiet_s: float
    ) -> httpx2.Response:
        """Open a streaming response, until ``leave``. ``quiet_s`` is its timeout without data."""
        if self._closed:
            raise Closed("the connection is closed: connect again")
        http_request = self._http.build_request(
            request.method,
            self.address.url + request.path,
            headers=_headers(request) | headers,
            timeout=self._timeout(0.0, quiet_s),
        )
        try:
            response = self._http.send(http_request, stream=True)
            if response.status_code < 300:
                self._streams[id(response)] = response
                return response
            content = response.read()
            response.close()
        except httpx2.RequestError as error:
            if self._closed:
                raise Closed("the connection was closed during the request") from None
            raise transport_failure(error, self.address.shown) from error
        wait_s = _seconds(response.headers.get("retry-after"))
        raise rejection_failure(read_wire_error(response.status_code, content, wait_s), request)

    def close_stream(self, response: httpx2.Response) -> None:
        """Close a streaming response. Closing it twice is fine."""
        self._streams.pop(id(response), None)
        response.close()

    def send_once(self, request: Request) -> None:
        """Send a request once without waiting long; its failure is ignored."""
        if self._closed:
            return
        url, headers = self.address.url + request.path, _headers(request)
        # RuntimeError: the client was closed by another thread or task after the check above.
        with contextlib.suppress(httpx2.HTTPError, RuntimeError):
            self._http.request(request.method, url, headers=headers, timeout=_SEND_ONCE_TIMEOUT_S)

    def close(self) -> None:
        """Close all connections. Closing twice is fine."""
        self._closed = True
        for response in list(self._streams.values()):
            shut_down(response)  # closing alone does not wake a reader that waits in it
        self._http.close()

    def forked(self) -> None:
        """In a forked child: the connections belong to the parent, so use new ones."""
        self._parent_clients.append(self._http)  # closing them here could end TLS for the parent
        self._streams = {}
        self.forks += 1
        self._http = self._new_client()
        self._name = OsDisk().random_id().hex()

    def _attempt(self, request: Request, *, repeated: bool) -> Response:
        if self._closed:
            raise Closed("the connection is closed: connect again")
        try:
            response = self._http.request(
                request.method,
                self.address.url + request.path,
                params=request.query or None,
                content=request.body or None,
                headers=_headers(request),
                timeout=self._timeout(request.wait_s),
            )
        except httpx2.RequestError as error:
            if self._closed:
                raise Closed("the connection was closed during the request") from None
            raise transport_failure(error, self.address.shown) from error
        if response.status_code >= 300:
            wait_s = _seconds(response.headers.get("retry-after"))
            problem = read_wire_error(response.status_code, response.content, wait_s)
            raise rejection_failure(problem, request)
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Response(response.status_code, media_type, response.content, repeated)

    def _timeout(self, wait_s: float, quiet_s: float | None = None) -> httpx2.Timeout:
        settings = self.settings
        return httpx2.Timeout(
            settings.response_s_max,
            connect=settings.connect_s_max,
            read=settings.response_s_max + wait_s if quiet_s is None else quiet_s,
        )

    def _new_client(self) -> httpx2.Client:
        settings = self.settings
        transport = httpx2.HTTPTransport(
            # Without TLS there is no certificate to verify, and loading authorities takes 20 ms.
            verify=self._verify if self.address.is_encrypted else False,
            trust_env=False,
            uds=self.address.socket or None,
            limits=httpx2.Limits(
                max_connections=settings.connections_max,
                max_keepalive_connections=settings.idle_connections_max,
                keepalive_expiry=settings.idle_s_max,
            ),
        )
        return httpx2.Client(transport=transport, headers=self._headers, trust_env=False)


def _headers(request: Request) -> dict[str, str]:
    headers = {"accept": request.accept}
    if request.body or request.method != "GET":
        headers["content-type"] = request.media_type
    return headers


def _seconds(text: str | None) -> float | None:
    """The seconds of Retry-After; None without it or when it is a date."""
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None
