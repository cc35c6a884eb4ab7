"""Promise: idempotency keys take bounded memory, and are remembered for their window of real time.

The oldest keys are evicted at a bound, and a retry with one of them is appended again. A wall clock
that is set forward or back neither ends a window early nor keeps a key for years.
"""

from __future__ import annotations

import pytest

from strandline.config.settings import LimitSettings
from strandline.log.retention.retention_floors import enforce_all
from strandline.log.state.idempotency_index import ENTRY_BYTES
from tests.unit.store.world import World

YEAR_S = 365 * 86_400
WINDOW_S = 60


def _topic(world):
    return world.store.topic("t", idempotency_window_ms=WINDOW_S * 1000)


def _append(topic, count, *, size=8):
    for number in range(count):
        topic.append(b"x", idempotency_key=b"%0*d" % (size, number))


def _remembered(topic):
    return list(topic._state.idempotency or ())


def _retention(world):
    enforce_all(world.store._state.catalog, world.store._reader, world.clock)


def _restart(world, how):
    if how == "reopen":
        world.store.checkpoint()
        world.reopen()
    elif how == "kill":
        world.kill()


@pytest.mark.parametrize("how", ["goes on", "reopen", "kill"])
def test_a_topic_remembers_so_many_keys_and_evicts_the_oldest(how):
    world = World(limits=LimitSettings(idempotency_keys_max=10))
    _append(_topic(world), 25)
    _restart(world, how)
    topic = _topic(world)

    newest = [topic.append(b"x", idempotency_key=b"%08d" % number) for number in range(15, 25)]
    oldest = topic.append(b"x", idempotency_key=b"%08d" % 14)

    assert [again.first_seq for again in newest] == list(range(16, 26))
    assert (oldest.deduped, oldest.first_seq) == (False, 26)
    assert len(_remembered(topic)) == 10


@pytest.mark.parametrize("how", ["goes on", "reopen", "kill"])
def test_the_keys_of_a_topic_take_so_many_bytes(how):
    world = World(limits=LimitSettings(idempotency_bytes_max=4 * (ENTRY_BYTES + 200)))
    _append(_topic(world), 9, size=200)

    _restart(world, how)

    assert _remembered(_topic(world)) == [b"%0200d" % number for number in range(5, 9)]


def test_the_newest_key_is_remembered_whatever_its_size():
    world = World(limits=LimitSettings(idempotency_keys_max=0, idempotency_bytes_max=0))
    topic = _topic(world)

    _append(topic, 3)

    assert topic.append(b"x", idempotency_key=b"%08d" % 2).deduped


def test_evicted_keys_are_counted():
    world = World(limits=LimitSettings(idempotency_keys_max=10))

    _append(_topic(world), 25)

    assert sum(each.keys_evicted for each in world.store.log_statistics()) == 15


@pytest.mark.parametrize("how", ["goes on", "reopen"])
def test_a_clock_that_jumps_forward_ends_no_window_early(how):
    world = World()
    _append(_topic(world), 1)
    world.clock.jump_wall(YEAR_S)
    world.store.topic("other").append(b"at the new time")
    _restart(world, how)
    topic = _topic(world)

    world.clock.advance(WINDOW_S - 1)
    inside = topic.append(b"x", idempotency_key=b"%08d" % 0)
    world.clock.advance(2)
    outside = topic.append(b"x", idempotency_key=b"%08d" % 0)

    assert (inside.deduped, outside.deduped) == (True, False)


@pytest.mark.parametrize("how", ["goes on", "reopen", "kill"])
def test_a_key_that_was_stored_in_the_far_future_is_gone_after_twice_its_window(how):
    world = World()
    world.clock.jump_wall(30 * YEAR_S)
    _append(_topic(world), 1)
    world.clock.jump_wall(-30 * YEAR_S)
    _restart(world, how)

    world.clock.advance(2 * WINDOW_S + 1)
    _retention(world)

    assert _remembered(_topic(world)) == []


def test_keys_of_an_idle_topic_are_forgotten_when_their_windows_are_over():
    world = World()
    _append(_topic(world), 3)
    world.clock.advance(WINDOW_S + 1)

    _retention(world)

    assert _topic(world)._state.idempotency is None


def test_a_window_that_was_shortened_counts_from_the_next_opening():
    world = World()
    topic = world.store.topic("t", idempotency_window_ms=30 * YEAR_S * 1000)
    _append(topic, 1)
    topic.alter(idempotency_window_ms=WINDOW_S * 1000)
    world.reopen()

    world.clock.advance(WINDOW_S + 1)
    _retention(world)

    assert _remembered(world.store.topic("t")) == []
