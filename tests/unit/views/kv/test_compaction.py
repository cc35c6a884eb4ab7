"""Promise: records that nobody can see leave the log; whatever is left folds to the same keys, also
when the power fails at any moment of it; what was deleted never comes back."""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt
from strandline.views.view import FoldColumns
from tests.unit.views.kv.world import (
    NAME,
    World,
    digest,
    host_of,
    kv_of,
    rebuilt_digest,
    save,
)

GRACE_S = 10


def _kv(world: World, **options):
    return kv_of(world.store, **({"grace_ms": GRACE_S * 1000} | options))


def _seqs(world: World) -> list[int]:
    return [record.seq for record in world.store.topic(NAME).read(0, 1000).records]


def test_versions_beyond_the_history_leave_the_log():
    world = World()
    kv = _kv(world, history=3)
    for number in range(10):
        kv.put("ada", b"%d" % number)
    kv.put("bob", b"x")
    save(world.store)

    done = kv.compact()

    assert done.released == 7
    assert _seqs(world) == [8, 9, 10, 11]
    assert [each.value for each in kv.history("ada")] == [b"9", b"8", b"7"]
    assert rebuilt_digest(world.store) == digest(world.store)


def test_what_no_saved_state_has_seen_stays():
    world = World()
    kv = _kv(world, history=1)
    for number in range(10):
        kv.put("ada", b"%d" % number)

    unsaved = kv.compact()
    save(world.store)
    saved = kv.compact()

    assert (unsaved.released, saved.released) == (0, 9)


def test_a_deleted_key_leaves_with_all_its_versions_after_the_grace():
    world = World()
    kv = _kv(world)
    kv.put("ada", b"1")
    kv.put("ada", b"2")
    kv.put("bob", b"x")
    kv.delete("ada")
    save(world.store)

    early = kv.compact()
    before = kv.history("ada")
    world.clock.advance(GRACE_S + 1)
    late = kv.compact()

    assert (early.forgotten, early.released) == (0, 0)
    assert len(before) == 3
    assert (late.forgotten, late.released) == (1, 3)
    assert kv.history("ada") == []
    assert [record.key for record in world.store.topic(NAME).read(0).records] == [b"bob", None]
    assert rebuilt_digest(world.store) == digest(world.store)


def test_an_expired_key_is_deleted_and_leaves_after_the_grace():
    world = World()
    kv = _kv(world)
    kv.put("ada", b"1", ttl=1)
    kv.put("bob", b"1", ttl=100)
    world.clock.advance(1)

    expired = kv.compact()
    world.clock.advance(GRACE_S + 1)
    save(world.store)
    gone = kv.compact()

    assert (expired.expired, gone.expired, gone.forgotten) == (1, 0, 1)
    assert [record.key for record in world.store.topic(NAME).read(0).records] == [b"bob", None]
    assert kv.mget(["ada", "bob"]) == [None, b"1"]


def test_a_key_with_a_newer_end_does_not_expire_by_an_older_one():
    world = World()
    kv = _kv(world)
    kv.put("ada", b"1", ttl=1)
    kv.put("ada", b"2", ttl=100)
    kv.put("bob", b"1", ttl=1)
    kv.persist("bob")
    world.clock.advance(5)

    assert kv.compact().expired == 0
    assert kv.mget(["ada", "bob"]) == [b"2", b"1"]


def test_many_keys_expire_and_leave_in_one_turn(monkeypatch):
    for name in ("EXPIRE_AT_ONCE", "FORGET_AT_ONCE", "RELEASE_AT_ONCE"):
        monkeypatch.setattr(f"strandline.views.kv.compaction.{name}", 7)
    world = World()
    kv = _kv(world)
    for number in range(50):
        kv.put(b"%d" % number, b"", ttl=1)
    world.clock.advance(1)

    expired = kv.compact()
    world.clock.advance(GRACE_S + 1)
    save(world.store)
    gone = kv.compact()
    save(world.store)
    rest = kv.compact()

    assert (expired.expired, gone.forgotten) == (50, 50)
    assert gone.released + rest.released == 100 + 7  # and the words of forgetting but the last
    assert len(_seqs(world)) == 1


def test_a_key_that_came_back_before_it_was_forgotten_keeps_its_history():
    world = World()
    kv = _kv(world)
    kv.put("ada", b"1")
    kv.delete("ada")
    kv.put("ada", b"2")
    world.clock.advance(GRACE_S + 1)
    save(world.store)

    kv.compact()

    assert [each.value for each in kv.history("ada")] == [b"2", None, b"1"]
    assert rebuilt_digest(world.store) == digest(world.store)


