"""Promise: over a connection callers catch what they would catch with an open store."""

from __future__ import annotations

import pytest

import strandline
from strandline import (
    BatchTooLarge,
    LimitSettings,
    RouterCycle,
    RouterFanIn,
    TooLarge,
    UnknownRouter,
)
from strandline import Settings as StoreSettings
from strandline.server.settings import ServerSettings
from tests.server.running import running

KIB = 1 << 10


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory):
    """A server that takes little at once."""
    limits = LimitSettings(
        record_bytes_max=64 * KIB, batch_bytes_max=128 * KIB, batch_records_max=1000
    )
    settings = ServerSettings(store=StoreSettings(limits=limits))
    with running(tmp_path_factory.mktemp("small"), settings=settings) as started:
        yield started


@pytest.fixture(params=["open", "connected"])
def store(request, small):
    if request.param == "open":
        yield small.store
    else:
        with strandline.connect(small.url) as connected:
            yield connected


def test_a_circle_of_routers_is_told_with_its_topics(store, name):
    store.topic(f"{name}.a").append(b"x")
    store.topic(f"{name}.c").append(b"x")
    store.routers.put(f"{name}1", source=f"{name}.a", dest=f"{name}.b")

    with pytest.raises(RouterCycle) as met:
        store.routers.put(f"{name}2", source=f"{name}.b", dest=f"{name}.a")
    with pytest.raises(RouterFanIn):
        store.routers.put(f"{name}3", source=f"{name}.c", dest=f"{name}.b")
    with pytest.raises(UnknownRouter):
        store.routers.get(f"{name}9")

    assert set(met.value.cycle) == {f"{name}.a", f"{name}.b"}


def test_a_batch_and_a_record_that_are_too_large_are_told_apart(store, name):
    topic = store.topic(name)

    with pytest.raises(BatchTooLarge):
        topic.append_many([b"x"] * 1001)
    with pytest.raises(BatchTooLarge):
        topic.append_many([b"x" * 60 * KIB] * 3)
    with pytest.raises(TooLarge) as met:
        topic.append_many([b"x" * 65 * KIB, b"y"])

    assert type(met.value) is TooLarge
    assert topic.head_seq == 0
