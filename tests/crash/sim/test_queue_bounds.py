"""Promise: what a cap, a ttl or a purge took of a queue stays gone after a crash, once that was
durable; nothing else goes with it, and after any crash the bounds hold again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.errors import TopicFull
from strandline.testing.crash_choices import Oldest
from strandline.views.queue.queue import Queue
from tests.unit.views.queue.crashes import FOUR_SHARDS, left_by_crashes, restarted
from tests.unit.views.queue.world import NAME, World, host_of, queue_of, rebuilt_digest, save

CAP = 4
ALL = [b"a", b"b", b"c", b"d", b"e", b"f"]


def _purge(queue: Queue, _: World) -> None:
    queue.purge(tag="old")


def _put_over_the_cap(queue: Queue, _: World) -> None:
    queue.put_many([b"e", b"f"])


def _put_what_is_rejected(queue: Queue, _: World) -> None:
    with pytest.raises(TopicFull):
        queue.put_many([b"e", b"f"])


def _grow_old(queue: Queue, world: World) -> None:
    world.clock.advance(100)
    queue.put(b"e")
    queue.maintain()


WORKS: dict[str, tuple[dict[str, object], Callable[[Queue, World], None], list[bytes]]] = {
    "purge": ({}, _purge, [b"d"]),
    "a cap of jobs": ({"cap_records": CAP}, _put_over_the_cap, [b"c", b"d", b"e", b"f"]),
    "a cap of bytes": ({"cap_bytes": 4 + 2 * 3}, _put_over_the_cap, [b"c", b"d", b"e", b"f"]),
    "a cap that rejects": (
        {"cap_records": CAP, "discard": "reject"},
        _put_what_is_rejected,
        [b"b", b"c", b"d"],
    ),
    "a ttl": ({"ttl_ms": 50_000}, _grow_old, [b"e"]),
}


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("work", WORKS)
def test_a_bound_or_a_purge_survives_a_crash_at_any_call(work, saved, durability):
    bounds, act, kept = WORKS[work]
    world = World(wal=FOUR_SHARDS)
    queue = queue_of(world.store, durability=durability, lease_ms=3_600_000, **bounds)
    queue.put_many([b"a", b"b", b"c"], tag="old")
    queue.claim()
    queue.put(b"d")
    if saved:
        save(world.store)
    world.store.sync()

    left = left_by_crashes(world, lambda: act(queue, world))

    world.store.sync()
    final = [world.disk.kill(), world.disk.crash(Oldest())]
    for disk in [*left, *final]:
        again = restarted(world, disk)
        queue = queue_of(again.store)
        jobs = [job.data for job in queue.claim(10)]
        assert jobs == sorted(set(jobs) & set(ALL[1:]))
        assert set(kept) & set(ALL[:4]) <= set(jobs), "nothing else goes with it"
        assert "cap" not in work or len(jobs) <= CAP
        if disk in final:
            assert jobs == kept
        assert queue.statistics().in_flight == 1 + len(jobs)
        assert again.store.topic(NAME).statistics().count == 1 + len(jobs)
        digest = host_of(again.store).digest()
        assert rebuilt_digest(again.store) == digest
        again.store.close()
