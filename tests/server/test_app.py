"""The steps that every request takes: path, method, body, packing, errors in one form."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from strandline.api.error_codes import STATUS_OF
from strandline.server.http.route import OPEN, JsonResponse, Route
from strandline.server.http.url_router import UrlRouter
from strandline.server.route_table import ROUTES
from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.running import running
from tests.server.topics_face import Face

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    settings = ServerSettings(limits=RequestLimits(body_bytes_max=1_000_000))
    with (
        running(tmp_path_factory.mktemp("app"), settings=settings) as server,
        Face(server) as made,
    ):
        made.put("there")
        yield made


@pytest.mark.parametrize(
    "path", ["/v0", "/v0/", "/v0/nothing", "/v0/topics/", "/v0/topics/a/", "//v0/topics"]
)
def test_a_path_that_is_not_in_the_table_is_404(face, path):
    assert face.refused("GET", path)[:2] == (404, "not_found")


def test_a_method_that_a_path_does_not_have_is_405_and_names_those_it_has(face):
    answer = face.ask("PUT", "/v0/topics/there/diff", {})

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_head_is_get_without_a_body(face):
    answer = face.client.head("/v0/topics/there")

    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_a_stream_has_no_head(face):
    assert face.client.head("/v0/watch/none").status_code == 405


def test_a_large_answer_is_packed_too(face):
    face.append("very-long", *["x" * 1000] * 200)

    answer = face.ask("POST", "/v0/topics/very-long/diff", {}, headers={"accept-encoding": "gzip"})

    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.json()["records"]) == 200


def test_a_large_packed_body_is_unpacked(face):
    records = ",".join(['{"data":"%s"}' % ("x" * 1000)] * 400)
    packed = gzip.compress(f'{{"records":[{records}]}}'.encode())

    answer = face.client.post(
        "/v0/topics/large", content=packed, headers={**JSON, "content-encoding": "gzip"}
    )

    assert answer.json()["count"] == 400


def test_every_answer_has_a_request_id_of_its_own(face):
    ids = {face.ask("GET", path).headers["x-request-id"] for path in ["/v0/health"] * 2 + ["/no"]}

    assert len(ids) == 3


def test_answers_are_not_kept_by_caches_nor_guessed_at(face):
    headers = face.ask("GET", "/v0/topics/there").headers

    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_of_another_type_is_415(face, kind):
    answer = face.client.post(
        "/v0/topics/there", content=b'{"records":[{"data":1}]}', headers={"content-type": kind}
    )

    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "unsupported_media_type"


def test_parameters_of_a_type_do_not_matter(face):
    answer = face.client.post(
        "/v0/topics/there",
        content=b'{"records":[{"data":1}]}',
        headers={"content-type": "Application/JSON; charset=utf-8"},
    )

    assert answer.status_code == 200


def test_an_empty_body_is_an_empty_object(face):
    assert face.client.post("/v0/topics/there/diff").status_code == 200


def test_a_packed_body_is_unpacked(face):
    packed = gzip.compress(b'{"records":[{"data":"packed"}]}')

    answer = face.client.post(
        "/v0/topics/there", content=packed, headers={**JSON, "content-encoding": "gzip"}
    )

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (b"not gzip", "gzip", 400),
        (gzip.compress(b"{}")[:-4], "gzip", 400),
        (gzip.compress(b"{}") + b"more", "gzip", 400),
        (b"{}", "br", 415),
        (b"{}", "gzip, gzip", 415),
    ],
    # Not by their bytes, which tell the time: all processes must collect the same names.
    ids=["not gzip", "cut off", "more behind", "another coding", "twice"],
)
def test_a_body_that_cannot_be_unpacked_is_refused(face, body, encoding, status):
    answer = face.client.post(
        "/v0/topics/there/diff", content=body, headers={**JSON, "content-encoding": encoding}
    )

    assert answer.status_code == status


def test_a_body_that_is_too_long_is_413(face):
    answer = face.client.post("/v0/topics/there", content=b" " * 1_000_001, headers=JSON)

    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    assert answer.json()["error"]["detail"] == {"limit": "body_bytes_max", "max": 1_000_000}


def test_a_body_that_does_not_tell_its_length_is_counted(face):
    def pieces() -> Iterator[bytes]:
        for _ in range(11):
            yield b" " * 100_000

    answer = face.client.post("/v0/topics/there", content=pieces(), headers=JSON)

    assert answer.status_code == 413


def test_a_small_body_that_unpacks_to_a_huge_one_is_413(face):
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000

    answer = face.client.post(
        "/v0/topics/there", content=bomb, headers={**JSON, "content-encoding": "gzip"}
    )

    assert answer.status_code == 413


def test_long_answers_are_packed_for_who_takes_it(face):
    face.append("long", *["x" * 100] * 50)

    packed = face.ask("POST", "/v0/topics/long/diff", {}, headers={"accept-encoding": "gzip"})
    plain = face.ask("POST", "/v0/topics/long/diff", {}, headers={"accept-encoding": "identity"})
    refused = face.ask("POST", "/v0/topics/long/diff", {}, headers={"accept-encoding": "gzip;q=0"})

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in refused.headers
    assert packed.json()["records"] == plain.json()["records"]
    assert "accept-encoding" in plain.headers["vary"]


def test_short_answers_are_not_packed(face):
    answer = face.ask("GET", "/v0/health", headers={"accept-encoding": "gzip"})

    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("query", ["touch=maybe", "tuch=true", "touch=true&touch=true", "a=%FF"])
def test_a_wrong_query_is_refused(face, query):
    assert face.refused("GET", f"/v0/topics/there?{query}")[:2] == (400, "invalid_request")


def test_an_answer_that_the_client_does_not_take_is_406(face):
    refused = face.refused("GET", "/v0/topics/there", headers={"accept": "image/png"})

    assert refused[:2] == (406, "not_acceptable")


@pytest.mark.parametrize("accept", ["*/*", "application/*", "text/html, application/json;q=0.5"])
def test_accept_may_be_wide(face, accept):
    assert face.ask("GET", "/v0/topics/there", headers={"accept": accept}).status_code == 200


def test_a_bug_is_500_without_its_words_and_the_server_goes_on(face, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("the secret is swordfish")

    monkeypatch.setattr(face.server.parts.store, "topics", broken)
    answer = face.ask("GET", "/v0/topics")
    monkeypatch.undo()

    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "swordfish" not in answer.text
    assert face.ask("GET", "/v0/topics").status_code == 200


def test_a_server_that_goes_down_takes_no_more_requests(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        server.on_loop(lambda: setattr(server.parts, "draining", True))
        refused = face.ask("GET", "/v0/topics")
        ready = face.refused("GET", "/v0/ready")
        alive = face.ask("GET", "/v0/health")

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert int(refused.headers["retry-after"]) >= 1
    assert ready[:2] == (503, "shutting_down")
    assert alive.status_code == 200


def test_every_code_that_a_route_names_has_a_status():
    named = {code for route in ROUTES for code in route.errors}

    assert named <= set(STATUS_OF)


def test_a_name_in_a_path_is_unpacked_by_itself():
    paths = UrlRouter([_route("/v0/kv/{topic}/{key}"), _route("/v0/kv/{topic}/all")])

    slash = paths.find(b"/v0/kv/t/a%2Fb%20%C3%A9")
    plain = paths.find(b"/v0/kv/t/all")

    assert slash is not None
    assert plain is not None
    assert slash.names == {"topic": "t", "key": "a/b é"}
    assert plain.names == {"topic": "t"}


def test_no_name_is_empty_and_nothing_is_collapsed():
    paths = UrlRouter([_route("/v0/kv/{topic}/{key}")])

    assert [paths.find(path) for path in (b"/v0/kv//k", b"/v0//kv/t/k", b"/v0/kv/t/k/")] == [
        None
    ] * 3


def test_two_routes_of_one_method_and_path_are_a_mistake():
    with pytest.raises(ValueError, match="twice"):
        UrlRouter([_route("/a/{b}"), _route("/a/{b}")])


def _route(path: str) -> Route:
    async def handler(_: object) -> JsonResponse:
        return JsonResponse({})

    return Route(method="GET", path=path, handler=handler, needs=OPEN, summary="a route")
