"""Promise: what is staged comes out as it went in, in order, in chunks that a topic takes."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt, Invalid, ObjectStoreUnreachable
from strandline.ingest import staged_files
from strandline.ingest.staged_files import CHUNK_BYTES, CHUNK_ROWS, chunked, read_chunks, stage
from strandline.platform.objectstore.local import FolderObjects
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.unit.ingest.deliveries import data_of, rows

KEY = "incoming/file-0.arrow"


def key_of(place):
    return f"incoming/file-{place}.arrow"


@given(
    sizes=st.lists(st.integers(0, 40), max_size=12),
    chunk_rows=st.integers(1, 30),
    chunk_bytes=st.integers(1, 400),
    file_bytes=st.integers(1, 2000),
    sliced=st.booleans(),
)
def test_rows_come_out_as_they_went_in(sizes, chunk_rows, chunk_bytes, file_bytes, sliced):
    total = sum(sizes)
    data = [b"%d" % place * (place % 7) for place in range(total)]
    whole = rows(*data, tag=[None if place % 3 else "eu" for place in range(total)])
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    batches = [whole.slice(start, size) for start, size in zip(starts, sizes, strict=True)]
    if not sliced:
        batches = [pa.concat_batches([batch, batch.slice(0, 0)]) for batch in batches]
    objects = SimObjects()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged_files, "CHUNK_ROWS", chunk_rows)
        patch.setattr(staged_files, "CHUNK_BYTES", chunk_bytes)
        patch.setattr(staged_files, "FILE_BYTES", file_bytes)
        staged = stage(objects, key_of, batches)

    keys = [file.key for file in staged]
    assert keys == [key_of(place) for place in range(len(staged))]
    assert sorted(objects.snapshot()) == sorted(keys)
    read = [list(read_chunks(objects, file)) for file in staged]
    found = [chunk for chunks in read for chunk in chunks]
    assert pa.Table.from_batches(found, whole.schema) == pa.Table.from_batches([whole])
    for file, chunks in zip(staged, read, strict=True):
        assert (file.rows, file.chunks) == (sum(map(len, chunks)), len(chunks))
        assert file.size == len(objects.get(file.key))
        assert sum(chunk.nbytes for chunk in chunks[:-1]) < file_bytes
    assert all(0 < len(chunk) <= chunk_rows for chunk in found)
    assert all(len(chunk) == 1 or chunk.nbytes <= chunk_bytes + 40 for chunk in found)


def test_a_file_that_is_large_enough_is_followed_by_another(monkeypatch):
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 1)
    monkeypatch.setattr(staged_files, "FILE_BYTES", 250)
    objects = SimObjects()

    staged = stage(objects, key_of, [rows(*[bytes(100)] * 7)])

    assert [file.rows for file in staged] == [3, 3, 1]


def test_no_rows_leave_no_file():
    objects = SimObjects()

    assert stage(objects, key_of, []) == ()
    assert stage(objects, key_of, [rows(), rows()]) == ()
    assert objects.snapshot() == {}


def test_small_batches_share_a_chunk_and_empty_ones_leave_no_trace():
    found = list(chunked([rows(), *[rows(b"x")] * 1000, rows()]))

    assert [len(chunk) for chunk in found] == [1000]


def test_slices_of_one_large_table_share_a_chunk():
    table = rows(*[bytes(1000)] * 20_000)

    found = list(chunked(table.slice(start, 100) for start in range(0, 20_000, 100)))

    assert len(found) <= 3
    assert sum(map(len, found)) == 20_000


def test_a_chunk_is_never_larger_than_a_store_takes():
    huge = rows(*[bytes(CHUNK_BYTES // 10)] * 25)
    many = rows(*[b""] * (2 * CHUNK_ROWS + 1))

    chunks = [*chunked([huge]), *chunked([many])]

    assert all(len(chunk) <= CHUNK_ROWS and chunk.nbytes <= CHUNK_BYTES for chunk in chunks)
    assert sum(map(len, chunks)) == 25 + 2 * CHUNK_ROWS + 1


def test_a_row_that_is_too_large_is_a_chunk_of_its_own():
    found = list(chunked([rows(b"a", bytes(CHUNK_BYTES + 1), b"b"), rows(b"c")]))

    assert [len(chunk) for chunk in found] == [1, 1, 2]
    assert [value[:1] for value in data_of(found)] == [b"a", b"\0", b"b", b"c"]


@pytest.mark.parametrize("chunk_rows", [1, 1000], ids=["next chunk", "same chunk"])
def test_rows_of_another_schema_are_refused_and_no_file_is_left(monkeypatch, chunk_rows):
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", chunk_rows)
    disk = SimDisk()
    objects = FolderObjects("/lake", disk)

    with pytest.raises(Invalid, match="one schema"):
        stage(objects, key_of, [rows(b"a"), rows(b"b"), rows(b"c", tag=["eu"])])

    assert list(objects.list()) == []


@pytest.mark.parametrize("file_bytes", [1, 1000], ids=["next file", "same file"])
def test_an_error_of_whoever_gives_the_rows_leaves_no_file(monkeypatch, file_bytes):
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 1)
    monkeypatch.setattr(staged_files, "FILE_BYTES", file_bytes)
    objects = FolderObjects("/lake", SimDisk())

    def broken():
        yield rows(b"a", b"b")
        raise RuntimeError("the task died")

    with pytest.raises(RuntimeError):
        stage(objects, key_of, broken())

    assert list(objects.list()) == []


def _staged(objects):
    (staged,) = stage(objects, key_of, [rows(b"a" * 50, b"b" * 50)])
    return staged


def test_a_staged_file_that_is_gone_cut_or_another_is_noticed():
    objects = SimObjects()
    staged = _staged(objects)
    data = objects.get(KEY)
    other = SimObjects()
    stage(other, key_of, [rows(b"c" * 50, b"d" * 50)])

    for wrong in (data[:-1], data + b"\0", b"", other.get(KEY)):
        objects.put(KEY, wrong)
        with pytest.raises(Corrupt, match="other bytes"):
            list(read_chunks(objects, staged))
    objects.delete([KEY])
    with pytest.raises(Corrupt, match="missing"):
        list(read_chunks(objects, staged))


def test_every_damaged_byte_of_a_staged_file_is_noticed():
    objects = SimObjects()
    staged = _staged(objects)
    data = objects.get(KEY)

    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        objects.put(KEY, flipped)
        with pytest.raises(Corrupt):
            list(read_chunks(objects, staged))


@pytest.mark.parametrize("how", ["flipped", "truncated"])
def test_bytes_that_change_on_the_way_once_are_read_again(how):
    objects = SimObjects()
    staged = _staged(objects)
    objects.fail("get", how=how)

    assert data_of(list(read_chunks(objects, staged))) == [b"a" * 50, b"b" * 50]


def test_a_store_that_does_not_answer_is_no_damage():
    objects = SimObjects()
    staged = _staged(objects)
    objects.fail("get")

    with pytest.raises(ObjectStoreUnreachable):
        list(read_chunks(objects, staged))


def test_bytes_that_are_no_rows_are_noticed_though_they_are_what_was_delivered():
    objects = SimObjects()
    objects.put(KEY, b"no Arrow stream")
    staged = msgspec.structs.replace(
        _staged(SimObjects()),
        size=15,
        checksum=staged_files.xxh3_128(b"no Arrow stream").hexdigest(),
    )

    with pytest.raises(Corrupt, match="not an Arrow stream"):
        list(read_chunks(objects, staged))
