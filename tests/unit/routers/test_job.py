"""Promise: with its jobs, a store forwards by itself, soon after each append."""

from __future__ import annotations

import threading

import strandline
from strandline.routers.forwarder import BATCH_RECORDS
from strandline.routers.routers import DEFERRED_S
from tests.unit.routers.world import RouterWorld


def test_what_is_appended_arrives_without_anybody_asking(tmp_path):
    with strandline.open(str(tmp_path / "data")) as store:
        source = store.topic("a")
        store.routers.put("r", source="a", dest="b")
        store.routers.put("r2", source="b", dest="c")

        for number in range(50):
            source.append(b"%d" % number)

        followed = store.topic("c").follow(timeout_s=20)
        arrived = [next(followed).data for _ in range(50)]
        assert arrived == [b"%d" % number for number in range(50)]


def test_while_a_server_is_pressed_the_job_waits_and_then_forwards_all():
    world = RouterWorld()
    source = world.store.topic("a")
    world.store.routers.put("r", source="a", dest="b")
    routers, seen = world.store.routers, []
    for deferred in (True, False):
        source.append(b"x")
        routers.deferred = deferred
        routers.run_job()
        seen.append(world.store.topic("b").head_seq)

    assert seen == [0, 2]


def test_while_a_server_is_pressed_routers_still_make_progress():
    world = RouterWorld()
    source = world.store.topic("a")
    world.store.routers.put("r", source="a", dest="b")
    source.append_many([b"x"] * (2 * BATCH_RECORDS + 1))
    routers, seen = world.store.routers, []
    routers.deferred = True
    for _ in range(8):
        world.clock.advance(DEFERRED_S / 2)
        routers.run_job()
        seen.append(world.store.topic("b").head_seq)

    batches = [seq // BATCH_RECORDS for seq in seen]
    assert batches == [0, 1, 1, 2, 2, 2, 2, 2]
    assert seen[-1] == 2 * BATCH_RECORDS + 1


def test_many_threads_may_append_put_and_delete_at_once(tmp_path):
    with strandline.open(str(tmp_path / "data")) as store:
        source = store.topic("a")
        store.routers.put("r", source="a", dest="b", guarantee="exactly_once")

        def append() -> None:
            for _ in range(200):
                source.append(b"x")

        def change() -> None:
            for number in range(20):
                store.routers.put(f"r{number}", source="a", dest=f"c{number}")
                store.delete_topic(f"c{number}")

        threads = [threading.Thread(target=work) for work in (append, append, change)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        arrived = store.topic("b").wait_for(399, timeout_s=20)

        assert arrived
        assert store.topic("b").head_seq == 400
        assert [each.router.name for each in store.routers.list()] == ["r"]
        assert store.health().status == "green"
