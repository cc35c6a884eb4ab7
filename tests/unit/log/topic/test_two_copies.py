"""Promise (C7): of two copies of a segment either stands in for the other; both are counted once.

With ``lake.copy_hot`` sealed segments are in the lake and on the local disk. The local copy is read
while it is good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
import pytest

from strandline.errors import Corrupt
from tests.unit.log.topic.cold_world import ColdWorld, seqs_of


def copied_world(**lake: object) -> ColdWorld:
    return ColdWorld(**{"copy_hot": True, "hot_segments": 2, **lake})


def segment_paths(world: ColdWorld) -> list[str]:
    folder = "/data/segments/0000000000000001"
    return [f"{folder}/{name}" for name in world.disk.list_dir(folder)]


def test_every_sealed_segment_is_copied_and_the_newest_stay():
    world = copied_world()

    topic = world.cold_topic()

    state = topic._state
    assert (state.cold.last_seq, state.cold.released) == (500, 300)
    assert [run.first_seq for run in state.runs] == [301, 401]
    assert seqs_of(topic) == list(range(1, 501))


def test_the_local_copy_is_read_while_it_is_good():
    world = copied_world()
    topic = world.cold_topic()
    world.objects.calls.clear()

    found = seqs_of(topic, after=300)

    assert found == list(range(301, 501))
    assert not world.objects.calls


def test_nothing_is_copied_twice():
    world = copied_world()
    world.cold_topic()
    files = world.data_keys()

    world.store.relocate()
    world.reopen().relocate()

    assert world.data_keys() == files
    assert seqs_of(world.store.topic("t")) == list(range(1, 501))


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_the_lake_stands_in_for_a_local_segment_and_health_says_so(how):
    world = copied_world()
    world.cold_topic()
    path = segment_paths(world)[-1]
    if how == "missing":
        world.disk.remove(path)
    else:
        world.disk.durable_replace(path, b"\0" * len(world.disk.read(path)))
    topic = world.reopen().topic("t")

    found = seqs_of(topic)

    assert found == list(range(1, 501))
    health = world.store.health()
    assert health.status == "yellow"
    assert path in " ".join(health.reasons)


def test_damage_that_no_other_copy_makes_up_for_is_told():
    world = ColdWorld(hot_segments=2)
    world.cold_topic()
    path = segment_paths(world)[-1]
    world.disk.durable_replace(path, b"\0" * len(world.disk.read(path)))

    topic = world.reopen().topic("t")

    with pytest.raises(Corrupt, match="segments"):
        topic.read(400)
    assert topic.read(0, limit=400).data[-1] == b"400"


@pytest.mark.parametrize("late", [False, True], ids=["at once", "after a restart"])
def test_payload_is_counted_to_the_byte_though_there_are_two_copies(late):
    world = copied_world(grace_s=3600.0, manifest_retention_s=3600.0)
    topic = world.cold_topic()
    topic.delete(match="odd")
    world.store.relocate()
    topic.delete(before=377)
    world.fill(topic, 2)
    world.store.relocate()
    if late:
        topic = world.reopen().topic("t")

    topic.delete(before=701)

    assert topic.statistics().count == 0
    assert topic.statistics().payload_bytes == 0


class Interlude:
    """A lock in front of which something happens once."""

    def __init__(self, lock: threading.Lock, act: Callable[[], object]) -> None:
        self._lock = lock
        self._acts = [act]

    def __enter__(self) -> None:
        if self._acts:
            self._acts.pop()()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_delete_while_the_local_copy_is_let_go_is_not_counted_twice():
    world = copied_world(hot_segments=3)
    topic = world.cold_topic(batches=3)
    topic.delete(match="odd")
    topic.delete(before=31)
    world.fill(topic, 1)
    relocator = world.store._relocator
    relocator._settings = msgspec.structs.replace(relocator._settings, copy_hot=False)
    locks = relocator._changing

    def delete() -> None:
        topic.delete(match="even", before=80)
        topic.delete(before=61)

    relocator._changing = Interlude(locks, delete)
    world.store.relocate()

    assert topic._state.cold.released == 100
    assert seqs_of(topic, limit=500)[:3] == [80, 82, 84]
    topic.delete(before=401)
    assert topic.statistics().payload_bytes == 0


def test_a_cap_on_bytes_counts_a_record_once_wherever_it_is():
    world = copied_world()
    plain = ColdWorld(hot_segments=5)
    topic, other = world.cold_topic(), plain.cold_topic()
    cap = topic.statistics().payload_bytes // 4

    topic.alter(cap_bytes=cap)
    other.alter(cap_bytes=cap)

    assert topic.statistics().payload_bytes == other.statistics().payload_bytes <= cap
    assert topic.statistics().earliest_seq == other.statistics().earliest_seq
