"""Promise: a watcher is told of the records that its filter wants and of the topics that its
patterns mean, those made later included, and never of one that it may not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.live.watching import Reader, post, seqs, watch
from tests.server.running import Running, running

AMOUNT = {"type": "compare", "field": "amount", "op": ">=", "value": 10}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("choosing")) as found:
        yield found


def told(server: Running, name: str, wanted: dict[str, object], last: int) -> list[int]:
    """Seqs of a topic that a filter lets through, in history and live."""
    topic = server.store.existing_topic(name)
    session = watch(server, {name: {}}, filter=wanted)
    with Reader(server, session["stream_url"]) as reader:
        events = reader.until("caught-up")
        topic.append(b'{"amount":99}', key="eu-9", tag="eu.paris")
        events += reader.records_to(last + 1)
    return seqs(events)[:-1]


def filled(server: Running, name: str) -> None:
    topic = server.store.topic(name, schema={"amount": "u64", "day": "date | null"})
    topic.append(b'{"amount":5,"day":null}', key="eu-1", tag="eu.paris")
    topic.append(b'{"amount":15,"day":"2026-01-02"}', key="us-1", tag="us.boston")
    topic.append(b'{"amount":20,"day":null}')
    topic.append(b'{"amount":"many"}', key="eu-2", tag="eu")


@pytest.mark.parametrize(
    ("wanted", "seqs_wanted"),
    [
        ({"tag_prefix": "eu"}, [1, 4]),
        ({"key_prefix": "eu-"}, [1, 4]),
        ({"where": {"type": "not", "of": AMOUNT | {"op": "<"}}}, [2, 3]),
        ({"where": AMOUNT, "tag_prefix": ""}, [2]),
        ({"where": {"type": "or", "of": [AMOUNT, AMOUNT | {"op": "=", "value": 5}]}}, [1, 2, 3]),
    ],
)
def test_only_wanted_records_are_told(server, wanted, seqs_wanted):
    name = f"wanted-{abs(hash(str(wanted)))}"
    filled(server, name)

    found = told(server, name, wanted, 4)

    assert found == seqs_wanted


def test_a_tag_is_wanted_as_a_whole(server):
    topic = server.store.topic("whole")
    topic.append(b"1", tag="eu")
    topic.append(b"2", tag="eu.paris")
    topic.append(b"3")
    session = watch(server, {"whole": {}}, filter={"tag": "eu"})

    with Reader(server, session["stream_url"]) as reader:
        events = reader.until("caught-up")

    assert seqs(events) == [1]


@pytest.mark.parametrize(
    "where",
    [
        {"type": "compare", "field": "absent", "op": "=", "value": 1},
        {"type": "compare", "field": "amount", "op": "=", "value": "text"},
        {"type": "nonsense"},
        {"type": "compare", "field": "amount"},
    ],
)
def test_a_filter_that_cannot_be_is_refused(server, where):
    if "refused" not in server.store.topics("refused"):
        server.store.topic("refused", schema={"amount": "u64"})

    status, answer = post(
        server, "/v0/watch", {"topics": {"refused": {}}, "filter": {"where": where}}
    )

    assert status == 400
    assert answer["error"]["code"] == "invalid_request"


def test_a_pattern_means_topics_that_are_there_and_those_made_later(server):
    server.store.topic("orders.eu").append(b"1")
    server.store.topic("other").append(b"1")
    session = watch(server, {"orders.*": {}})
    server.store.topic("orders.between").append(b"1")

    with Reader(server, session["stream_url"]) as reader:
        reader.until("caught-up", topic="orders.eu")
        server.store.topic("orders.us").append_many([b"1", b"2"])
        events = reader.records_to(2, "orders.us")
    with Reader(server, session["stream_url"], last_id=session["last_event_id"]) as reader:
        again = reader.until("caught-up", topic="orders.between")

    assert seqs(events, "orders.us") == [1, 2]
    assert list(session["topics"]) == ["orders.eu"]
    assert seqs(again, "orders.between") in ([], [1])
    assert not seqs(events, "other")


def test_a_pattern_tells_only_what_may_be_read(tmp_path: Path):
    with running(tmp_path, tokens={"ada": "read:orders.eu*"}) as server:
        for name in ("orders.eu", "orders.us"):
            server.store.topic(name).append(b"1")
        ada = server.tokens["ada"]

        session = watch(server, {"*": {}}, token=ada)
        with Reader(server, session["stream_url"], token=ada) as reader:
            events = reader.until("caught-up", topic="orders.eu")
            server.store.topic("orders.us-2").append(b"1")
            server.store.topic("orders.eu-2").append(b"1")
            events += reader.records_to(1, "orders.eu-2")

        assert list(session["topics"]) == ["orders.eu"]
        names = {event.data["topic"] for event in events if event.data}
        assert names == {"orders.eu", "orders.eu-2"}
