"""Promise: a watcher hears of every change of its keys in order, deletes included, and can go on
where it was; one that was away too long is told."""

from __future__ import annotations

import threading

import pytest

from strandline.errors import Invalid, RecordsLost
from tests.unit.views.kv.world import NAME, World, kv_of, save

DEADLINE_S = 30


def _told(changes) -> list[tuple[bytes, bytes | None]]:
    return [(change.key, change.value) for change in changes]


def test_changes_of_a_key_come_in_order_with_deletes():
    kv = kv_of(World().store)
    kv.put("ada", b"1")
    kv.put("adam", b"x")
    kv.delete("ada")
    kv.put("ada", b"2", ttl=5)

    changes = list(kv.watch("ada", after=0, timeout_s=0))

    assert _told(changes) == [(b"ada", b"1"), (b"ada", None), (b"ada", b"2")]
    assert [change.version for change in changes] == [1, 3, 4]
    assert [change.deleted for change in changes] == [False, True, False]
    assert [change.expires_us is None for change in changes] == [True, True, False]


def test_changes_of_a_prefix_and_of_all():
    store = World().store
    kv = kv_of(store)
    for key in ("a1", "b1", "a2"):
        kv.put(key, b"")
    store.topic(NAME).append(b"without a key")
    store.topic(NAME).append(b"plain", key="a3")

    assert [change.key for change in kv.watch(prefix="a", after=0, timeout_s=0)] == [
        b"a1",
        b"a2",
        b"a3",
    ]
    assert len(list(kv.watch(after=0, timeout_s=0))) == 4


def test_a_watcher_goes_on_behind_the_last_version_it_saw():
    kv = kv_of(World().store)
    for number in range(10):
        kv.put("ada", b"%d" % number)
    first = next(kv.watch("ada", after=0))

    rest = list(kv.watch("ada", after=first.version, timeout_s=0))

    assert [change.value for change in rest] == [b"%d" % number for number in range(1, 10)]


def test_without_a_version_a_watch_begins_when_it_is_asked_for():
    kv = kv_of(World().store)
    kv.put("ada", b"before")

    changes = kv.watch(timeout_s=0)
    kv.put("ada", b"after")

    assert _told(changes) == [(b"ada", b"after")]


def test_a_watcher_that_waits_hears_of_a_change():
    kv = kv_of(World().store)
    changes = kv.watch("ada")
    heard: list[bytes | None] = []
    watcher = threading.Thread(target=lambda: heard.append(next(changes).value))
    watcher.start()

    kv.put("bob", b"x")
    kv.put("ada", b"1")
    watcher.join(DEADLINE_S)

    assert heard == [b"1"]


def test_an_expired_key_is_heard_of_when_it_is_compacted():
    world = World()
    kv = kv_of(world.store)
    kv.put("ada", b"1", ttl=1)
    after = kv.head
    world.clock.advance(1)

    kv.compact()

    (change,) = kv.watch(after=after, timeout_s=0)
    assert (change.key, change.value, change.expired) == (b"ada", None, True)


def test_who_missed_versions_beyond_the_history_still_hears_the_newest():
    world = World()
    kv = kv_of(world.store, history=2)
    kv.put("bob", b"x")
    for number in range(10):
        kv.put("ada", b"%d" % number)
    save(world.store)

    kv.compact()

    assert _told(kv.watch(after=1, timeout_s=0)) == [(b"ada", b"8"), (b"ada", b"9")]


def _forget_ada(world: World) -> tuple[int, int]:
    """Versions before and behind the delete of a key that is forgotten by now."""
    kv = kv_of(world.store, grace_ms=1000)
    known = kv.put("ada", b"1")
    kv.delete("ada")
    gone = kv.head
    world.clock.advance(2)
    save(world.store)
    assert kv.compact().forgotten == 1
    return known, gone


def test_who_would_miss_that_a_key_is_gone_is_told():
    world = World()
    known, gone = _forget_ada(world)
    kv = kv_of(world.store)
    kv.put("bob", b"x")

    with pytest.raises(RecordsLost, match="scan") as lost:
        kv.watch(after=known)

    assert (lost.value.gap_from, lost.value.gap_to) == (known + 1, gone)
    assert _told(kv.watch(after=gone, timeout_s=0)) == [(b"bob", b"x")]
    assert _told(kv.watch(after=0, timeout_s=0)) == [(b"bob", b"x")]


