"""Consumer groups over HTTP: members share a topic, each record is one member's at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.asking import Asking, Refusal
from tests.server.running import DEADLINE_S, Running, running

GROUP = "/v0/groups/orders/billing"
OPTIONS = ("mode", "lease_s", "deliveries_max", "window", "start")
WOKEN_S = 15.0
"""Who is woken only by the end of his wait is too late."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as server:
        server.store.topic("orders")
        yield server


@pytest.fixture
def http(server: Running) -> Iterator[Asking]:
    with Asking(server) as http:
        http.put(GROUP, {})
        yield http


class Member:
    """A member that has joined."""

    def __init__(self, http: Asking, name: str) -> None:
        self._http = http
        self.who = _only(http.post(f"{GROUP}/join", {"member": name}), "member", "incarnation")

    def read(self, count: int = 1, wait_ms: int = 0) -> list[dict[str, Any]]:
        ask = {**self.who, "max": count, "wait_ms": wait_ms}
        return self._http.post(f"{GROUP}/read", ask)["deliveries"]

    def settle(self, verb: str, *deliveries: dict[str, Any], **rest: object) -> dict[str, Any]:
        held = [{"seq": each["$seq"], "token": each["token"]} for each in deliveries]
        return self._http.post(f"{GROUP}/{verb}", {**self.who, "deliveries": held, **rest})


def _only(answer: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: answer[name] for name in names}


def test_members_share_the_records_and_what_is_acked_never_comes_again(
    server: Running, http: Asking
) -> None:
    server.store.topic("orders").append_many(
        [b'{"n":1}', b"\xff", b"3"], keys=[b"k", None, None], tags=["eu", None, None]
    )
    ada, bob = Member(http, "ada"), Member(http, "bob")

    first, second, third = *ada.read(2), *bob.read(5)
    done = ada.settle("ack", first, second)

    assert (first["data"], first["$key"], first["$tag"]) == ({"n": 1}, "k", "eu")
    assert first["$ts"] == first["$us"] // 1000
    assert second["data_base64"] == "/w=="
    assert third["$seq"] == 3
    assert (done["done"], done["skipped"]) == (2, [])
    assert http.get(f"{GROUP}/lag")["lag"] == 1
    assert ada.read(9) == []


def test_a_nack_has_it_delivered_again_and_a_late_ack_is_skipped(
    server: Running, http: Asking
) -> None:
    server.store.topic("orders").append(b"1")
    ada, bob = Member(http, "ada"), Member(http, "bob")
    (held,) = ada.read()

    nacked = ada.settle("nack", held)
    (again,) = bob.read()
    late = ada.settle("ack", held)
    extended = bob.settle("extend", again)

    assert nacked["done"] == 1
    assert again["deliveries"] == 2
    assert late["skipped"] == [1]
    assert extended["done"] == 1
    (pending,) = http.get(f"{GROUP}/pending")["pending"]
    assert (pending["seq"], pending["member"], pending["deliveries"]) == (1, "bob", 2)


def test_who_leaves_gives_back_what_he_holds_and_is_told_so_by_name(
    server: Running, http: Asking
) -> None:
    server.store.topic("orders").append(b"1")
    ada, bob = Member(http, "ada"), Member(http, "bob")
    ada.read()

    http.post(f"{GROUP}/leave", ada.who)

    assert [each["$seq"] for each in bob.read()] == [1]


def test_one_of_the_same_name_shuts_the_earlier_out(http: Asking) -> None:
    before = Member(http, "ada")
    Member(http, "ada")

    with pytest.raises(Refusal) as refusal:
        before.read()

    assert refusal.value.kind == "fenced"


def test_who_waits_gets_the_record_that_comes(server: Running, http: Asking) -> None:
    ada = Member(http, "ada")
    later = threading.Timer(0.05, lambda: server.store.topic("orders").append(b'"late"'))
    later.start()

    (found,) = ada.read(wait_ms=20_000)
    later.join(DEADLINE_S)

    assert found["data"] == "late"
    assert ada.read(wait_ms=20) == []


def test_who_waits_gets_what_another_gives_back(server: Running, http: Asking) -> None:
    server.store.topic("orders").append(b"1")
    http.send("DELETE", GROUP, None)
    http.put(GROUP, {"lease_s": 3600})
    ada, bob = Member(http, "ada"), Member(http, "bob")
    (held,) = ada.read()
    got: list[object] = []

    def wait() -> None:
        with Asking(server) as other:
            bob._http = other
            got.extend(bob.read(wait_ms=30_000))

    waiting = threading.Thread(target=wait)
    waiting.start()
    _until(lambda: bool(server.store.topic("orders")._state.waiters))
    ada.settle("nack", held)
    waiting.join(WOKEN_S)

    assert len(got) == 1


