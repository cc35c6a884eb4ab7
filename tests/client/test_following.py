"""Promise: who follows a topic of a server is told each record once, as the server tells it, and
never another topic's records unasked.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

import strandline
from strandline import RecordsLost, UnknownTopic
from tests.server.running import Running


def test_a_topic_that_was_made_anew_meanwhile_is_told(server, name):
    server.store.topic(name).append(b"old")
    with strandline.connect(server.url) as store:
        records = store.topic(name).follow(timeout_s=30)
        assert next(records).data == b"old"
        server.store.delete_topic(name)
        server.store.topic(name).append_many([b"new", b"newer"])

        with pytest.raises(RecordsLost) as lost:
            next(records)

    assert lost.value.reason == "recreated"


def test_a_topic_that_is_gone_ends_who_follows_it(server, name):
    server.store.topic(name).append(b"old")
    with strandline.connect(server.url) as store:
        records = store.topic(name).follow(timeout_s=30)
        next(records)
        server.store.delete_topic(name)

        with pytest.raises(UnknownTopic):
            next(records)


@pytest.mark.parametrize("count", [10, 2500])
def test_few_and_many_records_come_in_order(server, name, count):
    topic = server.store.topic(name)
    with strandline.connect(server.url) as store:
        records = store.topic(name).follow(timeout_s=0)
        topic.append_many([b"%d" % number for number in range(count)])

        assert [record.seq for record in records] == list(range(1, count + 1))


def test_a_page_over_several_answers_ends_before_a_gap(server, name):
    topic = server.store.topic(name)
    topic.append_many([b"x" * 1000] * 3000)
    with strandline.connect(server.url) as store:
        page = store.topic(name).read(0, 3000)

        assert len(page) == 3000
        assert page.tombstone is None
        topic.alter(cap_records=10)
        late = store.topic(name).read(0, 3000)

    assert late.tombstone.gap_to == 2990
    assert len(late) == 10


def test_new_records_are_told_and_not_asked_for(server, proxy, name):
    topic = server.store.topic(name)
    topic.append(b"before")
    with strandline.connect(proxy.url) as store:
        records = store.topic(name).follow()
        next(records)
        proxy.asked.clear()
        seen = []
        for number in range(20):
            topic.append(b"%d" % number)
            seen.append(next(records).data)
        records.close()

    assert seen == [b"%d" % number for number in range(20)]
    assert [each.rpartition("/")[0] for each in proxy.asked] == ["POST /v0", "GET /v0/watch"]


def test_tasks_are_told_too(server, proxy, name):
    topic = server.store.topic(name)

    async def follow() -> list[bytes]:
        async with strandline.connect_async(proxy.url) as store:
            followed = await store.topic(name)
            records = followed.follow()
            seen = []
            for number in range(5):
                topic.append(b"%d" % number)
                seen.append((await anext(records)).data)
                if not number:
                    proxy.asked.clear()
            await records.aclose()
            return seen

    assert asyncio.run(follow()) == [b"%d" % number for number in range(5)]
    assert not any(each.endswith("/diff") for each in proxy.asked)


@pytest.mark.parametrize(
    "data",
    [b'{"a":1,\r\n"b":2}', b"[1,\r2]", b"[1,\n2]", b'{"a": "\\n"}', b"\r\n\r\n", b"\xff\n\n"],
)
def test_bytes_are_told_as_they_were_appended(server, name, data):
    topic = server.store.topic(name)
    with strandline.connect(server.url) as store:
        records = store.topic(name).follow(timeout_s=30)
        topic.append(b"first")
        next(records)
        topic.append_many([data, b"last"], keys=["k", None], tags=["t", None], nodes=["n", None])
        told = [next(records), next(records)]
        records.close()

    assert told == topic.read(1).records


def test_a_stream_that_broke_goes_on_behind_what_was_told(server, proxy, name):
    topic = server.store.topic(name)
    seen = []
    with strandline.connect(proxy.url) as store:
        records = store.topic(name).follow()
        for number in range(8):
            topic.append(b"%d" % number)
            seen.append(next(records).data)
            if number == 3:
                proxy.asked.clear()
            if number >= 3:
                proxy.cut_all()
        records.close()

    assert seen == [b"%d" % number for number in range(8)]
    assert {each.rpartition("/")[0] for each in proxy.asked} == {"GET /v0/watch"}


def test_a_session_that_the_server_forgot_is_made_anew(server, proxy, name):
    topic, seen = server.store.topic(name), []
    with strandline.connect(proxy.url) as store:
        records = store.topic(name).follow()
        for number in range(3):
            topic.append(b"%d" % number)
            seen.append(next(records).data)
            _forget_sessions(server)
            proxy.cut_all()
        records.close()

    assert seen == [b"0", b"1", b"2"]


def test_a_topic_that_was_made_anew_while_the_server_was_away_is_told(server, proxy, name):
    server.store.topic(name).append_many([b"old", b"older"])
    with strandline.connect(proxy.url) as store:
        records = store.topic(name).follow(timeout_s=30)
        next(records), next(records)
        server.store.topic(name).append(b"told")
        assert next(records).data == b"told"
        proxy.is_away = True
        proxy.cut_all()
        server.store.delete_topic(name)
        server.store.topic(name).append_many([b"new"] * 5)
        _forget_sessions(server)
        proxy.is_away = False

        with pytest.raises(RecordsLost) as lost:
            next(records)

    assert lost.value.reason == "recreated"


def test_who_stops_following_leaves_no_session_behind(server, name):
    topic = server.store.topic(name)
    with strandline.connect(server.url) as store:
        followed = [store.topic(name).follow() for _ in range(3)]
        topic.append(b"first")
        assert [next(each).seq for each in followed] == [1, 1, 1]
        topic.append(b"told")
        assert [next(each).seq for each in followed] == [2, 2, 2]
        during = _sessions(server, name)
        for each in followed:
            each.close()

        assert (during, _sessions(server, name)) == (3, 0)
        assert not any(name in stream.places for stream in list(server.parts.hub.streams))


def test_tasks_that_stop_following_leave_no_session_behind(server, name):
    topic = server.store.topic(name)

    async def follow() -> int:
        async with strandline.connect_async(server.url) as store:
            records = (await store.topic(name)).follow()
            for data in (b"first", b"told"):
                topic.append(data)
                await anext(records)
            during = _sessions(server, name)
            await records.aclose()
            return during

    assert asyncio.run(follow()) == 1
    assert _sessions(server, name) == 0


def test_who_stops_following_a_server_that_is_away_is_not_held_up(server, proxy, name):
    topic = server.store.topic(name)
    with strandline.connect(proxy.url) as store:
        records = store.topic(name).follow()
        for data in (b"first", b"told"):
            topic.append(data)
            next(records)
        proxy.is_away = True
        try:
            proxy.cut_all()
            records.close()
        finally:
            proxy.is_away = False

    with pytest.raises(StopIteration):
        next(records)
    assert _sessions(server, name) == 1  # until its time is over


def _sessions(server: Running, name: str) -> int:
    """How many sessions watch a topic."""
    return sum(name in each.positions for each in list(server.parts.hub.sessions._by_wid.values()))


def _forget_sessions(server: Running) -> None:
    """As a server does that was restarted."""
    server.on_loop(server.parts.hub.sessions._by_wid.clear)


def test_an_own_record_is_not_told_and_the_next_one_is(server, name):
    topic = server.store.topic(name)
    with strandline.connect(server.url) as store:
        records = store.topic(name).follow(node="me", timeout_s=30)
        topic.append(b"theirs", node="you")
        seen = [next(records).data]
        topic.append(b"mine", node="me")
        topic.append(b"theirs too", node="you")
        seen.append(next(records).data)
        records.close()

    assert seen == [b"theirs", b"theirs too"]


def test_closing_the_client_ends_who_is_being_told(server, name):
    store = strandline.connect(server.url)
    topic = store.topic(name)
    raised: list[BaseException] = []
    told = threading.Event()

    def follow() -> None:
        try:
            for _ in topic.follow():
                told.set()
        except BaseException as error:  # noqa: BLE001 - looked at below
            raised.append(error)

    following = threading.Thread(target=follow)
    following.start()
    while not told.wait(0.05):  # until its stream is open
        topic.append(b"x")
    store.close()
    following.join(10)

    assert not following.is_alive()
    assert isinstance(raised[0], strandline.Closed)
