"""Promise: a request without a valid token is refused by its head, before any of its body is read,
on every route but those that are open to all; what a handler checks itself comes after that."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from strandline.server.http.route import Route
from strandline.server.route_table import ROUTES
from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.asking import Asking, Refusal
from tests.server.running import Answered, Running, running

OPEN_TO_ALL = {
    "GET /",
    "GET /console/{file}",
    "GET /healthz",
    "GET /readyz",
    "GET /v0/health",
    "GET /v0/openapi.json",
    "GET /v0/ready",
    "WEBSOCKET /v0/ws",  # or the first message authenticates: test_ws_admission.py
}
SIZE = 1_000_000
"""Bytes of a body that is announced and never sent."""
HASTY = RequestLimits(receive_s_max=2.0)
AUTHORIZATIONS = {
    "none": "",
    "wrong": "Authorization: Bearer strand1_wrong\r\n",
    "user": f"Authorization: Basic {base64.b64encode(b'ada:wrong').decode()}\r\n",
}
BODY_ROUTES = [
    pytest.param(route, id=f"{route.method} {route.path}")
    for route in ROUTES
    if route.body is not None and route.method in ("POST", "PUT", "PATCH")
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = ServerSettings(limits=HASTY)
    path = tmp_path_factory.mktemp("admission")
    with running(path, settings=settings, tokens={"root": "all"}) as started:
        with Asking(started, "root") as root:
            root.post("/v0/topics/orders", {"records": [{"data": 1}]})
        yield started


def test_only_health_the_console_and_the_document_are_open_to_all():
    found = {f"{route.method} {route.path}" for route in ROUTES if route.is_public}

    assert found == OPEN_TO_ALL


@pytest.mark.parametrize("credentials", AUTHORIZATIONS)
@pytest.mark.parametrize("route", BODY_ROUTES)
def test_a_body_is_refused_by_its_head(server: Running, route: Route, credentials: str):
    server.on_loop(server.parts.auth.quotas.failures._levels.clear)

    answer = head_alone(server, route, AUTHORIZATIONS[credentials])

    assert answer.status == 401
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("size", [24, 100_000])
@pytest.mark.parametrize("credentials", AUTHORIZATIONS)
def test_the_hot_path_refuses_by_the_head_too(server: Running, credentials: str, size: int):
    server.on_loop(server.parts.auth.quotas.failures._levels.clear)
    before = server.store.topic("orders").head_seq

    with server.raw() as raw:
        raw.send(append_head(AUTHORIZATIONS[credentials], size))
        answer = raw.answer()

    assert answer.status == 401
    assert server.store.topic("orders").head_seq == before


def test_a_small_body_of_a_refused_request_leaves_the_connection_open(server: Running):
    with server.raw() as raw:
        for _ in range(3):
            raw.send(append_head("", 2) + b"{}")
            assert raw.answer().status == 401


def test_a_refused_body_that_comes_all_the_same_is_not_an_append(server: Running):
    body = b'{"records":[{"data":1}]}'
    authorization = f"Authorization: Bearer {server.tokens['root']}\r\n"
    before = server.store.topic("orders").head_seq

    with server.raw() as raw:
        raw.send(append_head("", len(body)))
        refused = raw.answer()
        raw.send(body + append_head(authorization, len(body)) + body)
        accepted = raw.answer()

    assert (refused.status, accepted.status) == (401, 200)
    assert server.store.topic("orders").head_seq == before + 1


@pytest.mark.parametrize("path", ["/v0/sql", "/v0/command", "/v0/watch"])
def test_texts_of_queries_are_small(server: Running, path: str):
    """Decoded, a body takes up to twenty times its bytes: with a token, too."""
    (route,) = [each for each in ROUTES if each.path == path]

    answer = head_alone(
        server, route, f"Authorization: Bearer {server.tokens['root']}\r\n", 5 << 20
    )

    assert answer.status == 413


def test_what_a_command_may_not_do_is_said_after_authentication(server: Running):
    """A route that looks for rights in its body keeps its own errors."""
    with Asking(server, "root") as root:
        with pytest.raises(Refusal) as syntax:
            root.post("/v0/command", {"command": "CREATE USER"})
        root.post("/v0/command", {"command": 'CREATE USER ada WITH KEY "correct horse"'})
        with pytest.raises(Refusal) as again:
            root.post("/v0/command", {"command": 'CREATE USER ada WITH KEY "correct horse"'})

    assert syntax.value.status == 400
    assert again.value.status == 409


def head_alone(server: Running, route: Route, authorization: str, size: int = SIZE) -> Answered:
    """The answer to the head of a request whose body never comes."""
    path = route.path
    for name in ("topic", "router", "id", "group", "member", "key", "alias", "wid", "event"):
        path = path.replace("{" + name + "}", "orders")
    with server.raw() as raw:
        raw.send(
            f"{route.method} {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}"
            f"Content-Type: {route.takes[0]}\r\nContent-Encoding: gzip\r\n"
            f"Content-Length: {size}\r\n\r\n".encode()
        )
        return raw.answer()


def append_head(authorization: str, size: int) -> bytes:
    return (
        f"POST /v0/topics/orders HTTP/1.1\r\nHost: localhost\r\n{authorization}"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()
