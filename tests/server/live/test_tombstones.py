"""Promise: a loss is reported to every watcher, and in the same words however it reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.live.watching import Reader, gaps, watch
from tests.server.running import Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("tombstones")) as found:
        yield found


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_watcher_between_two_losses_of_a_source_gets_both(server, guarantee):
    source = server.store.topic(f"trimmed.{guarantee}", cap_records=2)
    full = server.store.topic(f"full.{guarantee}", cap_records=1, discard="reject")
    full.append(b"in the way")  # so that the router reports losses and forwards nothing
    options = {"source": source.name, "dest": full.name, "guarantee": guarantee}
    server.store.routers.put(f"r.{guarantee}", **options)
    session = watch(server, {full.name: {}})

    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up")
        source.append_many([b"1"] * 5)
        first = reader.records_to(4)
        source.append_many([b"1"] * 4)
        second = reader.records_to(8)

    assert gaps(first)[0][0] == 2
    assert [event.data["reason"] for event in first + second] == ["source_trim"] * len(
        first + second
    )
    assert sum(event.data["missed_estimate"] for event in first + second) == 7
