"""Promise: connections that are cut, at whatever byte, neither lose nor repeat anything silently.

An append whose answer is lost is made again and lands once. Who follows a topic, or watches a map,
sees every record once and in order. A job that was handed out in a lost answer comes again, and
what is unknown is told, not guessed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import strandline
from strandline import AppendResult, ClientSettings, ObjectStoreUnreachable

PATIENT = ClientSettings(response_s_max=5.0, retry_s_max=30.0, reconnect_s_max=30.0)
DEADLINE_S = 60.0
CUTS = st.lists(st.tuples(st.integers(0, 3000), st.booleans()), min_size=1, max_size=5)
PROPERTY = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],  # each takes seconds: no shrinking
)
_numbers = itertools.count(1)


@PROPERTY
@given(cuts=CUTS, sizes=st.lists(st.sampled_from([1, 3, 50]), min_size=5, max_size=20))
def test_appends_land_once_and_followers_see_all_of_them(server, proxy, cuts, sizes):
    name = f"cut{next(_numbers)}"
    topic_here = server.store.topic(name)
    followed: list[tuple[int, bytes]] = []
    total, numbers = sum(sizes), itertools.count()
    with (
        strandline.connect(proxy.url, settings=PATIENT) as writer,
        strandline.connect(proxy.url, settings=PATIENT) as reader,
    ):

        def follow() -> None:
            for record in itertools.islice(reader.topic(name).follow(), total):
                followed.append((record.seq, record.data))

        follower = threading.Thread(target=follow)
        proxy.cut(cuts)
        follower.start()
        topic = writer.topic(name)

        done = [topic.append_many([b"%d" % next(numbers) for _ in range(size)]) for size in sizes]
        follower.join(DEADLINE_S)

    assert not follower.is_alive()
    assert [each.deduped for each in done] == [False] * len(done)
    assert [each.last_seq - each.first_seq + 1 for each in done] == sizes
    expected = [b"%d" % number for number in range(total)]
    assert topic_here.read(0, 10_000).data == expected
    assert followed == list(enumerate(expected, start=1))


@PROPERTY
@given(cuts=CUTS)
def test_a_watcher_of_a_map_sees_every_change_once(server, proxy, cuts):
    kv_here = server.store.kv(f"cut{next(_numbers)}")
    kv_here.put("begin", b"")
    seen: list[bytes] = []
    with strandline.connect(proxy.url, settings=PATIENT) as store:
        watched = store.kv(kv_here.name).watch(prefix="k", after=0)
        proxy.cut(cuts)
        proxy.cut_all()

        def watch() -> None:
            for change in itertools.islice(watched, 40):
                seen.append(change.value)

        watcher = threading.Thread(target=watch)
        watcher.start()
        for number in range(40):
            kv_here.put(f"k{number % 7}", b"%d" % number)
        watcher.join(DEADLINE_S)

    assert not watcher.is_alive()
    assert seen == [b"%d" % number for number in range(40)]


@PROPERTY
@given(cuts=CUTS)
def test_every_job_is_worked_on_and_none_is_left(server, proxy, cuts):
    queue_here = server.store.queue(f"cut{next(_numbers)}", deliveries_max=0)
    queue_here.put_many([b"%d" % number for number in range(30)])
    worked: set[bytes] = set()
    deadline = time.monotonic() + DEADLINE_S
    with strandline.connect(proxy.url, settings=PATIENT) as store:
        proxy.cut(cuts)
        queue = store.queue(queue_here.name)
        while queue_here.statistics().waiting or queue_here.statistics().in_flight:
            assert time.monotonic() < deadline
            for job in queue.claim(3, worker="w", lease=0.3, wait_s=1.0):
                worked.add(job.data)
                with contextlib.suppress(
                    ObjectStoreUnreachable
                ):  # it is not known whether that did it
                    job.ack()

    assert worked == {b"%d" % number for number in range(30)}


@pytest.mark.parametrize("count", [1, 100])
def test_an_append_whose_answer_is_lost_lands_once(server, proxy, name, count):
    with strandline.connect(proxy.url, settings=PATIENT) as store:
        topic = store.topic(name)
        proxy.lose_answers(f"POST /v0/topics/{name}", 2)

        appended = topic.append_many([b"x"] * count)

    assert appended == AppendResult(1, count, count)
    assert server.store.topic(name).head_seq == count


def test_a_follower_goes_on_when_the_server_was_away(server, proxy, name):
    topic = server.store.topic(name)
    topic.append(b"before")
    with strandline.connect(proxy.url, settings=PATIENT) as store:
        records = store.topic(name).follow()
        assert next(records).data == b"before"
        proxy.is_away = True
        proxy.cut_all()
        topic.append(b"meanwhile")
        threading.Timer(0.5, lambda: setattr(proxy, "is_away", False)).start()

        assert next(records).data == b"meanwhile"
        records.close()


def test_a_follower_gives_up_when_its_patience_is_over(server, proxy, name):
    server.store.topic(name)
    impatient = ClientSettings(reconnect_s_max=0.2, retry_s_max=0.2)
    with strandline.connect(proxy.url, settings=impatient) as store:
        records = store.topic(name).follow()
        proxy.is_away = True
        proxy.cut_all()
        try:
            with pytest.raises(ObjectStoreUnreachable):
                next(records)
        finally:
            proxy.is_away = False


def test_a_put_whose_answer_is_lost_is_not_made_again(server, proxy, name):
    kv_here = server.store.kv(name)
    with strandline.connect(proxy.url, settings=PATIENT) as store:
        kv = store.kv(name)
        proxy.cut([(60, True)])
        proxy.cut_all()

        with pytest.raises(ObjectStoreUnreachable) as lost:
            kv.incr("n")

    assert "may have been executed" in str(lost.value)
    assert kv_here.get("n") in (None, b"1")


def test_tasks_meet_lost_answers_and_a_server_that_is_away_alike(server, proxy, name):
    topic_here = server.store.topic(name)

    async def work() -> tuple[list[bytes], list[int]]:
        async with strandline.connect_async(proxy.url, settings=PATIENT) as store:
            topic = await store.topic(name)
            proxy.lose_answers(f"POST /v0/topics/{name} ", 3)
            done = await asyncio.gather(*(topic.append(b"%d" % number) for number in range(20)))
            proxy.is_away = True
            proxy.cut_all()
            threading.Timer(0.3, lambda: setattr(proxy, "is_away", False)).start()
            seen = [record.data async for record in topic.follow(timeout_s=0.5)]
            return seen, [each.first_seq for each in done]

    seen, seqs = asyncio.run(work())

    assert sorted(seqs) == list(range(1, 21))
    assert seen == topic_here.read().data
    assert sorted(map(int, seen)) == list(range(20))
