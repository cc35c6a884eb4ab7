"""Promise: right bytes in the wrong place are wrong: of another page, file, version or reservoir.

Each has a valid checksum of its own; what makes it wrong is that it is not the one asked for.
"""

from __future__ import annotations

import numpy as np
import pytest

from strandline.errors import Corrupt
from strandline.reservoir import object_keys, recovery
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.page_reader import PageReader
from tests.corruption.reservoirs import Small, opened, outcome, small, with_object

DATA = b"the same bytes"


def test_the_checksum_of_a_page_covers_its_bytes_its_id_and_its_file():
    sums = {
        data_file_codec.page_checksum(data, page_id, file_id)
        for data in (DATA, DATA[:-1])
        for page_id in (1, 2, 1 << 40)
        for file_id in (1, 2, object_keys.bundle_id(7), object_keys.data_file_id(7, 1))
    }

    assert len(sums) == 2 * 3 * 4


def test_many_checksums_are_those_of_each_page():
    ids = np.array([1, 2, 1 << 62], dtype="<i8")
    for file_id in (1, object_keys.bundle_id(3)):
        many = data_file_codec.page_checksums([DATA, b"", DATA], ids, file_id).tolist()

        assert many == [
            data_file_codec.page_checksum(data, page_id, file_id)
            for data, page_id in zip([DATA, b"", DATA], ids.tolist(), strict=True)
        ]


def test_a_page_does_not_pass_for_another_and_not_for_itself_in_another_file():
    objects = small().objects.fork()
    found = recovery.recover(objects).state
    assert found is not None
    page_id = int(found.pages.all_pages()[0][0])
    place = found.pages.find(page_id)
    assert place is not None
    ref = found.files.live[place.file_id].ref
    reader = PageReader(objects)
    elsewhere = object_keys.data_file_id(50, 0)
    objects.put(object_keys.file_key(elsewhere), objects.get(object_keys.file_key(place.file_id)))

    assert reader.read(page_id, place, ref) == small().states[small().newest][page_id]
    with pytest.raises(Corrupt, match="fails its checksum"):
        reader.read(page_id + 1, place, ref)
    with pytest.raises(Corrupt, match="fails its checksum"):
        reader.read(
            page_id,
            place._replace(file_id=elsewhere),
            type(ref)(elsewhere, ref.size, ref.crc64, ref.flags),
        )


@pytest.mark.parametrize("wrong", ["file", "reservoir"])
def test_a_whole_file_with_the_right_checksum_must_say_who_it_is(wrong):
    objects = small().objects
    found = recovery.recover(objects).state
    assert found is not None
    ref = next(entry.ref for entry in found.files.live.values())
    data = objects.get(object_keys.file_key(ref.file_id))[: ref.size]
    asked = {"reservoir_id": found.reservoir_id, "file_id": ref.file_id}
    data_file_codec.check_file(data, "file", crc=ref.crc64, **asked)
    asked |= {"file_id": ref.file_id ^ 1} if wrong == "file" else {"reservoir_id": b"x" * 16}

    with pytest.raises(Corrupt, match="not the one that belongs here"):
        data_file_codec.check_file(data, "file", crc=ref.crc64, **asked)


def test_a_registry_that_was_right_yesterday_does_not_pass_for_todays():
    """An object is that of a copy which went another way: same reservoir, same version."""
    whole = small()
    other, ours = whole.objects.fork(), whole.objects.fork()
    opened(other, seed=7).close()
    with opened(ours, seed=8) as reservoir:
        with reservoir.session() as session:
            session.write(1, b"today")
            session.commit()
        newest = reservoir.checkpoint()
    before = whole.states[whole.newest]
    states = {**whole.states, newest - 1: before, newest: {**before, 1: b"today"}}
    key = object_keys.checkpoint_key(newest - 1)

    found = outcome(with_object(ours, key, other.get(key)), Small(ours, states))

    assert (found.version, found.passed_over) == (newest - 1, True)
    assert not found.wrong
