"""Promise: the newest versions of a key can be read, as many as the history keeps, deletes
included; older ones are not guessed."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid, NotFound
from tests.unit.views.kv.world import NAME, World, digest, kv_of, rebuilt_digest, save


def test_eight_versions_are_kept_newest_first():
    kv = kv_of(World().store)
    for number in range(12):
        kv.put("ada", b"%d" % number)

    versions = kv.history("ada")

    assert [each.value for each in versions] == [b"%d" % n for n in range(11, 3, -1)]
    assert [each.version for each in versions] == list(range(12, 4, -1))


def test_the_history_is_as_long_as_was_asked_for():
    world = World()
    kv = kv_of(world.store, history=2)
    for number in range(5):
        kv.put("ada", b"%d" % number)

    world.kill()

    assert [each.value for each in kv_of(world.store).history("ada")] == [b"4", b"3"]


def test_a_delete_is_a_version_and_the_history_survives_it():
    kv = kv_of(World().store)
    kv.put("ada", b"1")
    kv.delete("ada")
    deleted = kv.history("ada")
    kv.put("ada", b"2", ttl=5)

    versions = kv.history("ada")

    assert [(each.value, each.deleted) for each in deleted] == [(None, True), (b"1", False)]
    assert [each.value for each in versions] == [b"2", None, b"1"]
    assert [each.expires_us is None for each in versions] == [False, True, True]


def test_a_key_that_never_was_has_no_history():
    assert kv_of(World().store).history("ada") == []


def test_a_key_is_read_as_it_was_at_a_version_of_the_view():
    kv = kv_of(World().store)
    kv.put("ada", b"1")
    kv.put("bob", b"x")
    kv.put("ada", b"3")
    kv.delete("ada")

    found = [kv.entry_at("ada", version=version) for version in range(6)]

    values = [None if entry is None else entry.value for entry in found]
    assert values == [None, b"1", b"1", b"3", None, None]


def test_a_key_is_read_as_it_was_at_a_time():
    world = World()
    kv = kv_of(world.store)
    start = world.clock.now_us()
    kv.put("ada", b"1")
    world.clock.advance(10)
    kv.put("ada", b"2", ttl=5)
    world.clock.advance(10)
    kv.put("ada", b"3")

    def at(seconds: float) -> bytes | None:
        entry = kv.entry_at("ada", ts=start + round(seconds * 1e6))
        return None if entry is None else entry.value

    found = [at(seconds) for seconds in (-1, 0, 9.9, 10, 14.9, 15, 19.9, 20)]
    assert found == [None, b"1", b"1", b"2", b"2", None, None, b"3"]


def test_what_is_longer_ago_than_the_history_is_not_guessed():
    world = World()
    kv = kv_of(world.store, history=2)
    for number in range(3):
        kv.put("ada", b"%d" % number)

    with pytest.raises(NotFound, match="begins with version 2"):
        kv.entry_at("ada", version=1)
    with pytest.raises(NotFound):
        kv.entry_at("ada", ts=world.clock.now_us() - 1)


def test_the_past_is_asked_for_in_one_way():
    kv = kv_of(World().store)

    with pytest.raises(Invalid):
        kv.entry_at("ada")
    with pytest.raises(Invalid):
        kv.entry_at("ada", version=1, ts=1)


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4)])
def test_a_view_whose_history_is_altered_is_as_one_folded_anew(before, after):
    world = World()
    kv = kv_of(world.store, history=before)
    for number in range(5):
        kv.put("ada", b"%d" % number)
    save(world.store)
    kv.compact()

    world.store.views.alter("kv", NAME, history=after)

    kv = kv_of(world.store)
    assert [each.value for each in kv.history("ada")] == [b"4", b"3", b"2", b"1"][
        : min(before, after)
    ]
    live = digest(world.store)
    assert rebuilt_digest(world.store) == live
