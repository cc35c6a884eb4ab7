"""Promise: after a fallback nothing is deleted that a damaged version may need, until ``clean``.

The newest version, or one that it is put together from, is damaged; the opening says what it passed
over and goes on from the version before. Neither it, nor its checkpoints, nor the openings after it
delete what was there; somebody who repairs the damage finds everything. ``clean`` deletes it.
"""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt
from strandline.reservoir import checkpoint_codec, object_keys
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_objects import SimObjects
from tests.corruption.reservoirs import PAGES, Small, opened, small, with_object
from tests.corruption.stores import flipped


def _damaged(whole: Small, back: int) -> SimObjects:
    """One bit in a version's own part, which all later ones need."""
    key = object_keys.checkpoint_key(whole.newest - back)
    content = whole.data(key)
    footer = checkpoint_codec.decode_footer(
        content[-checkpoint_codec.FOOTER_SIZE :], key, len(content)
    )
    return with_object(whole.objects, key, flipped(content, footer.registry_offset - 9, 3))


def _pages(reservoir: Reservoir) -> dict[int, bytes | None]:
    return {page: reservoir.read(page) for page in PAGES if reservoir.read(page) is not None}


def _work(reservoir: Reservoir, rounds: int = 6) -> None:
    """Rewrite everything, so that all old files become garbage."""
    for number in range(rounds):
        with reservoir.session() as session:
            for page in PAGES:
                session.write(page, b"%d new %d" % (page, number) * 5)
            session.commit()
        reservoir.checkpoint(b"new %d" % number)


@pytest.mark.parametrize("steps", [11, 12])
def test_a_fallback_tells_what_was_passed_over_and_is_exactly_an_older_version(steps):
    whole = small(steps=steps)

    with opened(_damaged(whole, 0)) as found:
        assert found.recovered.version == whole.newest - 1
        assert len(found.recovered.passed_over) == 1
        assert f"version {whole.newest}" in found.recovered.passed_over[0]
        assert _pages(found) == whole.states[whole.newest - 1]
        assert found.recovered.left_over == 0
        assert found.version == whole.newest + 1


def test_what_a_damaged_version_may_need_is_not_deleted_by_anybody():
    whole = small()
    objects = _damaged(whole, 0)
    before = objects.snapshot()

    with opened(objects) as found:
        assert found.recovered.passed_over
        _work(found)
        state = _pages(found)
    for seed in (3, 4):
        with opened(objects, seed=seed) as again:
            assert not again.recovered.passed_over
            assert _pages(again) == state
            _work(again)
            state = _pages(again)

    now = objects.snapshot()
    assert {key: now.get(key) for key in before} == before


def test_who_repairs_the_damage_can_still_read_what_was_passed_over():
    whole = small()
    objects = _damaged(whole, 0)
    with opened(objects) as found:
        _work(found)
    with opened(objects, seed=3) as again:
        _work(again)

    key = object_keys.checkpoint_key(whole.newest)
    repaired = with_object(objects, key, whole.data(key))
    with Reservoir(repaired, at=whole.newest, readonly=True) as old:
        assert _pages(old) == whole.states[whole.newest]


@pytest.mark.parametrize("when", ["at once", "in a later opening"])
def test_clean_deletes_what_was_set_aside_and_nothing_else(when):
    whole = small()
    objects = _damaged(whole, 0)
    found = opened(objects)
    _work(found)
    if when == "in a later opening":
        found.close()
        found = opened(objects, seed=3)
        _work(found)
    state = _pages(found)

    deleted = found.clean()
    found.checkpoint(b"clean")
    _work(found)
    state = _pages(found)
    found.close()

    assert deleted > 0
    now = objects.snapshot()
    assert object_keys.checkpoint_key(whole.newest) not in now
    with opened(objects, seed=4) as again:
        assert not again.recovered.passed_over
        assert not again.recovered.missing
        assert _pages(again) == state
        live, garbage = again._state.files.live, again._state.files.garbage
        stored = {object_keys.file_of(key) for key in objects.snapshot()} - {None}
        assert stored <= live.keys() | garbage.keys()


def test_a_damaged_version_in_the_middle_passes_over_all_that_stand_on_it():
    whole = small(steps=10)  # a snapshot and three that follow it

    with opened(_damaged(whole, 1)) as found:
        assert len(found.recovered.passed_over) == 2
        assert found.recovered.version == whole.newest - 2
        assert _pages(found) == whole.states[whole.newest - 2]


def test_a_second_damage_after_a_fallback_falls_back_once_more():
    whole = small()
    objects = _damaged(whole, 0)
    with opened(objects) as found:
        with found.session() as session:
            session.write(1, b"after the first")
            session.commit()
        version = found.checkpoint()
        state = _pages(found)
        with found.session() as session:
            session.write(1, b"lost in the second")
            session.commit()
        found.checkpoint()
    key = object_keys.checkpoint_key(version + 1)
    content = objects.snapshot()[key].data
    objects = with_object(objects, key, flipped(content, len(content) - 1, 0))
    before = objects.snapshot()

    with opened(objects, seed=3) as again:
        assert again.recovered.version == version
        assert _pages(again) == state
        _work(again)
    with opened(objects, seed=4) as later:
        _work(later)

    now = objects.snapshot()
    assert {key: now.get(key) for key in before} == before


def test_a_reader_falls_back_as_well_and_changes_nothing():
    whole = small()
    objects = _damaged(whole, 0)
    before = objects.snapshot()

    with opened(objects, readonly=True) as found:
        assert found.recovered.passed_over
        assert _pages(found) == whole.states[whole.newest - 1]

    assert objects.snapshot() == before


def test_a_version_asked_for_by_name_does_not_fall_back():
    whole = small()

    with pytest.raises(Corrupt, match=f"version {whole.newest}"):
        Reservoir(_damaged(whole, 0), at=whole.newest, readonly=True)


def test_a_bit_that_flips_on_the_way_is_no_damage():
    """Each answer at an opening is damaged once; the second is believed."""
    whole = small()
    calls = whole.objects.fork()
    opened(calls).close()
    for at in range(1, calls.calls_total + 1):
        objects = whole.objects.fork()
        objects.fail_at(at, "flipped")

        with opened(objects) as found:
            assert not found.recovered.passed_over
            assert _pages(found) == whole.states[whole.newest]


def test_a_store_that_does_not_answer_is_no_damage():
    """Whoever cannot reach an object must not take it for a bad one, and go on without it."""
    whole = small()
    calls, asked = whole.objects.fork(), []
    calls.on_call = lambda operation, _key: asked.append(operation)
    opened(calls).close()
    for at, operation in enumerate(asked, 1):
        if operation == "delete":  # what is not deleted now is deleted later
            continue
        for how, once in (("before", True), ("before", False), ("denied", True)):
            objects = whole.objects.fork()
            objects.fail("*", at, how=how, once=once)
            with pytest.raises(Exception, match=r"no response|not allowed"):
                opened(objects)
            objects.heal()

            with opened(objects) as found:
                assert not found.recovered.passed_over
                assert _pages(found) == whole.states[whole.newest]
