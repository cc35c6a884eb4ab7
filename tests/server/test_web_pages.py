"""Promise: no page of a stranger reaches a server on loopback, and no stranger guesses his way in.

DNS rebinding, plain forms, pages that fetch, cross-site WebSockets; wrong tokens again and again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from strandline.security.audit import TOPIC, decode
from strandline.server.settings import ServerSettings
from tests.server.running import DEADLINE_S, Running, running
from tests.unit.store.world import read_all

RECORD = msgspec.json.encode({"records": [{"data": "planted"}]})
JSON = {"content-type": "application/json"}
APP = "https://app.example"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """A server without tokens: everybody on this machine may do everything."""
    with running(tmp_path, settings=ServerSettings(origins=(APP,))) as started:
        started.store.topic("orders")
        yield started


def post(server: Running, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(f"{server.url}/v0/topics/orders", content=RECORD, headers=named)


def planted(server: Running) -> int:
    return server.store.topic("orders").head_seq


def test_a_plain_program_on_this_machine_may(server: Running):
    assert post(server, **JSON).status_code in (200, 201)
    assert planted(server) == 1


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4000", "127.0.0.1.evil.example"])
@pytest.mark.parametrize("path", ["/v0/topics", "/v0/health", "/nothing", "/v0/tokens"])
def test_a_name_that_was_bent_to_this_machine_is_refused_everywhere(
    server: Running, host: str, path: str
):
    got = httpx2.get(server.url + path, headers={"host": host})
    put = httpx2.post(server.url + path, headers={"host": host} | JSON, content=b"{}")

    assert (got.status_code, put.status_code) == (421, 421)
    assert post(server, host=host, **JSON).status_code == 421
    assert planted(server) == 0


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "file://"])
def test_a_page_of_elsewhere_is_refused_also_with_json(server: Running, origin: str):
    fetched = post(server, origin=origin, **JSON)
    simple = post(server, origin=origin, content_type="text/plain")
    asked = httpx2.options(
        f"{server.url}/v0/topics/orders",
        headers={"origin": origin, "access-control-request-method": "POST"},
    )

    assert {fetched.status_code, simple.status_code, asked.status_code} == {403}
    assert "access-control-allow-origin" not in fetched.headers
    assert planted(server) == 0


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
)
def test_a_plain_form_changes_nothing_even_without_an_origin(server: Running, media_type: str):
    answer = post(server, content_type=media_type)

    assert answer.status_code == 415
    assert planted(server) == 0


def test_a_page_that_the_operator_named_may_ask_and_its_browser_is_told(server: Running):
    answer = post(server, origin=APP, **JSON)
    asked = httpx2.options(
        f"{server.url}/v0/topics/orders",
        headers={"origin": APP, "access-control-request-method": "POST"},
    )

    assert answer.headers["access-control-allow-origin"] == APP
    assert asked.status_code == 204
    assert "access-control-allow-credentials" not in asked.headers
    assert planted(server) == 1


def test_its_own_pages_may_ask(server: Running):
    assert post(server, origin=server.url, **JSON).status_code in (200, 201)


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}], ids=str
)
def test_a_websocket_of_a_page_of_elsewhere_is_refused(server: Running, headers):
    url = server.url.replace("http", "ws", 1) + "/v0/ws"

    with pytest.raises(InvalidStatus) as caught:
        connect(url, additional_headers=headers, open_timeout=DEADLINE_S)

    assert caught.value.response.status_code == 403


def test_a_websocket_under_a_name_that_was_bent_is_refused(server: Running):
    with server.raw() as raw:
        raw.send(
            b"GET /v0/ws HTTP/1.1\r\nHost: evil.example\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )

        assert raw.answer().status == 421


@pytest.mark.parametrize(
    "path", ["/v0/health", "/v0/topics/orders", "/v0/ready", "/v0/metrics", "/v0/openapi.json"]
)
def test_no_answer_may_be_taken_for_anything_else_by_a_browser(server: Running, path: str):
    answer = httpx2.get(server.url + path)

    assert answer.headers["x-content-type-options"] == "nosniff"


def test_whoever_guesses_is_told_to_wait_and_the_owner_gets_in(tmp_path: Path):
    with running(tmp_path, tokens={"root": "all"}) as server:
        guesses = [
            httpx2.get(
                f"{server.url}/v0/topics",
                headers={"authorization": f"Bearer strand1_{secrets.token_urlsafe(44)}"},
            )
            for _ in range(15)
        ]
        owner = httpx2.get(
            f"{server.url}/v0/topics",
            headers={"authorization": f"Bearer {server.tokens['root']}"},
        )
        hot = [
            httpx2.post(
                f"{server.url}/v0/topics/orders",
                content=RECORD,
                headers=JSON | {"authorization": "Bearer wrong"},
            )
            for _ in range(2)
        ]
        server.store.sync()
        entries = [decode(record) for record in read_all(server.store.existing_topic(TOPIC))]

    assert [guess.status_code for guess in guesses] == [401] * 10 + [429] * 5
    assert int(guesses[-1].headers["retry-after"]) >= 1
    assert owner.status_code == 200
    assert {answer.status_code for answer in hot} == {429}
    assert [entry.kind for entry in entries].count("locked-out") == 1


def test_who_may_not_and_what_is_not_there_look_the_same(tmp_path: Path):
    with running(tmp_path, tokens={"guest": "read:other"}) as server:
        server.store.topic("orders")
        headers = {"authorization": f"Bearer {server.tokens['guest']}"}
        answers = [
            httpx2.get(f"{server.url}/v0/topics/{name}", headers=headers)
            for name in ("orders", "nothing")
        ]
        strangers = [httpx2.get(f"{server.url}/v0/topics/{name}") for name in ("orders", "nothing")]

    said = [answer.text.replace("nothing", "orders") for answer in answers + strangers]
    assert [answer.status_code for answer in answers + strangers] == [403, 403, 401, 401]
    assert said[0] == said[1]
    assert said[2] == said[3]
