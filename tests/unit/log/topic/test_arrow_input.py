"""Promise: whatever shape Arrow gives a batch, the log stores what it says."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.store.world import World, read_all

DATA = [b"a", b"", b"ccc", bytes(600), b"e"]
TAGS = ["eu", None, "", "ü", "us"]


def _found(source: pa.RecordBatch | pa.Table) -> tuple[list[bytes], list[str | None]]:
    """Data and tags as they are read before and after a restart."""
    world = World()
    topic = world.store.topic("t")
    topic.append_arrow(source)
    before = read_all(topic)
    assert read_all(world.kill().topic("t")) == before
    return [record.data for record in before], [record.tag for record in before]


@pytest.mark.parametrize(
    "binary",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())],
)
@pytest.mark.parametrize(
    "text",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
)
def test_every_binary_and_text_type_is_taken(binary, text):
    columns = {"data": pa.array(DATA).cast(binary), "tag": pa.array(TAGS).cast(text)}

    assert _found(pa.record_batch(columns)) == (DATA, TAGS)


@pytest.mark.parametrize(("first", "following"), [(0, 3), (1, 4), (2, 5), (4, 5), (0, 5)])
def test_a_slice_is_stored_as_the_slice(first, following):
    batch = pa.record_batch({"data": pa.array(DATA), "tag": pa.array(TAGS)})

    found = _found(batch.slice(first, following - first))

    assert found == (DATA[first:following], TAGS[first:following])


def test_a_slice_of_many_rows_keeps_its_nulls_in_place():
    tags = [None if number % 3 else f"t{number}" for number in range(100)]
    batch = pa.record_batch({"data": pa.array([b"x"] * 100), "tag": pa.array(tags)})

    for first in (1, 7, 8, 9, 63, 64, 65):
        assert _found(batch.slice(first, 20))[1] == tags[first : first + 20]


def test_chunks_are_joined():
    tables = [
        pa.table({"data": pa.array(DATA[:2]), "tag": pa.array(TAGS[:2])}),
        pa.table({"data": pa.array([], pa.binary()), "tag": pa.array([], pa.string())}),
        pa.table({"data": pa.array(DATA[2:]), "tag": pa.array(TAGS[2:])}),
    ]

    assert _found(pa.concat_tables(tables)) == (DATA, TAGS)


def test_a_column_of_nothing_is_no_column():
    batch = pa.record_batch({"data": pa.array([b"a", b"b"]), "tag": pa.nulls(2)})

    assert _found(batch) == ([b"a", b"b"], [None, None])


def test_fixed_size_binary_is_taken():
    batch = pa.record_batch({"data": pa.array([b"ab", b"cd"], pa.binary(2))})

    assert _found(batch)[0] == [b"ab", b"cd"]
