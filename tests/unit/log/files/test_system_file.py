"""Promise (C1, C10): a directory is a store, becomes one, or is left as it is with a clear word.

Which store it is never changes; over how many shards it was last written does.
"""

from __future__ import annotations

import errno
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_hexdigest

from strandline.errors import Corrupt, NotAStore, StrandlineError, UnsupportedFormat
from strandline.log.files import system_file
from strandline.testing import strategies
from strandline.testing.sim_disk import SimDisk

PATH = "/data/SYSTEM"


def _disk(content: bytes | None = None) -> SimDisk:
    disk = SimDisk()
    disk.make_dirs("/data")
    if content is not None:
        disk.durable_replace(PATH, content)
    return disk


@given(st.integers(0, 2**62))
def test_the_identity_that_was_made_is_read_again(now_us):
    disk = _disk()

    store_id = system_file.ensure(disk, "/data", now_us)

    assert len(store_id) == 16
    assert (
        system_file.read(disk, "/data") == system_file.ensure(disk, "/data", now_us + 1) == store_id
    )


@given(st.data())
def test_a_garbled_system_file_is_refused(data):
    disk = _disk()
    store_id = system_file.ensure(disk, "/data", 17)
    whole = disk.read(PATH)
    garbled = data.draw(strategies.garbled(whole))
    disk.durable_replace(PATH, garbled)

    if garbled == whole:
        assert system_file.read(disk, "/data") == store_id
    else:
        with pytest.raises((Corrupt, UnsupportedFormat)):
            system_file.read(disk, "/data")


def test_no_beginning_of_a_system_file_is_one():
    disk = _disk()
    system_file.ensure(disk, "/data", 17)
    whole = disk.read(PATH)

    for size in range(len(whole)):
        disk.durable_replace(PATH, whole[:size])
        with pytest.raises(Corrupt):
            system_file.read(disk, "/data")


@given(st.binary(max_size=100))
def test_garbage_is_refused(content):
    with pytest.raises(Corrupt):
        system_file.read(_disk(content), "/data")


@given(
    st.dictionaries(
        st.sampled_from(["format", "store_id", "created_us", "checksum", "other"]),
        st.none() | st.integers() | st.text(max_size=40) | st.lists(st.integers(), max_size=2),
    )
)
def test_any_json_is_refused(fields):
    with pytest.raises(StrandlineError):
        system_file.read(_disk(json.dumps(fields).encode()), "/data")


def test_a_newer_format_is_told_apart_from_damage():
    fields = {"format": 2, "store_id": "00" * 16, "created_us": 1, "checksum": ""}
    line = json.dumps(fields, separators=(",", ":"))
    fields["checksum"] = xxh3_64_hexdigest(line.encode())
    newer = json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    with pytest.raises(UnsupportedFormat, match="format 2"):
        system_file.read(_disk(newer), "/data")


@given(st.lists(st.integers(0, 64)))
def test_the_shards_of_the_last_writer_are_told_and_nothing_else_changes(openings):
    disk = _disk()
    store_id = system_file.ensure(disk, "/data", 17, shards=3)

    for shards in openings:
        system_file.note_shards(disk, "/data", shards)

    about = system_file.describe(disk, "/data")
    assert about.shards == [3, *openings][-1]
    assert (about.store_id, about.created_us, about.format) == (store_id.hex(), 17, 1)


def test_the_file_is_not_written_again_when_the_shards_are_the_same():
    disk = _disk()
    system_file.ensure(disk, "/data", 17, shards=2)
    calls: list[str] = []
    disk.on_call = lambda operation, path: calls.append(operation)

    system_file.note_shards(disk, "/data", 2)

    assert "durable_replace" not in calls


def test_a_file_from_before_there_were_shards_in_it_is_read_and_gets_them():
    fields = {"format": 1, "store_id": "ab" * 16, "created_us": 17, "checksum": ""}
    line = json.dumps(fields, separators=(",", ":"))
    fields["checksum"] = xxh3_64_hexdigest(line.encode())
    disk = _disk(json.dumps(fields, separators=(",", ":")).encode() + b"\n")

    before = system_file.describe(disk, "/data")
    system_file.note_shards(disk, "/data", 4)

    after = system_file.describe(disk, "/data")
    assert (before.store_id, before.created_us, before.shards) == ("ab" * 16, 17, 0)
    assert (after.store_id, after.created_us, after.shards) == ("ab" * 16, 17, 4)


def test_a_full_disk_is_no_reason_not_to_open():
    disk = _disk()
    store_id = system_file.ensure(disk, "/data", 17, shards=1)
    disk.fail("durable_replace", errno=errno.ENOSPC)

    system_file.note_shards(disk, "/data", 2)

    assert system_file.describe(disk, "/data").shards == 1
    assert system_file.read(disk, "/data") == store_id


def test_a_disk_that_fails_is_one():
    disk = _disk()
    system_file.ensure(disk, "/data", 17, shards=1)
    disk.fail("durable_replace", errno=errno.EIO)

    with pytest.raises(OSError, match="SYSTEM"):
        system_file.note_shards(disk, "/data", 2)


def test_a_directory_with_other_things_is_not_made_a_store():
    disk = _disk()
    disk.durable_replace("/data/thesis.txt", b"mine")

    with pytest.raises(NotAStore, match=r"thesis\.txt"):
        system_file.ensure(disk, "/data", 1)

    assert disk.list_dir("/data") == ["thesis.txt"]


@pytest.mark.parametrize("name", ["wal", "meta"])
def test_a_store_that_lost_its_system_file_is_not_made_anew(name):
    disk = _disk()
    disk.make_dirs(f"/data/{name}")

    with pytest.raises(Corrupt, match="SYSTEM file is missing"):
        system_file.ensure(disk, "/data", 1)


def test_a_directory_without_a_system_file_is_no_store_to_read():
    with pytest.raises(NotAStore):
        system_file.read(_disk(), "/data")
