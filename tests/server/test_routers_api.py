"""Routers over HTTP: made, shown, listed in pages and deleted by who may, and they forward."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.asking import Asking, Refusal
from tests.server.running import DEADLINE_S, Running, running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        server.store.topic("orders")
        yield server


@pytest.fixture
def http(server: Running) -> Iterator[Asking]:
    with Asking(server) as http:
        yield http


def _body(dest: str = "orders-eu", **options: object) -> dict[str, object]:
    return {"source": "orders", "dest": dest, **options}


def test_a_router_is_made_with_201_and_changed_with_200(http: Asking):
    def put(**options: object):
        body = _body(**options)
        answer = http.raw("PUT", "/v0/routers/eu", *_json(body))
        return answer.status_code, answer.json()

    made, told = put(filter=["tag", "Eq", "eu"])
    changed, again = put(filter="eu*", guarantee="exactly_once")

    assert (made, changed) == (201, 200)
    assert {name: told[name] for name in told if name != "performance"} == {
        "router": "eu",
        "created": True,
        "source": "orders",
        "dest": "orders-eu",
        "preserve_node": True,
        "preserve_tag": True,
        "create_dest": True,
        "filter": ["tag", "Eq", "eu"],
        "allow_cycle": False,
        "guarantee": "at_least_once",
        "start": "latest",
    }
    assert (again["created"], again["filter"]) == (False, ["tag", "Glob", "eu*"])


def _json(body: object) -> tuple[bytes, dict[str, str]]:
    return msgspec.json.encode(body), {"content-type": "application/json"}


def test_what_is_appended_arrives_and_is_counted(http: Asking, server: Running):
    http.put("/v0/routers/eu", _body(filter=["tag", "Glob", "eu*"]))
    records = [{"data": 1, "tag": "eu"}, {"data": 2, "tag": "us"}, {"data": 3, "tag": "eu-w"}]

    http.post("/v0/topics/orders", {"records": records})
    arrived = server.store.topic("orders-eu").wait_for(1, DEADLINE_S)
    shown = http.get("/v0/routers/eu")

    assert arrived
    assert server.store.topic("orders-eu").read().data == [b"1", b"3"]
    assert (shown["forwarded_total"], shown["lag"], shown["held"]) == (2, 0, None)


def test_routers_are_listed_in_pages(http: Asking):
    for number in range(5):
        http.put(f"/v0/routers/r{number}", _body(f"copy-{number}"))
    http.put("/v0/routers/other", {"source": "copy-0", "dest": "end"})

    pages, cursor = [], ""
    while True:
        told = http.get("/v0/routers", prefix="r", page_size=2, cursor=cursor)
        pages.append([each["router"] for each in told["routers"]])
        cursor = told.get("next_cursor", "")
        if not cursor:
            break
    of_source = http.get("/v0/routers", source="copy-0")["routers"]
    of_dest = http.get("/v0/routers", dest="copy-3")["routers"]

    assert pages == [["r0", "r1"], ["r2", "r3"], ["r4"]]
    assert [each["router"] for each in of_source] == ["other"]
    assert [each["router"] for each in of_dest] == ["r3"]


def test_a_deleted_router_is_gone(http: Asking):
    http.put("/v0/routers/a>b", _body())

    first = http.send("DELETE", "/v0/routers/a>b", None)
    second = http.send("DELETE", "/v0/routers/a>b", None)

    assert (first["deleted"], second["deleted"]) == (True, False)
    with pytest.raises(Refusal) as caught:
        http.get("/v0/routers/a>b")
    assert (caught.value.status, caught.value.code) == (404, "router_not_found")


def _refused(http: Asking, name: str, body: object) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        http.put(f"/v0/routers/{name}", body)
    return caught.value.status, caught.value.code


def test_what_cannot_be_is_refused_with_its_code(http: Asking, server: Running):
    server.store.topic("second")
    http.put("/v0/routers/a", _body("b"))

    assert _refused(http, "c", {"source": "b", "dest": "orders"}) == (409, "router_cycle")
    assert _refused(http, "c", {"source": "second", "dest": "b"}) == (
        409,
        "topic_exists_incompatible",
    )
    assert _refused(http, "c", {"source": "nowhere", "dest": "x"}) == (404, "topic_not_found")
    assert _refused(http, "c", _body("x", create_dest=False)) == (404, "topic_not_found")
    assert _refused(http, "c", _body("orders")) == (400, "invalid_request")
    assert _refused(http, "c", {"source": "orders"}) == (400, "invalid_request")
    assert _refused(http, "c", _body("x", filter=["tag", "Like", "y"])) == (400, "invalid_request")
    assert _refused(http, "c", _body("x", filter=["tag", "Glob", "y"])) == (400, "invalid_request")
    assert _refused(http, "c", _body("x", speed=1)) == (400, "invalid_request")
    assert _refused(http, "c!", _body("x")) == (400, "invalid_request")


def test_a_wrong_cursor_is_refused(http: Asking):
    with pytest.raises(Refusal) as caught:
        http.get("/v0/routers", cursor="_w")

    assert (caught.value.status, caught.value.code) == (400, "invalid_request")


def test_with_a_topic_its_routers_are_told_to_be_gone(http: Asking):
    http.put("/v0/routers/a", _body("b"))

    told = http.send("DELETE", "/v0/topics/b", None)

    assert told["routers_removed"] == ["a"]
    assert http.get("/v0/routers")["routers"] == []


SCOPES = {
    "both": "read:orders;read,write,config,create:copy",
    "source": "read:orders",
    "writer": "read:orders;write:copy",
    "maker": "read:orders;write,config:copy",
}


def test_who_makes_a_router_needs_rights_on_both_topics(tmp_path: Path):
    with running(tmp_path, tokens=SCOPES) as server:
        server.store.topic("orders")
        for name in ("source", "writer", "maker"):
            with Asking(server, name) as http:
                assert _refused(http, "r", _body("copy")) == (403, "forbidden")
        with Asking(server, "both") as http:
            assert http.put("/v0/routers/r", _body("copy"))["created"]
            assert _refused(http, "s", _body("elsewhere")) == (403, "forbidden")


def test_a_router_is_shown_to_who_may_read_both_topics_and_to_nobody_else(tmp_path: Path):
    with running(tmp_path, tokens=SCOPES) as server:
        server.store.topic("orders")
        server.store.routers.put("r", source="orders", dest="copy")
        with Asking(server, "both") as http:
            assert [each["router"] for each in http.get("/v0/routers")["routers"]] == ["r"]
            assert http.get("/v0/routers/r")["source"] == "orders"
        with Asking(server, "source") as http:
            assert http.get("/v0/routers")["routers"] == []
            with pytest.raises(Refusal, match="404"):
                http.get("/v0/routers/r")
            assert not http.send("DELETE", "/v0/routers/r", None)["deleted"]
        with Asking(server) as http:
            for method, path in (("GET", "/v0/routers"), ("GET", "/v0/routers/r")):
                with pytest.raises(Refusal, match="401"):
                    http.send(method, path, None)
            with pytest.raises(Refusal, match="401"):
                http.send("DELETE", "/v0/routers/r", None)
        assert server.store.routers.of_topic("copy") == ["r"]


def test_a_server_with_all_its_routers_makes_no_more(tmp_path: Path):
    settings = ServerSettings(limits=RequestLimits(routers_max=1))
    with running(tmp_path, settings=settings) as server, Asking(server) as http:
        server.store.topic("orders")
        made = http.raw("PUT", "/v0/routers/eu", *_json(_body()))
        with pytest.raises(Refusal) as too_many:
            http.raw("PUT", "/v0/routers/us", *_json(_body("orders-us")))
        changed = http.raw("PUT", "/v0/routers/eu", *_json(_body(filter="eu")))
        topics = server.store.topics("orders")

    assert [made.status_code, too_many.value.status, changed.status_code] == [201, 429, 200]
    assert "1 routers, the limit (routers_max)" in too_many.value.message
    assert topics == ["orders", "orders-eu"]


def test_a_dest_counts_as_a_topic_that_a_client_makes(tmp_path: Path):
    settings = ServerSettings(limits=RequestLimits(topics_max=2))
    with running(tmp_path, settings=settings) as server, Asking(server) as http:
        server.store.topic("orders")
        http.raw("PUT", "/v0/routers/eu", *_json(_body()))
        with pytest.raises(Refusal) as too_many:
            http.raw("PUT", "/v0/routers/us", *_json(_body("orders-us")))
        http.raw("PUT", "/v0/routers/eu2", *_json(_body(filter="2")))
        routers = [each.router.name for each in server.store.routers.list()]

    assert too_many.value.status == 429
    assert "2 topics, the limit (topics_max)" in too_many.value.message
    assert routers == ["eu", "eu2"]