def test_a_key_that_comes_back_after_it_was_forgotten_begins_anew():
    world = World()
    kv = _kv(world)
    kv.put("ada", b"1")
    kv.delete("ada")
    world.clock.advance(GRACE_S + 1)
    save(world.store)
    kv.compact()

    kv.put("ada", b"2")

    assert [each.value for each in kv.history("ada")] == [b"2"]
    assert rebuilt_digest(world.store) == digest(world.store)


def _stop_releasing(kv, monkeypatch, count: int) -> None:
    """Let so many releases happen, then fail as a crash would."""
    release = kv._host.release
    rest = count

    def failing(source, seqs=None, *, before=0):
        nonlocal rest
        if not rest:
            raise KeyboardInterrupt
        rest -= 1
        return release(source, seqs, before=before)

    monkeypatch.setattr(kv._host, "release", failing)


@pytest.mark.parametrize("saved_after", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 3, 100])
@pytest.mark.parametrize("released", range(6))
def test_a_crash_in_a_compaction_brings_nothing_back(monkeypatch, released, batch, saved_after):
    """Between forgetting and releasing, and between any two releases."""
    monkeypatch.setattr("strandline.views.kv.compaction.RELEASE_AT_ONCE", batch)
    world = World()
    kv = _kv(world, history=2)
    kv.put("gone", b"1")
    kv.put("back", b"1")
    kv.put("here", b"1")
    kv.put("here", b"2")
    kv.put("here", b"3")
    kv.delete("gone")
    kv.delete("back")
    save(world.store)
    world.clock.advance(GRACE_S + 1)
    _stop_releasing(kv, monkeypatch, released)
    try:
        kv.compact()
    except KeyboardInterrupt:
        pass
    kv.put("back", b"2")
    kv.put("later", b"1")
    if saved_after:
        save(world.store)
    live = digest(world.store)

    world.kill()

    kv = kv_of(world.store)
    assert kv.mget(["gone", "back", "here", "later"]) == [None, b"2", b"3", b"1"]
    assert [each.value for each in kv.history("back")] == [b"2"]
    assert kv.history("gone") == []
    assert digest(world.store) == live
    assert rebuilt_digest(world.store) == live
    save(world.store)
    kv.compact()
    assert digest(world.store) == rebuilt_digest(world.store) == live
    assert [record.key for record in world.store.topic(NAME).read(0).records] == [
        b"here",
        b"here",
        None,
        b"back",
        b"later",
    ]


def test_what_is_dead_is_let_go_after_a_restart():
    world = World()
    kv = _kv(world, history=1)
    for number in range(5):
        kv.put("ada", b"%d" % number)

    world.reopen()

    assert kv_of(world.store).compact().released == 4


def test_a_delete_between_two_saves_is_not_let_go_before_the_second():
    """Else the state of the first save would bring the key back."""
    world = World()
    kv = _kv(world, history=1)
    kv.put("ada", b"1")
    save(world.store)
    kv.delete("ada")
    world.clock.advance(GRACE_S + 1)

    done = kv.compact()
    world.kill()

    assert (done.forgotten, kv_of(world.store).get("ada")) == (0, None)


def test_a_state_from_before_the_forgotten_keys_is_refused():
    world = World()
    kv = _kv(world)
    kv.put("ada", b"1")
    save(world.store)
    host = host_of(world.store)
    old = host.saved
    kv.delete("ada")
    save(world.store)
    world.clock.advance(GRACE_S + 1)
    kv.compact()
    fold = host._make()
    fold.load(host.session, old.space, old.state)
    (told,) = world.store.topic(NAME).read(0).records

    with pytest.raises(Corrupt, match="rebuild"):
        _apply(fold, [told])


def _apply(fold, records) -> None:
    fold.apply(
        0,
        FoldColumns(
            [record.seq for record in records],
            [record.ts for record in records],
            [record.key for record in records],
            [record.tag for record in records],
            [record.meta for record in records],
            [record.data for record in records],
        ),
    )


def test_a_store_lets_records_go_by_itself_when_it_checkpoints():
    world = World()
    kv = _kv(world, history=1)
    for number in range(10):
        kv.put("ada", b"%d" % number)

    world.store.checkpoint()

    assert _seqs(world) == [10]


def test_nothing_leaves_a_topic_that_another_view_may_need():
    world = World()
    kv = _kv(world, history=1)
    world.store.queue(NAME)
    kv.put("ada", b"1")
    kv.put("ada", b"2")
    kv.delete("ada")
    save(world.store)
    world.clock.advance(GRACE_S + 1)

    done = kv.compact()

    assert (done.forgotten, done.released) == (1, 0)
    assert len(_seqs(world)) == 4
    assert not host_of(world.store).fold.dead
    assert rebuilt_digest(world.store) == digest(world.store)
