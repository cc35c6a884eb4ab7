"""Promise: views and routers are made, altered, listed and forwarded by a server as by a store."""

from __future__ import annotations

import time

import pytest

from strandline import (
    Conflict,
    Invalid,
    NotFound,
    StrandlineError,
    UnknownRouter,
    UnknownTopic,
)
from strandline.config.memory_budget import ShareUse
from strandline.routers.definition import Router
from strandline.routers.routers import RouterStatistics

DEADLINE_S = 20.0


@pytest.mark.parametrize("kind", ["kv", "queue", "series", "metrics", "table"])
def test_a_view_is_opened_listed_and_rebuilt(store, name, kind):
    getattr(store, kind)(name)

    assert (kind, name) in store.views.names()
    before = store.views.digest(kind, name)
    store.rebuild(kind, name)
    store.views.rebuild(kind, name)
    assert store.views.digest(kind, name) == before
    assert getattr(store, kind)(name).name == name


def test_options_of_a_view_are_altered(store, name):
    store.kv(name, history=2)

    store.views.alter("kv", name, history=5)

    assert store.existing_topic(name).config.views.kv.history == 5
    with pytest.raises(Invalid):
        store.views.alter("kv", name, history="many")
    with pytest.raises(NotFound):
        store.views.alter("queue", name, lease_ms=5)


def test_memory_is_told_by_share(store, name):
    store.kv(name)

    shares = store.views.memory()

    assert shares
    assert all(isinstance(share, ShareUse) for share in shares.values())


def test_a_view_needs_its_records(store, name):
    store.kv(name).put("a", b"1")

    with pytest.raises(Invalid):
        store.topic(name).delete(before=2)


REFUSED = {
    "unknown kind": (Invalid, lambda store, name: store.views.digest("map", name)),
    "unknown topic": (UnknownTopic, lambda store, name: store.views.rebuild("kv", name)),
    "unknown to alter": (UnknownTopic, lambda store, name: store.views.alter("kv", name)),
    "bad name": (Invalid, lambda store, name: store.kv("no spaces")),
    "ephemeral": (Invalid, lambda store, name: store.kv(name, durability="ephemeral")),
    "router without dest": (Invalid, lambda store, name: store.routers.put(name, source="a")),
    "router to itself": (
        Invalid,
        lambda store, name: store.routers.put(name, source=name, dest=name),
    ),
    "router of nothing": (
        UnknownTopic,
        lambda store, name: store.routers.put(name, source=name, dest=f"{name}-to"),
    ),
    "unknown router": (UnknownRouter, lambda store, name: store.routers.get(name)),
    "impossible router": (UnknownRouter, lambda store, name: store.routers.get("no spaces")),
    "bad filter": (
        Invalid,
        lambda store, name: store.routers.put(name, source="a", dest="b", filter=["tag"]),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_alike(store, name, what):
    kind, verb = REFUSED[what]

    with pytest.raises(StrandlineError) as refused:
        verb(store, name)

    assert isinstance(refused.value, kind)
    assert refused.value.code == kind.code


def test_a_router_forwards_what_its_filter_takes(store, name):
    source = store.topic(name)
    put = store.routers.put(
        f"{name}>eu", source=name, dest=f"{name}-eu", filter=["tag", "Glob", "eu*"]
    )
    source.append_many([b"1", b"2"], tags=["eu-1", "us"])

    dest = store.existing_topic(f"{name}-eu")
    assert dest.wait_for(0, DEADLINE_S)

    assert put.created
    assert isinstance(put.router, Router)
    assert dest.read().data == [b"1"]
    told = store.routers.get(f"{name}>eu")
    assert isinstance(told, RouterStatistics)
    assert told.router == put.router
    assert store.routers.put(f"{name}>eu", source=name, dest=f"{name}-eu").created is False


def test_routers_are_listed_and_deleted(store, name):
    store.topic(name)
    for number in range(3):
        store.routers.put(f"{name}-{number}", source=name, dest=f"{name}-to-{number}")

    found = store.routers.list(f"{name}-")

    assert [each.router.name for each in found] == [f"{name}-{number}" for number in range(3)]
    assert [each.router.name for each in store.routers.list(dest=f"{name}-to-1")] == [f"{name}-1"]
    assert [
        each.router.name for each in store.routers.list(source=name, after=f"{name}-0", limit=1)
    ] == [f"{name}-1"]
    assert store.routers.of_topic(f"{name}-to-2") == [f"{name}-2"]
    assert store.routers.delete(f"{name}-0") is True
    assert store.routers.delete(f"{name}-0") is False
    assert store.routers.delete("no spaces") is False


def test_a_circle_is_a_conflict(store, name):
    store.topic(name)
    store.routers.put(f"{name}-1", source=name, dest=f"{name}-b")

    with pytest.raises(Conflict):
        store.routers.put(f"{name}-2", source=f"{name}-b", dest=name)
    store.topic(f"{name}-c")
    with pytest.raises(Conflict):
        store.routers.put(f"{name}-3", source=f"{name}-c", dest=f"{name}-b")


def test_a_router_tells_how_far_it_has_come(store, name):
    store.topic(name).append(b"x")
    store.routers.put(name, source=name, dest=f"{name}-to", start="earliest")
    deadline = time.monotonic() + DEADLINE_S

    while store.routers.get(name).forwarded_total < 1 and time.monotonic() < deadline:
        time.sleep(0.01)

    told = store.routers.get(name)
    assert (told.cursor, told.lag, told.forwarded_total, told.held) == (1, 0, 1, "")
