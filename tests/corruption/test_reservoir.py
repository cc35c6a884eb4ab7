"""Promise: nothing in a reservoir changes unnoticed, and no wrong page is ever read from it.

One bit of every byte of every object is flipped; objects are cut at every length, swapped, replaced
by older ones or by another reservoir's, and removed. Each outcome is an error with a name, an older
version exactly as it was, which the opening says, or a byte that is proven to be of no use to who
opens and reads. Pages that are copied later are checked then.
"""

from __future__ import annotations

import itertools

import pytest

from strandline.errors import Corrupt
from strandline.reservoir import object_keys
from strandline.testing.sim_objects import SimObjects
from tests.corruption.reservoirs import (
    GREEDY,
    PAGES,
    Small,
    opened,
    outcome,
    small,
    used_bytes,
    with_object,
    without,
)
from tests.corruption.stores import flipped

SIZES = [pytest.param(12, id="an increment is the newest"), pytest.param(11, id="a snapshot is")]
SOME = [pytest.param(11, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]


def test_the_small_reservoir_has_every_kind_of_object():
    whole = small()
    found = opened(whole.objects.fork(), readonly=True)
    state = found._state

    assert any(row.is_snapshot and row.is_bundle for row in state.rows)
    assert any(row.is_bundle and not row.is_snapshot for row in state.rows)
    assert any(not row.is_bundle for row in state.rows)
    assert any(object_keys.is_bundle(file_id) for file_id in state.files.live)
    assert any(not object_keys.is_bundle(file_id) for file_id in state.files.live)
    assert state.files.garbage
    assert found.recovered.version == whole.newest
    assert not outcome(whole.objects.fork(), whole).noticed
    assert not outcome(whole.objects.fork(), whole).wrong


@pytest.mark.parametrize("step", SOME)
@pytest.mark.parametrize("steps", SIZES)
def test_any_flipped_bit_is_noticed_or_of_no_use(steps, step):
    """Of no use: the index in front of pages, dead pages, garbage, ends of older checkpoints."""
    whole = small(steps=steps)
    used = used_bytes(whole)
    wrong, unnoticed, needless = [], [], []
    for key in whole.keys:
        content = whole.data(key)
        for offset in range(len(key) % step, len(content), step):
            damaged = with_object(whole.objects, key, flipped(content, offset, offset % 8))
            found = outcome(damaged, whole)
            wrong += [(key, offset, reason) for reason in found.wrong]
            if found.noticed and offset not in used[key]:
                needless.append((key, offset))
            if not found.noticed and offset in used[key]:
                unnoticed.append((key, offset))

    assert wrong == []
    assert unnoticed == []
    assert needless == []


@pytest.mark.parametrize("step", SOME)
@pytest.mark.parametrize("steps", SIZES)
def test_an_object_that_is_cut_short_is_noticed_or_of_no_use(steps, step):
    whole = small(steps=steps)
    used = used_bytes(whole)
    wrong, unnoticed = [], []
    for key in whole.keys:
        content = whole.data(key)
        for length in range(0, len(content), step):
            found = outcome(with_object(whole.objects, key, content[:length]), whole)
            wrong += [(key, length, reason) for reason in found.wrong]
            if not found.noticed and max(used[key], default=-1) >= length:
                unnoticed.append((key, length))

    assert wrong == []
    assert unnoticed == []


@pytest.mark.parametrize("steps", SIZES)
def test_an_object_with_more_at_its_end_is_noticed_or_of_no_use(steps):
    whole = small(steps=steps)
    newest = object_keys.checkpoint_key(whole.newest)
    for key in whole.keys:
        found = outcome(with_object(whole.objects, key, whole.data(key) + b"more"), whole)

        assert not found.wrong
        assert found.noticed == (key == newest)


@pytest.mark.parametrize("steps", SIZES)
def test_two_objects_that_are_swapped_are_noticed_or_of_no_use(steps):
    whole = small(steps=steps)
    used = used_bytes(whole)
    for one, other in itertools.combinations(whole.keys, 2):
        swapped = with_object(whole.objects, one, whole.data(other))
        found = outcome(with_object(swapped, other, whole.data(one)), whole)

        assert not found.wrong, (one, other)
        assert found.noticed == bool(used[one] or used[other]), (one, other)


@pytest.mark.parametrize("steps", SIZES)
def test_another_valid_object_in_its_place_is_noticed(steps):
    """An older one of this reservoir, which was right once."""
    whole = small(steps=steps)
    used = used_bytes(whole)
    for one, other in itertools.permutations(whole.keys, 2):
        found = outcome(with_object(whole.objects, one, whole.data(other)), whole)

        assert not found.wrong, (one, other)
        assert found.noticed == bool(used[one]), (one, other)


@pytest.mark.parametrize("steps", SIZES)
def test_an_object_of_another_reservoir_in_its_place_is_noticed(steps):
    """Made by the same steps, at the same version, with the same sizes."""
    whole, other = small(steps=steps), small(steps=steps, salt=b"x", seed=9)
    used = used_bytes(whole)
    for key in set(whole.keys) & set(other.keys):
        found = outcome(with_object(whole.objects, key, other.data(key)), whole)

        assert not found.wrong, key
        assert found.noticed == bool(used[key]), key


@pytest.mark.parametrize("steps", SIZES)
def test_an_object_that_is_gone_is_noticed(steps):
    whole = small(steps=steps)
    used = used_bytes(whole)
    newest = object_keys.checkpoint_key(whole.newest)
    for key in whole.keys:
        if key == newest:
            continue
        found = outcome(without(whole.objects, key), whole)

        assert not found.wrong, key
        assert found.noticed == bool(used[key]), key


def test_without_its_newest_version_a_reservoir_is_what_it_was_before():
    """Nobody can tell that from a writer who died just before; and it is whole."""
    whole = small()
    damaged = without(whole.objects, object_keys.checkpoint_key(whole.newest))

    with opened(damaged) as found:
        assert found.recovered.version == whole.newest - 1
        state = {page: found.read(page) for page in PAGES if found.read(page) is not None}

    assert state == whole.states[whole.newest - 1]


def test_data_files_without_any_checkpoint_are_no_empty_reservoir():
    whole = small()
    objects = whole.objects.fork()
    objects.delete([key for key in whole.keys if object_keys.version_of(key) is not None])
    before = objects.snapshot()

    with pytest.raises(Corrupt, match="no checkpoint"):
        opened(objects)

    assert objects.snapshot() == before


def test_a_reservoir_of_which_no_version_can_be_read_is_refused_and_left_alone():
    whole = small()
    objects = whole.objects
    for key in whole.keys:
        if object_keys.version_of(key) is not None:
            objects = with_object(
                objects, key, flipped(whole.data(key), len(whole.data(key)) - 1, 0)
            )
    before = objects.snapshot()

    with pytest.raises(Corrupt, match="no version can be read"):
        opened(objects)

    assert objects.snapshot() == before


@pytest.mark.parametrize("step", SOME)
def test_damage_is_never_copied_into_a_new_file(step):
    """Rewriting takes whole files; after it each page is right, or as unreadable as before."""
    whole = small()
    expected = whole.states[whole.newest]
    undamaged = whole.objects.fork()
    assert _wrong_after_work(undamaged, expected) == []
    assert len(_files_with_pages(whole) - undamaged.snapshot().keys()) > 1
    laundered = []
    for key in [key for key in whole.keys if not key.endswith(f"{whole.newest}")]:
        content = whole.data(key)
        for offset in range(len(key) % step, len(content), step):
            damaged = with_object(whole.objects, key, flipped(content, offset, offset % 8))
            laundered += [(key, offset, page) for page in _wrong_after_work(damaged, expected)]

    assert laundered == []


def _files_with_pages(whole: Small) -> set[str]:
    with opened(whole.objects.fork(), readonly=True) as found:
        return {object_keys.file_key(file_id) for file_id in found._state.files.live}


def _wrong_after_work(objects: SimObjects, expected: dict[int, bytes]) -> list[int]:
    """Pages that are wrong after a few checkpoints, which rewrite whatever they can."""
    try:
        reservoir = opened(objects, settings=GREEDY)
    except Corrupt:
        return []
    if reservoir.recovered.passed_over:
        reservoir.close()
        return []
    with reservoir:
        for number in range(4):
            with reservoir.session() as session:
                session.write(12, b"%d" % number)
                session.commit()
            reservoir.checkpoint()
    wrong = []
    with opened(objects, readonly=True) as found:
        for page, data in (expected | {12: b"3"}).items():
            try:
                if found.read(page) != data:
                    wrong.append(page)
            except Corrupt:
                continue
    return wrong
