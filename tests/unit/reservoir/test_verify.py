"""Promise: a verification notices every damage, names its place, takes nothing else for one, and
changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from strandline.config.settings import ReservoirSettings
from strandline.errors import NotFound, ObjectStoreUnreachable, UnsupportedFormat
from strandline.reservoir import object_keys, verify
from strandline.reservoir.checkpoint_codec import FOOTER_SIZE
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.data_files.data_file_table import FileTable
from strandline.reservoir.inspect import inspect
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_objects import SimObjects
from tests.unit.reservoir.cached_files import flipped

SETTINGS = ReservoirSettings(file_bytes=1_000, snapshot_interval=4, retained_versions=2)
STRIDE = 23
"""Flip a bit at every so manyth byte; all residues take minutes."""


def fill(reservoir: Reservoir, steps: range) -> None:
    """Changes that make data files, bundles, garbage and deletes."""
    for step in steps:
        with reservoir.session() as session:
            for page_id in range(1, 5 if step % 3 else 25):
                session.write(page_id * (1 + step % 2), b"%d of step %d " % (page_id, step) * 6)
            session.delete(7 + step)
            session.commit()
        reservoir.checkpoint()


@pytest.fixture
def objects() -> SimObjects:
    """A reservoir with every kind of object."""
    made = SimObjects()
    with Reservoir(made, settings=SETTINGS) as reservoir:
        fill(reservoir, range(9))
    return made


def data_files(objects: SimObjects) -> list[str]:
    """Names of data files that have live pages."""
    return [each.key for each in inspect(objects).files if each.key.startswith(object_keys.DATA)]


def damage(objects: SimObjects, key: str, offset: int) -> None:
    """Flip a bit; a negative offset is from the end."""
    stored = objects.snapshot()[key].data
    replace(objects, key, flipped(stored, offset % len(stored)))


def replace(objects: SimObjects, key: str, data: bytes) -> None:
    objects.delete([key])
    objects.put(key, data)


def test_a_whole_reservoir_is_good_and_all_of_it_was_looked_at(objects: SimObjects):
    there = inspect(objects)

    report = verify.verify(objects)

    assert report.damage == []
    assert (report.version, report.id, report.pages) == (there.version, there.id, there.pages)
    assert report.checkpoints == len(there.checkpoints) >= 3
    assert report.files >= len(there.files) + len(there.garbage)
    assert {each.bundle for each in there.checkpoints} == {True, False}
    assert there.garbage


def test_a_flipped_bit_anywhere_is_noticed_and_its_object_is_named(objects: SimObjects):
    there = inspect(objects)
    used = {object_keys.checkpoint_key(each.version): 0 for each in there.checkpoints}
    used |= {each.key: each.size for each in (*there.files, *there.garbage)}
    unnoticed = []

    for key, size in used.items():
        stored = objects.snapshot()[key].data
        # Of a checkpoint that no version is put together from only the pages are needed.
        end = (
            size
            if key not in {object_keys.checkpoint_key(c.version) for c in there.checkpoints}
            else 0
        )
        for offset in range(0, end or len(stored), STRIDE):
            twin = objects.fork()
            damage(twin, key, offset)
            report = verify.verify(twin)
            if key not in {each.object for each in report.damage}:
                unnoticed.append((key, offset))

    assert unnoticed == []


def test_a_damaged_page_is_named_with_its_place(objects: SimObjects):
    with Reservoir(objects, readonly=True) as reservoir:
        place = reservoir.place(3)
    assert place is not None

    damage(objects, object_keys.file_key(place.file_id), place.offset + 1)
    (found,) = verify.verify(objects).damage

    assert (found.object, found.offset, found.page) == (
        object_keys.file_key(place.file_id),
        place.offset,
        3,
    )
    assert found.reason == "a page fails its checksum"


def test_bytes_of_dead_pages_are_checked_by_the_files_own_checksum(objects: SimObjects):
    with Reservoir(objects, readonly=True) as reservoir:
        for file in inspect(objects).files:
            data = objects.snapshot()[file.key].data[: file.size]
            _, ids, offsets = data_file_codec.decode_index(data, file.key)
            places = [reservoir.place(int(page_id)) for page_id in ids]
            dead = [
                int(offset)
                for place, offset in zip(places, offsets, strict=False)
                if place is None or (place.file_id, place.offset) != (int(file.file_id, 16), offset)
            ]
            if dead:
                break

    damage(objects, file.key, dead[0])
    (found,) = verify.verify(objects).damage

    assert (found.object, found.page) == (file.key, None)
    assert "outside of live pages" in found.reason


def test_a_file_that_is_gone_is_one_damage_with_its_pages_counted(objects: SimObjects):
    file = next(each for each in inspect(objects).files if each.key.startswith(object_keys.DATA))

    objects.delete([file.key])
    (found,) = verify.verify(objects).damage

    assert found.object == file.key
    assert found.reason == f"a data file is missing, with {file.live_pages} live pages"


def test_a_file_that_is_cut_short_tells_where_and_which_pages_are_lost(objects: SimObjects):
    key = data_files(objects)[0]
    stored = objects.snapshot()[key].data

    replace(objects, key, stored[:-1])
    first, *pages = verify.verify(objects).damage

    assert (first.object, first.offset) == (key, len(stored) - 1)
    assert len(pages) <= 1
    assert all(each.page is not None for each in pages)


def test_a_valid_file_in_the_place_of_another_is_noticed(objects: SimObjects):
    first, second = data_files(objects)[:2]
    stored = objects.snapshot()

    replace(objects, first, stored[second].data)
    replace(objects, second, stored[first].data)
    found = verify.verify(objects).damage

    assert {each.object for each in found} == {first, second}


def test_what_only_a_mistake_of_the_writer_can_make_is_noticed(monkeypatch: pytest.MonkeyPatch):
    """Every checksum is right, and what they cover does not fit together."""
    encode, told = data_file_codec.encode_index, []

    def of_other_pages(ids, *rest, **more):
        return encode(ids + 1, *rest, **more)

    def of_another_file(*rest, file_id, **more):
        return encode(*rest, file_id=file_id + 1, **more)

    for owner, name, mistake in (
        (data_file_codec, "encode_index", of_other_pages),
        (data_file_codec, "encode_index", of_another_file),
        (FileTable, "count_dead", lambda *_: None),
    ):
        objects = SimObjects()
        with monkeypatch.context() as patch, Reservoir(objects) as reservoir:
            patch.setattr(owner, name, mistake)
            with reservoir.session() as session:
                for page_id in (5, 6, 5):
                    session.write(page_id, b"page")
                    session.commit()
                    reservoir.checkpoint()
        told.append({each.reason for each in verify.verify(objects).damage})

    assert told == [
        {"a page is not at the offset in the index of its file"},
        {"a data file is another one"},
        {"0 pages are live, and 0 of 1 dead"},
    ]


def test_a_checkpoint_that_only_older_versions_need_is_missed(objects: SimObjects):
    first, *_, newest = inspect(objects).checkpoints
    assert newest.version - first.version >= 2
    with Reservoir(objects, settings=SETTINGS) as reservoir:
        while inspect(objects).checkpoints[-1].kind != "snapshot":
            fill(reservoir, range(1))

    oldest = inspect(objects).checkpoints[0]
    objects.delete([object_keys.checkpoint_key(oldest.version)])
    found = verify.verify(objects).damage

    assert {each.object for each in found} == {object_keys.checkpoint_key(oldest.version)}
    assert "a checkpoint is missing: older versions cannot be recovered" in {
        each.reason for each in found
    }


def test_an_older_copy_of_a_checkpoint_is_noticed(objects: SimObjects):
    """Valid in itself, with the right name, from another history of the same reservoir."""
    other = objects.fork()
    for store, step in ((objects, 1), (other, 2)):
        with Reservoir(store, settings=SETTINGS) as reservoir:
            fill(reservoir, range(step, step + 2))
    versions = [each.version for each in inspect(objects).checkpoints]
    unnoticed = []

    for version in versions[:-1]:
        key = object_keys.checkpoint_key(version)
        twin, stranger = objects.fork(), other.snapshot()[key].data
        replace(twin, key, stranger)
        if verify.verify(twin).ok and stranger != objects.snapshot()[key].data:
            unnoticed.append(version)

    assert unnoticed == []
    assert versions[-2] > 10  # one that the two histories do not share


def test_no_version_that_can_be_read_is_a_damage_and_no_crash(objects: SimObjects):
    for each in inspect(objects).checkpoints:
        damage(objects, object_keys.checkpoint_key(each.version), -1)

    report = verify.verify(objects)

    assert (report.ok, report.version) == (False, 0)


def test_a_bit_that_flips_on_the_way_is_no_damage(objects: SimObjects):
    calls = objects.fork()
    verify.verify(calls)
    total = calls.calls["get_ranges"]

    for nth in range(1, total + 1):
        twin = objects.fork()
        twin.fail("get_ranges", nth, how="flipped")

        assert verify.verify(twin).damage == []


def test_what_a_writer_gives_up_meanwhile_is_no_damage(objects: SimObjects):
    writer = Reservoir(objects, settings=SETTINGS)
    fill(writer, range(2))
    seen = []

    def go_on(operation: str, key: str) -> None:
        if operation == "get_ranges" and key.startswith(object_keys.DATA) and not seen:
            seen.append(key)
            fill(writer, range(9))

    objects.on_call = go_on
    before = set(objects.snapshot())
    report = verify.verify(objects)
    objects.on_call = None
    writer.close()

    assert seen
    assert before - set(objects.snapshot())
    assert report.damage == []


def test_objects_that_are_not_counted_on_are_named_and_are_no_damage(objects: SimObjects):
    objects.put("notes.txt", b"by hand")
    objects.put(object_keys.file_key(object_keys.data_file_id(1, 999)), b"of a writer that died")

    report = verify.verify(objects)

    assert report.damage == []
    assert [each.key for each in report.unknown] == ["notes.txt"]
    assert [each.key for each in report.left_over] == [
        object_keys.file_key(object_keys.data_file_id(1, 999))
    ]


def test_what_was_set_aside_after_damage_is_named_until_it_is_cleaned(objects: SimObjects):
    broken = object_keys.checkpoint_key(inspect(objects).version)
    footer_at = len(objects.snapshot()[broken].data) - FOOTER_SIZE
    damage(objects, broken, -1)
    before = verify.verify(objects)

    with Reservoir(objects, settings=SETTINGS):
        pass
    taken_over = verify.verify(objects)
    with Reservoir(objects, settings=SETTINGS) as reservoir:
        reservoir.clean()
    cleaned = verify.verify(objects)

    assert [(each.object, each.offset) for each in before.damage] == [(broken, footer_at)]
    assert taken_over.damage == []
    assert broken in {each.key for each in taken_over.set_aside}
    assert (cleaned.damage, cleaned.set_aside) == ([], [])


def test_a_verification_asks_for_bytes_only(objects: SimObjects):
    stored = objects.snapshot()
    objects.calls.clear()

    verify.verify(objects)

    assert set(objects.calls) <= {"list", "get_ranges", "get", "head"}
    assert objects.snapshot() == stored


def test_progress_is_told_to_its_end(objects: SimObjects):
    told: dict[str, list[tuple[int, int]]] = {}

    verify.verify(
        objects, lambda what, done, total: told.setdefault(what, []).append((done, total))
    )

    assert set(told) == {"checkpoints", "files"}
    for steps in told.values():
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1] > 0


def test_a_store_that_does_not_answer_is_no_damage(objects: SimObjects):
    objects.fail("get_ranges", 3, once=False)

    with pytest.raises(ObjectStoreUnreachable):
        verify.verify(objects)


def test_nothing_is_no_reservoir():
    with pytest.raises(NotFound, match="there is no reservoir"):
        verify.verify(SimObjects())


def test_a_newer_format_is_told_as_such(objects: SimObjects):
    key = object_keys.checkpoint_key(inspect(objects).version)
    stored = bytearray(objects.snapshot()[key].data)
    stored[-60:-58] = b"\x02\x00"
    stored[-8:] = np.uint64(data_file_codec.crc64(bytes(stored[-64:-8]))).tobytes()
    replace(objects, key, bytes(stored))

    with pytest.raises(UnsupportedFormat, match="format 2"):
        verify.verify(objects)