def test_a_group_is_moved_and_says_where_it_stands(server: Running, http: Asking) -> None:
    server.store.topic("orders").append_many([b"1", b"2", b"3"])
    ada = Member(http, "ada")
    ada.settle("ack", *ada.read(3))

    moved = http.post(f"{GROUP}/seek", {"to": 2})
    again = [each["$seq"] for each in ada.read(9)]
    http.post(f"{GROUP}/seek", {"to": "latest"})
    state = http.get(f"{GROUP}/statistics")

    assert moved["lag"] == 2
    assert again == [2, 3]
    assert (state["floor"], state["lag"], state["acked"], state["members"]) == (3, 0, 3, ["ada"])
    assert http.get(f"{GROUP}/gaps")["gaps"] == []
    for wrong in ({}, {"to": 99}, {"to": 1, "ts_us": 1}):
        with pytest.raises(Refusal) as refusal:
            http.post(f"{GROUP}/seek", wrong)
        assert refusal.value.status == 400


def test_what_fails_too_often_is_a_dead_letter(server: Running, http: Asking) -> None:
    server.store.topic("orders").append(b"1")
    http.send("DELETE", GROUP, None)
    http.put(GROUP, {"deliveries_max": 1, "mode": "exclusive"})
    ada = Member(http, "ada")

    ada.settle("nack", *ada.read())

    assert ada.read() == []
    assert server.store.topic("orders:billing:dead").head_seq == 1
    told = http.get(GROUP)
    assert (told["deliveries_max"], told["mode"]) == (1, "exclusive")


def test_options_of_a_group_that_has_members_stay(http: Asking) -> None:
    Member(http, "ada")

    with pytest.raises(Refusal) as refusal:
        http.put(GROUP, {"window": 5})

    assert refusal.value.status == 400


def test_altered_options_are_told_and_members_join_again(server: Running, http: Asking) -> None:
    server.store.topic("orders").append_many([b"1", b"2"])
    member = Member(http, "ada")
    member.read()

    told = http.send("PATCH", GROUP, {"window": 5, "mode": "exclusive"})

    assert (told["mode"], told["window"], told["deliveries_max"]) == ("exclusive", 5, 5)
    with pytest.raises(Refusal) as refusal:
        member.read()
    assert refusal.value.kind == "fenced"
    shown = http.put(GROUP, {}), http.get(GROUP)
    assert all(_only(each, *OPTIONS) == _only(told, *OPTIONS) for each in shown)
    assert [each["$seq"] for each in Member(http, "ada").read(9)] == [1, 2]


def test_one_request_settles_so_many_deliveries_at_most(server: Running, http: Asking) -> None:
    count_max = server.parts.settings.limits.claim_max
    server.store.topic("orders").append(b"1")
    member = Member(http, "ada")
    (found,) = member.read()

    for verb in ("ack", "nack", "extend"):
        with pytest.raises(Refusal) as refusal:
            member.settle(verb, *[found] * (count_max + 1))
        assert (refusal.value.status, refusal.value.code) == (400, "batch_too_large")
    assert len(http.get(f"{GROUP}/pending")["pending"]) == 1


def test_groups_are_listed_and_deleted(http: Asking) -> None:
    Member(http, "ada")

    assert http.get("/v0/groups/orders")["groups"] == ["billing"]
    assert http.send("DELETE", GROUP, None)["deleted"] is True
    assert http.get("/v0/groups/orders")["groups"] == []
    assert http.send("DELETE", GROUP, None)["deleted"] is False


def test_after_a_restart_a_member_joins_again_and_its_late_ack_counts_for_nothing(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as server, Asking(server) as http:
        server.store.topic("orders").append_many([b"1", b"2"])
        http.put(GROUP, {})
        before = Member(http, "ada")
        first, second = before.read(2)
        before.settle("ack", first)
    with running(tmp_path) as server, Asking(server) as http:
        before._http = http
        lag = http.get(f"{GROUP}/lag")["lag"]
        with pytest.raises(Refusal) as not_open:
            Member(http, "bob")
        http.put(GROUP, {})
        other = Member(http, "bob")
        (again,) = other.read(9)
        with pytest.raises(Refusal) as refusal:
            before.settle("ack", second)

    assert (lag, not_open.value.status) == (1, 404)
    assert refusal.value.kind == "fenced"
    assert (again["$seq"], again["token"]) == (2, 1)


def test_a_verb_never_makes_a_group(http: Asking) -> None:
    for path in ("/v0/groups/orders/other/lag", "/v0/groups/nothing/billing/lag"):
        with pytest.raises(Refusal) as refusal:
            http.get(path)
        assert refusal.value.status == 404


def test_a_member_needs_to_consume_and_to_read(tmp_path: Path) -> None:
    tokens = {"full": "consume,read:orders", "half": "consume:orders"}
    with running(tmp_path, tokens=tokens) as server:
        server.store.topic("orders").append(b"1")
        with Asking(server, "full") as full:
            full.put(GROUP, {})
            read = Member(full, "ada").read()
        with Asking(server, "half") as half, pytest.raises(Refusal) as refusal:
            Member(half, "bob").read()

    assert len(read) == 1
    assert refusal.value.status == 403


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
