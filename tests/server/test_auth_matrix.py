"""Promise: every route asks who it is and whether he may, before anything else of it happens.

Generated from the table of routes: whoever adds a route has it here. A route without needs must be
in ``OPEN_ROUTES`` with the reason, and with a test of what its handler asks for.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator

import httpx2
import pytest

from strandline.platform.clock import SystemClock
from strandline.platform.disk import OsDisk
from strandline.security.scopes import parse
from strandline.security.token_store import TokenStore
from strandline.server.http.route import Route
from strandline.server.route_table import ROUTES
from tests.server.running import Running, running

OPEN_ROUTES = {
    "GET /v0/health": "tells nothing",
    "GET /healthz": "tells nothing",
    "GET /v0/ready": "tells nothing",
    "GET /readyz": "tells nothing",
    "GET /v0/openapi.json": "the same for everybody",
    "GET /": "the same for everybody",
    "GET /console/{file}": "the same for everybody",
    "GET /v0/whoami": "about the asker himself",
    "POST /v0/tickets": "about the asker himself",
    "GET /v0/topics": "shows what the asker may read",
    "GET /v0/views": "shows what the asker may read",
    "GET /v0/routers": "shows those of whose topics the asker may read both",
    "GET /v0/remembered": "shows those whose events the asker may read",
    "PUT /v0/routers/{router}": "topics are in the body",
    "GET /v0/routers/{router}": "topics are in what is kept",
    "DELETE /v0/routers/{router}": "topics are in what is kept",
    "GET /v0/remembered/{alias}": "events are in what is kept",
    "GET /v0/remembered/{alias}/follow": "events are in what is kept",
    "POST /v0/command": "events are in the text",
    "POST /v0/sql": "topics are in the text",
    "POST /v0/watch": "topics are in the body",
    "GET /v0/watch/{wid}": "bound to whoever made it",
    "DELETE /v0/watch/{wid}": "bound to whoever made it",
    "WEBSOCKET /v0/ws": "topics are in the messages",
}
FOR_ANYBODY = ("tells nothing", "the same for everybody")
TOPIC = "orders"
DENIED = (401, 403)
KNOWN_BAD = ["wrong", "mistyped", "expired", "revoked", "early", "no-scheme", "user-wrong"]

by_name = {f"{route.method} {route.path}": route for route in ROUTES}
guarded = [pytest.param(route, id=name) for name, route in by_name.items() if route.needs]
closed = [
    pytest.param(route, id=name)
    for name, route in by_name.items()
    if not route.is_public and route.method != "WEBSOCKET"
]
anybody = [name for name, reason in OPEN_ROUTES.items() if reason in FOR_ANYBODY]
http = [pytest.param(r, id=name) for name, r in by_name.items() if r.method != "WEBSOCKET"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("matrix"), tokens={"root": "all"}) as started:
        users = started.store.queries.users
        users.create("ada", key="correct horse", roles=("read-only",))
        users.create("boss", key="battery staple", roles=("admin",))
        yield started


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, timeout=30) as made:
        yield made


@pytest.fixture(scope="module")
def bad(server: Running) -> dict[str, str]:
    """Headers that let nobody in."""
    registry = _registry(server)
    everything, now_us = parse("all"), SystemClock().now_us()
    expired = registry.create(scopes=everything, creator="test", valid_us=1).text
    revoked = registry.create(scopes=everything, creator="test")
    registry.revoke(revoked.token.id)
    later = registry.create(scopes=everything, creator="test", not_before_us=now_us + 10**12).text
    right = server.tokens["root"]
    return {
        "wrong": f"Bearer {_with_another_secret(server)}",
        "mistyped": f"Bearer {right[:-1]}{'A' if right[-1] != 'A' else 'B'}",
        "expired": f"Bearer {expired}",
        "revoked": f"Bearer {revoked.text}",
        "early": f"Bearer {later}",
        "no-scheme": right,
        "user-wrong": _basic("boss", "wrong key"),
    }


def test_every_route_says_what_it_needs_or_why_nothing():
    silent = {name for name, route in by_name.items() if not route.needs}

    assert silent == set(OPEN_ROUTES)
    assert all(need.parameter in _names(route) for route in ROUTES for need in route.needs)


def test_no_route_takes_what_a_plain_form_can_send():
    simple = {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""}

    assert [name for name, route in by_name.items() if simple & set(route.takes)] == []


def test_every_route_that_changes_something_needs_more_than_to_read():
    reads = {"read", "metrics"}
    harmless = ("diff", "pick", "get", "mget", "history", "scan", "wait", "json_get", "range")
    harmless += ("window", "visit", "latest", "earliest", "query", "read", "aggregate", "series")
    harmless += ("check", "rows", "changes", "search")

    careless = [
        name
        for name, route in by_name.items()
        if route.needs
        and route.method not in ("GET", "HEAD", "WEBSOCKET")
        and {need.action for need in route.needs} <= reads
        and route.path.rpartition("/")[2] not in harmless
    ]

    assert careless == []


@pytest.mark.parametrize("route", closed)
def test_nobody_gets_in_without_a_token(client: httpx2.Client, route: Route):
    assert _status(client, route) == 401


@pytest.mark.parametrize("kind", KNOWN_BAD)
@pytest.mark.parametrize("route", http)
def test_nobody_gets_in_with_a_token_that_is_not_valid(client, server, bad, route: Route, kind):
    server.on_loop(server.parts.auth.quotas.failures._levels.clear)

    assert _status(client, route, bad[kind]) == 401


@pytest.mark.parametrize("route", guarded)
def test_a_token_of_another_prefix_is_refused(client, server, route: Route):
    assert _status(client, route, _header(server, "all:other.*")) == 403


@pytest.mark.parametrize("route", guarded)
def test_a_token_that_may_only_read_may_only_read(client, server, route: Route):
    only_reads = all(need.action == "read" for need in route.needs)

    status = _status(client, route, _header(server, f"read:{TOPIC}"))

    assert (status == 403) == (not only_reads)
    assert status != 401


@pytest.mark.parametrize("route", guarded)
def test_a_token_with_exactly_what_is_needed_gets_in(client, server, route: Route):
    if route.method == "PUT":
        server.store.delete_topic(TOPIC)  # to change it would need more
    else:
        server.store.topic(TOPIC)  # to make it would need more

    assert _status(client, route, _header(server, _exactly(route))) not in DENIED


@pytest.mark.parametrize("route", guarded)
def test_each_need_is_needed(client, server, route: Route):
    for need in route.needs:
        less = f"all;deny {need.action}" + (f":{TOPIC}" if need.parameter else "")

        assert _status(client, route, _header(server, less)) == 403


@pytest.mark.parametrize("route", http)
def test_a_token_for_everything_gets_in_everywhere(client, server, route: Route):
    assert _status(client, route, f"Bearer {server.tokens['root']}") not in DENIED


@pytest.mark.parametrize("route", guarded)
def test_users_do_what_their_roles_say(client, server, route: Route):
    only_reads = all(need.action == "read" for need in route.needs)

    boss = _status(client, route, _basic("boss", "battery staple"))
    ada = _status(client, route, _basic("ada", "correct horse"))

    assert boss not in DENIED
    assert (ada == 403) == (not only_reads)


@pytest.mark.parametrize("topic", ["strandline.tokens", "strandline.audit", "strandline.users"])
@pytest.mark.parametrize(
    "route", [r for r in guarded if any(need.parameter for need in r.values[0].needs)]
)
def test_the_servers_own_topics_are_changed_by_nobody(client, server, route: Route, topic: str):
    only_reads = all(need.action == "read" for need in route.needs)

    status = _status(client, route, f"Bearer {server.tokens['root']}", topic=topic)

    assert (status == 403) == (not only_reads)
    assert _status(client, route, _header(server, "read,write"), topic=topic) == 403


@pytest.mark.parametrize("route", [each for each in http if each.id not in anybody])
def test_a_token_in_the_address_lets_nobody_in(client, server, route: Route):
    assert _status(client, route, query={"token": server.tokens["root"]}) == 401


@pytest.mark.parametrize(
    ("scopes", "status"),
    [
        (f"write:{TOPIC}", 200),
        ("write", 200),
        ("all", 200),
        ("read", 403),
        ("write:other.*", 403),
        (f"all;deny write:{TOPIC}", 403),
    ],
)
def test_the_quick_way_for_appends_decides_alike(client, server, scopes: str, status: int):
    server.store.topic(TOPIC)

    assert _append(client, _header(server, scopes)) == (status, status)


@pytest.mark.parametrize("kind", KNOWN_BAD)
def test_the_quick_way_for_appends_lets_nobody_in(client, server, bad, kind: str):
    server.on_loop(server.parts.auth.quotas.failures._levels.clear)
    before = server.store.topic(TOPIC).head_seq

    assert _append(client, bad[kind]) == (401, 401)
    assert _append(client, None) == (401, 401)
    assert server.store.topic(TOPIC).head_seq == before


def _append(client: httpx2.Client, authorization: str | None) -> tuple[int, int]:
    """Status of an append that takes the quick way, and of one that needs the whole application."""
    headers = {"content-type": "application/json", "accept": "*/*"}
    if authorization is not None:
        headers["authorization"] = authorization
    body = b'{"records":[{"data":1}]}'
    quick = client.post(f"/v0/topics/{TOPIC}", content=body, headers=headers)
    slow = client.post(
        f"/v0/topics/{TOPIC}",
        content=gzip.compress(body),
        headers=headers | {"content-encoding": "gzip"},
    )
    return quick.status_code, slow.status_code


def test_a_path_that_is_not_there_tells_nothing_either(client: httpx2.Client):
    assert client.get("/v0/topics/orders/nothing").status_code in (401, 404)
    assert client.get("/nothing").status_code in (401, 404)


def _status(
    client: httpx2.Client,
    route: Route,
    authorization: str | None = None,
    *,
    topic: str = TOPIC,
    query: dict[str, str] | None = None,
) -> int:
    return _ask(client, route, authorization, topic=topic, query=query)[0]


def _ask(
    client: httpx2.Client,
    route: Route,
    authorization: str | None,
    *,
    topic: str = TOPIC,
    query: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Status and text of the answer to a request with an empty body. Streams are not read."""
    named = {need.parameter for need in route.needs if need.parameter}
    values = {name: topic if name in named else "aaaaaaaaaaaa" for name in _names(route) - {""}}
    headers = {} if authorization is None else {"authorization": authorization}
    path = route.path.format(**values)
    with client.stream(route.method, path, headers=headers, params=query or {}) as answer:
        streams = answer.headers.get("content-type", "").startswith("text/event-stream")
        text = "" if streams else answer.read().decode(errors="replace")
        return answer.status_code, text


def _names(route: Route) -> set[str]:
    parts = [part for part in route.path.split("/") if part.startswith("{")]
    return {"", *(part.strip("{}") for part in parts)}


def _exactly(route: Route) -> str:
    return ";".join(need.action + (f":{TOPIC}" if need.parameter else "") for need in route.needs)


_headers: dict[tuple[int, str], str] = {}


def _header(server: Running, scopes: str) -> str:
    key = (id(server), scopes)
    if key not in _headers:
        made = _registry(server).create(scopes=parse(scopes), creator="test")
        _headers[key] = f"Bearer {made.text}"
    return _headers[key]


def _registry(server: Running) -> TokenStore:
    return TokenStore(server.store, SystemClock(), OsDisk().random_id)


def _with_another_secret(server: Running) -> str:
    """A token whose form is right, with an id that is known and a secret that is not."""
    from strandline.security import tokens

    given = tokens.split_token(server.tokens["root"])
    said = f"{tokens.PREFIX}_{given.id}_{'A' * 43}"
    return f"{said}_{tokens._checksum(said)}"


def _basic(user: str, key: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{key}".encode()).decode()
