"""The ASGI application: processes each request in the same steps.

    host, origin -> path -> method -> authenticate -> authorise -> Accept -> body -> handler

No body is read before its client is authenticated; only routes with ``is_public`` are served
without a token, and none of them takes a body. All errors have one format. Unexpected errors are
logged in full; the client gets a generic message. There is no middleware: each layer of it would
cost as much as all of this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import structlog
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from strandline.api.errors import Refused, WireError, wire_error_of
from strandline.api.results import NDJSON
from strandline.errors import StrandlineError
from strandline.security.principal import Principal
from strandline.server.app_state import AppState
from strandline.server.auth.host_origin import HostPolicy, check_media
from strandline.server.http import audit, request_body, request_decoder, responses
from strandline.server.http.arrow_streams import ChunkedResponse
from strandline.server.http.audit import address_of
from strandline.server.http.request import RequestContext
from strandline.server.http.responses import HeaderList
from strandline.server.http.route import JsonResponse, Route
from strandline.server.http.url_router import RouteMatch, UrlRouter
from strandline.server.limits.byte_budget import BudgetHold
from strandline.server.limits.rate_limits import client_of
from strandline.server.route_table import ROUTES

_EVENTS = "text/event-stream"
_WHILE_DRAINING = ("/v0/health", "/healthz", "/v0/ready", "/readyz", "/v0/metrics")
_LARGE_SIZE = 64 * 1024  # larger bodies are decoded and compressed on a thread
_TEXTUAL = ("", request_decoder.JSON, NDJSON)
"""Media types whose bodies are checked for their number of objects."""
_SERVER_ERRORS = ("internal", "corrupt", "newer_format")
"""Codes of server errors, which are logged in full."""
_log = structlog.get_logger("strandline.server")


def make_app(parts: AppState, routes: Iterable[Route] = ROUTES) -> ASGIApp:
    """The application for these parts."""
    return _App(parts, routes)


class _App:
    """Handles requests. Owned by the loop's thread."""

    def __init__(self, parts: AppState, routes: Iterable[Route]) -> None:
        self._parts = parts
        self._gate = HostPolicy(parts.settings)
        self._paths = UrlRouter(routes)
        self._count = itertools.count(1)
        self._instance_id = f"{parts.clock.now_us():x}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = self._parts.clock.monotonic()
        request = Request(scope, receive, send)
        origin = request.headers.get("origin")
        more = [(b"x-request-id", f"{self._instance_id}-{next(self._count):x}".encode())]
        try:
            self._gate.check(request.headers.get("host"), origin)
            more += _encoded(self._gate.cors(origin))
            if scope["method"] == "OPTIONS":
                await self._preflight(send, origin, more)
            else:
                await self._respond(request, send, began, more)
        except request_body.Disconnected:
            return
        except Exception as error:  # noqa: BLE001 - a bug must not become a hung connection
            problem = wire_error_of(error)
            if problem.code in _SERVER_ERRORS:
                _log_error(error, request, more)
            self._parts.counters.requests[problem.status] += 1
            await responses.send_problem(send, problem, more)

    async def _preflight(self, send: Send, origin: str | None, more: HeaderList) -> None:
        headers = self._gate.preflight(origin)
        if not headers:
            raise Refused(403, "forbidden", "requests from pages of this origin are rejected")
        await responses.send_plain(send, 204, [*_encoded(headers), more[0]], b"")

    async def _respond(self, request: Request, send: Send, began: float, more: HeaderList) -> None:
        try:
            route = self._route(request.scope, request.method)
            call = await self._authorise(request, route)
        except StrandlineError:
            if request_body.is_large(request.headers):
                more.append((b"connection", b"close"))  # the body is not read
            raise
        answer = await self._handled(call, route, request.receive)
        packs = responses.accepts_gzip(request.headers)
        self._parts.counters.requests[_status(answer)] += 1
        if isinstance(answer, Response):
            responses.complete_response(answer, more, packs=packs)
            await answer(request.scope, request.receive, send)
            return
        timings = {"server_total_ms": (self._parts.clock.monotonic() - began) * 1000}
        body = responses.body_with_performance(answer.body, timings | call.performance)
        self._parts.auth.quotas.count_bytes(call.who, address_of(call.connection), len(body))
        if packs and len(body) > _LARGE_SIZE:
            body = responses.CompressedBody(await self._parts.bridge.run(responses.compress, body))
        await responses.send_json(send, answer, body, more, packs=packs)

    async def _handled(
        self, call: RequestContext, route: Route, receive: Receive
    ) -> JsonResponse | Response:
        quotas, address = self._parts.auth.quotas, address_of(call.connection)
        quotas.start_request(call.who, address)
        hold = self._parts.budget.hold(client_of(call.who, address))
        try:
            _check_accept(route, call.accept, call.connection.scope["method"])
            await self._receive_body(call, route, receive, hold)
            answer = await route.handler(call)
            try:
                await audit.audit_request(call, route, _status(answer))
            except BaseException:
                if isinstance(answer, ChunkedResponse):
                    await answer.cancel()
                raise
            return answer
        finally:
            hold.release()
            quotas.end_request(call.who, address)

    async def _receive_body(
        self, call: RequestContext, route: Route, receive: Receive, hold: BudgetHold
    ) -> None:
        headers = call.connection.headers
        length = headers.get("content-length")
        has_body = length not in (None, "0") or "transfer-encoding" in headers
        check_media(route.takes, call.media_type, has_body=has_body)
        if route.body is None:
            return
        limits = self._parts.settings.limits
        size_max = min(limits.body_bytes_max, route.body_bytes_max or limits.body_bytes_max)
        raw = await request_body.receive_body(receive, length, size_max, hold) if has_body else b""
        self._parts.auth.quotas.count_bytes(call.who, address_of(call.connection), len(raw))
        encoding = headers.get("content-encoding", "").strip().lower()
        run = self._parts.bridge.run
        if encoding:
            hold.resize(len(raw) + request_body.decompressed_size_max(raw, encoding, size_max))
            raw = await run(request_body.decompress, raw, encoding, size_max)
            hold.resize(len(raw))
        if call.media_type in _TEXTUAL:
            request_body.check_objects(raw, limits.json_objects_max)
        call.raw = raw
        if route.decodes or call.media_type not in ("", request_decoder.JSON):
            return
        if len(call.raw) > _LARGE_SIZE:
            call.body = await run(request_decoder.body_of, route, call.raw, limits.json_depth_max)
        else:
            call.body = request_decoder.body_of(route, call.raw, limits.json_depth_max)

    def _route(self, scope: Scope, method: str) -> Route:
        if self._parts.draining and scope["path"] not in _WHILE_DRAINING:
            raise Refused(
                503, "shutting_down", "the server is shutting down: retry", retry_after_s=1.0
            )
        found = self._paths.find(scope.get("raw_path") or scope["path"].encode())
        if found is None:
            raise Refused(404, "not_found", "no route has this path")
        scope["path_params"] = found.names
        return _method(found, method)

    async def _authorise(self, connection: HTTPConnection, route: Route) -> RequestContext:
        """The call of an authenticated and authorised request."""
        who = await self._authenticate(connection, route)
        for need in route.needs:
            name = connection.path_params[need.parameter] if need.parameter else ""
            self._parts.auth.authorise(who, need.action, name)
        query = request_decoder.query_of(route, connection.scope["query_string"])
        return RequestContext(connection, self._parts, who, query=query)

    async def _authenticate(self, connection: HTTPConnection, route: Route) -> Principal:
        auth, address = self._parts.auth, address_of(connection)
        header = connection.headers.get("authorization")
        if header is None and _EVENTS in route.gives:
            ticket = connection.query_params.get("token")  # browsers send no header for streams
            if ticket is not None:
                return auth.redeem(ticket, address)
        authenticate = auth.identify if route.is_public else auth.authenticate
        if auth.takes_time(header):
            return await self._parts.bridge.run(authenticate, header, address)
        return authenticate(header, address)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        try:
            self._gate.check(socket.headers.get("host"), socket.headers.get("origin"))
            route = self._route(scope, "WEBSOCKET")
            call = await self._authorise(socket, route)
        except StrandlineError as error:
            await _reject_socket(socket, scope, wire_error_of(error))
            return
        try:
            await route.handler(call)
        except Exception as error:  # noqa: BLE001 - a bug ends this connection only
            _log_error(error, socket, [])


