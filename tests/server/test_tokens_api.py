"""Promise: tokens are made, told once, rotated and revoked; nobody gives more than he has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from strandline.security.audit import TOPIC, verify
from strandline.security.scopes import parse
from tests.server.running import Running, running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, tokens={"root": "all", "clerk": "tokens;read:orders.*"}) as started:
        yield started


def ask(server: Running, method: str, path: str, token: str | None, **options) -> httpx2.Response:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return httpx2.request(method, server.url + path, headers=headers, timeout=30, **options)


def made(server: Running, by: str = "root", **wanted: object) -> dict:
    answer = ask(server, "POST", "/v0/tokens", server.tokens[by], json=wanted)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_token_that_was_made_works_and_its_text_is_never_told_again(server: Running):
    token = made(server, scopes="read:orders.*", principal="ci", label="nightly")

    who = ask(server, "GET", "/v0/whoami", token["token"]).json()
    listed = ask(server, "GET", "/v0/tokens", server.tokens["root"])

    assert (who["id"], who["name"], who["kind"]) == (token["info"]["id"], "ci", "token")
    assert who["scopes"] == "read:orders.*"
    assert token["token"].split("_", 2)[2][:43] not in listed.text
    assert [each["principal"] for each in listed.json()["tokens"]][-1] == "ci"
    assert listed.json()["tokens"][-1]["valid"]


def test_a_revoked_token_is_refused_from_the_next_request_on(server: Running):
    token = made(server, scopes="read")
    before = ask(server, "GET", "/v0/whoami", token["token"])

    gone = ask(server, "DELETE", f"/v0/tokens/{token['info']['id']}", server.tokens["root"])
    after = ask(server, "GET", "/v0/whoami", token["token"])

    assert (before.status_code, gone.status_code, after.status_code) == (200, 200, 401)
    assert gone.json()["revoked"]
    assert after.json()["error"]["code"] == "unauthorized"


def test_rotating_gives_another_and_both_work_for_a_while(server: Running):
    old = made(server, scopes="read", principal="ci")
    path = f"/v0/tokens/{old['info']['id']}/rotate"

    new = ask(server, "POST", path, server.tokens["root"], json={}).json()
    third = ask(server, "POST", path, server.tokens["root"], json={})

    for token in (old, new):
        assert ask(server, "GET", "/v0/whoami", token["token"]).json()["name"] == "ci"
    assert third.status_code == 409


def test_rotating_at_once_ends_the_old_one(server: Running):
    old = made(server, scopes="read")
    path = f"/v0/tokens/{old['info']['id']}/rotate"

    new = ask(server, "POST", path, server.tokens["root"], json={"grace_ms": 0}).json()

    assert ask(server, "GET", "/v0/whoami", old["token"]).status_code == 401
    assert ask(server, "GET", "/v0/whoami", new["token"]).status_code == 200


@pytest.mark.parametrize("scopes", ["all", "admin", "read", "read:order*", "write:orders.eu"])
def test_nobody_gives_away_what_he_does_not_have(server: Running, scopes: str):
    answer = ask(server, "POST", "/v0/tokens", server.tokens["clerk"], json={"scopes": scopes})

    assert answer.status_code == 403
    made(server, "clerk", scopes="read:orders.eu")


HELD = ["tokens", "tokens;read:orders.*", "tokens;all:orders.*", "all;deny write:orders.eu", "all"]


@pytest.mark.parametrize("action", ["create", "rotate", "revoke"])
@pytest.mark.parametrize("other", ["tokens", "read:orders.eu", "all:orders.*", "admin", "all"])
@pytest.mark.parametrize("held", HELD)
def test_a_token_changes_only_tokens_that_its_own_scopes_cover(
    server: Running, held: str, other: str, action: str
):
    holder = made(server, scopes=held)["token"]
    target = made(server, scopes=other)
    path = f"/v0/tokens/{target['info']['id']}"

    if action == "create":
        answer = ask(server, "POST", "/v0/tokens", holder, json={"scopes": other})
    elif action == "rotate":
        answer = ask(server, "POST", f"{path}/rotate", holder, json={})
    else:
        answer = ask(server, "DELETE", path, holder)

    covered = parse(held).cover(parse(other))
    assert answer.status_code == (403 if not covered else 200 if action == "revoke" else 201)
    still_valid = ask(server, "GET", "/v0/whoami", target["token"]).status_code == 200
    assert still_valid == (not covered or action != "revoke")


def test_a_token_revokes_itself(server: Running):
    own = made(server, scopes="tokens")

    answer = ask(server, "DELETE", f"/v0/tokens/{own['info']['id']}", own["token"])

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"scopes": ""},
        {"scopes": "everything"},
        {"scopes": "read", "valid_ms": 0},
        {"scopes": "read", "valid_ms": 400 * 86_400_000},
        {"scopes": "read", "label": "x" * 201},
        {"scopes": "read", "label": "two\nlines"},
        {"scopes": "read", "principal": "a b"},
        {"scopes": "read", "surprise": 1},
        {"scopes": 1},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(server: Running, wanted):
    answer = ask(server, "POST", "/v0/tokens", server.tokens["root"], json=wanted)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_request"


def test_an_unknown_token_cannot_be_revoked(server: Running):
    for method, path in (("DELETE", "/v0/tokens/nothing"), ("POST", "/v0/tokens/x/rotate")):
        assert ask(server, method, path, server.tokens["root"]).status_code == 404


def test_what_was_done_with_tokens_is_in_the_audit_log_and_no_secret(server: Running):
    token = made(server, scopes="read")
    ask(server, "POST", f"/v0/tokens/{token['info']['id']}/rotate", server.tokens["root"], json={})
    ask(server, "DELETE", f"/v0/tokens/{token['info']['id']}", server.tokens["root"])

    answer = ask(server, "GET", "/v0/audit", server.tokens["root"])
    kinds = [entry["kind"] for entry in answer.json()["entries"]]

    assert kinds == ["start", "token-created", "token-rotated", "token-revoked"]
    assert token["token"].split("_", 2)[2][:43] not in answer.text
    assert verify(server.store.existing_topic(TOPIC)).is_intact


def test_the_audit_log_comes_in_pages(server: Running):
    for _ in range(3):
        made(server, scopes="read")

    first = ask(server, "GET", "/v0/audit?limit=2", server.tokens["root"]).json()
    path = f"/v0/audit?from_seq={first['next_from_seq']}"
    rest = ask(server, "GET", path, server.tokens["root"]).json()

    numbers = [entry["number"] for entry in first["entries"] + rest["entries"]]
    assert (numbers, first["caught_up"], rest["caught_up"]) == ([1, 2, 3, 4], False, True)


def test_changes_of_topics_are_in_the_audit_log_with_who_and_where(server: Running):
    root = server.tokens["root"]
    ask(server, "PUT", "/v0/topics/orders", root, json={"ttl_ms": 1000})
    ask(server, "PUT", "/v0/topics/orders", server.tokens["clerk"], json={})
    ask(server, "POST", "/v0/topics/orders", root, json={"records": [{"data": 1}]})
    ask(server, "GET", "/v0/topics/orders", root)
    ask(server, "DELETE", "/v0/topics/orders", root)

    entries = ask(server, "GET", "/v0/audit", root).json()["entries"]
    requests = [entry for entry in entries if entry["kind"] == "request"]

    assert [(entry["what"]["method"], entry["what"]["path"]) for entry in requests] == [
        ("PUT", "/v0/topics/orders"),
        ("DELETE", "/v0/topics/orders"),
    ]
    assert {entry["who"] for entry in requests} == {root.split("_")[1]}
    assert {entry["address"] for entry in requests} == {"127.0.0.1"}


def test_on_an_open_server_the_first_token_must_be_able_to_make_others(tmp_path: Path):
    with running(tmp_path) as server:
        refused = ask(server, "POST", "/v0/tokens", None, json={"scopes": "read"})
        first = ask(server, "POST", "/v0/tokens", None, json={"scopes": "all"})
        closed = ask(server, "GET", "/v0/topics", None)
        again = ask(server, "POST", "/v0/tokens", None, json={"scopes": "all"})
        open_again = ask(server, "GET", "/v0/whoami", first.json()["token"])

    assert refused.status_code == 400
    assert first.status_code == 201
    assert (closed.status_code, again.status_code) == (401, 401)
    assert open_again.status_code == 200


def test_on_an_open_server_everybody_is_local(tmp_path: Path):
    with running(tmp_path) as server:
        who = ask(server, "GET", "/v0/whoami", None).json()

    assert (who["id"], who["scopes"], who["expires"]) == ("local", "all", None)
