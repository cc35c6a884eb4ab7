"""Promise: a name tells what its object is, no two writers give out the same, and a name that is
not ours is nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.platform.objectstore.protocol import check_key
from strandline.reservoir import object_keys

VERSIONS = st.integers(1, object_keys.VERSION_MAX)
NUMBERS = st.integers(0, (1 << 32) - 1)


@given(VERSIONS)
def test_a_checkpoint_is_found_by_its_name(version):
    key = check_key(object_keys.checkpoint_key(version))

    assert object_keys.version_of(key) == version
    assert object_keys.file_of(key) is None


@given(VERSIONS, NUMBERS)
def test_a_data_file_is_found_by_its_name(term, number):
    file_id = object_keys.data_file_id(term, number)
    key = check_key(object_keys.file_key(file_id))

    assert object_keys.file_of(key) == file_id
    assert object_keys.version_of(key) is None
    assert object_keys.origin_of(file_id) == term
    assert not object_keys.is_bundle(file_id)


@given(VERSIONS)
def test_a_bundle_is_in_the_object_of_its_checkpoint(version):
    file_id = object_keys.bundle_id(version)

    assert object_keys.is_bundle(file_id)
    assert object_keys.file_key(file_id) == object_keys.checkpoint_key(version)
    assert object_keys.bundle_version(file_id) == object_keys.origin_of(file_id) == version


@given(st.tuples(VERSIONS, NUMBERS), st.tuples(VERSIONS, NUMBERS))
def test_two_writers_give_out_different_files(one, other):
    assert (object_keys.data_file_id(*one) == object_keys.data_file_id(*other)) == (one == other)


@given(VERSIONS, VERSIONS)
def test_names_of_checkpoints_are_in_the_order_of_versions(one, other):
    assert (object_keys.checkpoint_key(one) < object_keys.checkpoint_key(other)) == (one < other)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "checkpoints",
        "checkpoints/1",
        f"checkpoints/{0:020d}",
        f"checkpoints/{object_keys.VERSION_MAX + 1:020d}",
        f"checkpoints/{1:021d}",
        f"checkpoints/{1:020d}.part",
        f"elsewhere/{1:020d}",
        f"x/checkpoints/{1:020d}",
        "checkpoints/" + "\u0661" * 20,
        "data/",
        "data/1",
        f"data/{0:016x}",
        f"data/{object_keys.bundle_id(1):016x}",
        f"data/{10 << 32:016X}",
        f"data/{1 << 32:017x}",
        f"elsewhere/{1 << 32:016x}",
        "data/+00000010000000a",
    ],
)
def test_other_names_are_nothing(key):
    assert object_keys.version_of(key) is None
    assert object_keys.file_of(key) is None