def _status(answer: JsonResponse | Response) -> int:
    return answer.status_code if isinstance(answer, Response) else answer.status


def _encoded(headers: dict[str, str]) -> HeaderList:
    return [(name.encode(), text.encode()) for name, text in headers.items()]


def _method(found: RouteMatch, method: str) -> Route:
    route = found.routes.get(method)
    if method == "HEAD" and route is None:
        route = found.routes.get("GET")
        if route is not None and _EVENTS in route.gives:
            route = None  # a stream has only a body
    if route is not None:
        return route
    allowed = sorted(found.routes)
    raise Refused(
        405, "method_not_allowed", f"use {' or '.join(allowed)} here", detail={"allowed": allowed}
    )


def _check_accept(route: Route, accept: str, method: str) -> None:
    if route.gives == (_EVENTS,):
        if _EVENTS not in accept.lower():
            raise _not_acceptable(route)
        return
    if not accept or "*/*" in accept or method == "HEAD":
        return
    offers = [offer.partition(";")[0].strip().lower() for offer in accept.split(",")]
    families = {returned.partition("/")[0] + "/*" for returned in route.gives}
    if not any(offer in route.gives or offer in families for offer in offers):
        raise _not_acceptable(route)


def _not_acceptable(route: Route) -> Refused:
    return Refused(406, "not_acceptable", f"this returns {' or '.join(route.gives)}: accept it")


async def _reject_socket(socket: WebSocket, scope: Scope, problem: WireError) -> None:
    if "websocket.http.response" in scope.get("extensions", {}):
        headers = {"content-type": "application/json"}
        await socket.send_denial_response(
            Response(problem.body(), status_code=problem.status, headers=headers)
        )
    else:
        await socket.close(code=1008)


def _log_error(error: BaseException, connection: HTTPConnection, more: HeaderList) -> None:
    scope = connection.scope
    _log.error(
        "internal error in a request",
        method=scope.get("method", "WEBSOCKET"),
        path=scope["path"],
        request_id=more[0][1].decode() if more else "",
        exc_info=error,
    )


async def _lifespan(receive: Receive, send: Send) -> None:
    """Acknowledge lifespan events: ``serve.py`` starts and ends the server."""
    while True:
        message: Any = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return