@pytest.mark.parametrize("way", ["reopen", "kill", "rebuild"])
def test_what_was_forgotten_is_known_after(way):
    world = World()
    known, _ = _forget_ada(world)

    match way:
        case "reopen":
            world.reopen()
        case "kill":
            world.kill()
        case "rebuild":
            world.store.rebuild("kv", NAME)

    with pytest.raises(RecordsLost):
        kv_of(world.store).watch(after=known)


def test_a_watcher_that_falls_behind_a_forgotten_key_is_told():
    world = World()
    kv = kv_of(world.store, grace_ms=1000)
    kv.put("ada", b"1")
    changes = kv.watch(after=0, timeout_s=0)
    seen = next(changes)
    kv.delete("ada")
    kv.put("bob", b"x")
    kv.delete("bob")
    world.clock.advance(2)
    save(world.store)
    kv.compact()

    with pytest.raises(RecordsLost):
        list(changes)

    assert seen.key == b"ada"


def test_who_begins_is_not_shown_a_forgotten_key_whose_records_are_still_there(monkeypatch):
    world = World()
    kv = kv_of(world.store, grace_ms=1000)
    monkeypatch.setattr(kv._host, "release", lambda source, seqs: 0)
    kv.put("ada", b"1")
    kv.delete("ada")
    world.clock.advance(2)
    save(world.store)
    kv.compact()
    kv.put("bob", b"x")

    assert world.store.topic(NAME).read(0).records[0].key == b"ada"
    assert _told(kv.watch(after=0, timeout_s=0)) == [(b"bob", b"x")]


def test_a_key_and_a_prefix_are_not_watched_together():
    with pytest.raises(Invalid):
        kv_of(World().store).watch("a", prefix="b")


def test_waiting_for_a_key_ends_when_it_comes():
    kv = kv_of(World().store)
    found: list[bytes] = []
    waiter = threading.Thread(target=lambda: found.append(kv.wait_for("ada").value))
    waiter.start()

    kv.put("bob", b"x")
    kv.put("ada", b"1")
    waiter.join(DEADLINE_S)

    assert found == [b"1"]


def test_waiting_for_a_key_that_is_there_does_not_wait():
    kv = kv_of(World().store)
    version = kv.put("ada", b"1")

    assert kv.wait_for("ada").value == b"1"
    assert kv.wait_for("ada", after=version, timeout_s=0) is None
    assert kv.wait_for("eve", timeout_s=0) is None


def test_waiting_for_the_next_version_ends_when_it_comes():
    kv = kv_of(World().store)
    version = kv.put("ada", b"1")
    found: list[bytes] = []
    waiter = threading.Thread(target=lambda: found.append(kv.wait_for("ada", after=version).value))
    waiter.start()

    kv.put("ada", b"2")
    waiter.join(DEADLINE_S)

    assert found == [b"2"]


def test_what_another_view_of_the_topic_wrote_for_itself_is_not_heard():
    store = World().store
    kv = kv_of(store)
    queue = store.queue(NAME)
    queue.put(b"a job", key="ada", priority=3)
    kv.put("ada", b"1")

    assert _told(kv.watch(after=0, timeout_s=0)) == [(b"ada", b"1")]
    assert kv.get("ada") == b"1"


def test_who_begins_is_not_told_of_records_that_a_topic_lost_before_it_had_a_view():
    store = World().store
    topic = store.topic(NAME, cap_records=2)
    for number in range(5):
        topic.append(b"%d" % number, key=b"k%d" % number)
    topic.enforce_retention()
    topic.alter(cap_records=0)
    kv = kv_of(store)

    assert _told(kv.watch(after=0, timeout_s=0)) == [(b"k3", b"3"), (b"k4", b"4")]
    with pytest.raises(RecordsLost):
        list(kv.watch(after=1, timeout_s=0))


def test_a_watcher_that_waits_elsewhere_looks_and_never_waits():
    kv = kv_of(World().store)
    kv.put("a", b"1")
    kv.put("b", b"2")

    watcher = kv.watcher("a", after=0)
    first = watcher.read_changes()
    nothing = watcher.read_changes()
    kv.put("a", b"3")

    assert _told(first) == [(b"a", b"1")]
    assert nothing == []
    assert (watcher.position, watcher.caught_up) == (2, True)
    assert _told(watcher.read_changes()) == [(b"a", b"3")]
    assert watcher.position == 3
