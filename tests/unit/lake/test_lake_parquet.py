"""Promise: a lake file is plain Parquet, with everything in it that lets other engines be quick."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from strandline.lake.files.record_columns import SCHEMA
from tests.unit.lake.cold_files import STORE_ID, TOPIC_ID, ColdFile, plain_rows, rows_of, write

ROWS = [
    *plain_rows(range(1, 50)),
    (60, 60_000_000, b"\x00\xff", "ü€😀", "node", b"meta", b"\x00\xff"),
    *plain_rows(range(70, 101)),
]


@pytest.fixture
def file() -> ColdFile:
    return write(ROWS, last_seq=120, zone_rows=30)


def _filter_size(rows: int, values: int) -> int:
    made = [(seq, seq, b"%d" % (seq % values), None, None, None, b"") for seq in range(1, rows + 1)]
    metadata = pq.read_metadata(pa.BufferReader(write(made, zone_rows=rows).content))
    return metadata.row_group(0).column(2).bloom_filter_length


@pytest.fixture
def path(file: ColdFile, tmp_path) -> str:
    place = tmp_path / file.entry.name()
    place.write_bytes(file.content)
    return str(place)


def test_pyarrow_reads_the_file(path):
    assert rows_of(pq.read_table(path, page_checksum_verification=True)) == ROWS
    assert pq.read_schema(path).remove_metadata().equals(SCHEMA)


def test_a_dataset_reads_the_file(path):
    dataset = pyarrow.dataset.dataset(path)

    some = dataset.to_table(filter=pyarrow.dataset.field("seq") > 95)

    assert rows_of(dataset.to_table()) == ROWS
    assert rows_of(some) == ROWS[-5:]


def test_duckdb_reads_the_file(path):
    with duckdb.connect() as connection:
        table = connection.execute(
            "select seq, epoch_us(ts) as ts, key, tag, node, meta, data"
            " from read_parquet(?) order by seq",
            [path],
        ).fetchall()
        (found,) = connection.execute(
            "select seq from read_parquet(?) where key = 'key 77'::blob", [path]
        ).fetchall()

    assert table == ROWS
    assert found == (77,)


def test_row_groups_are_zones_in_order_of_seq(file, path):
    metadata = pq.read_metadata(path)

    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]

    assert [group.num_rows for group in groups] == [30, 30, 21]
    assert [group.column(0).statistics.min for group in groups] == [1, 31, 80]
    assert all(group.sorting_columns[0].column_index == 0 for group in groups)


def test_every_column_has_statistics_an_index_and_zstd(path):
    metadata = pq.read_metadata(path)

    for group in range(metadata.num_row_groups):
        for place, name in enumerate(SCHEMA.names):
            column = metadata.row_group(group).column(place)
            assert column.is_stats_set, name
            assert column.has_column_index, name
            assert column.has_offset_index, name
            assert column.compression == "ZSTD", name


def test_key_and_tag_have_bloom_filters(path):
    metadata = pq.read_metadata(path)

    for place, name in enumerate(SCHEMA.names):
        column = metadata.row_group(0).column(place)
        assert (column.bloom_filter_offset is not None) == (name in ("key", "tag")), name


def test_a_bloom_filter_is_as_large_as_its_values_ask_for():
    few, many = _filter_size(2000, values=3), _filter_size(2000, values=2000)

    assert few < 100
    assert 2000 * 6 / 8 < many < 2000 * 6


def test_pages_have_checksums(file, tmp_path):
    damaged = bytearray(file.content)
    zone = file.reader().zones[0]
    damaged[zone.offset + zone.size - 5] ^= 1
    place = tmp_path / "damaged.parquet"
    place.write_bytes(damaged)

    with pytest.raises(OSError, match="CRC"):
        pq.read_table(place, page_checksum_verification=True)


def test_the_file_says_whose_it_is_and_how_its_zones_check(file, path):
    kept = pq.read_metadata(path).metadata

    assert kept[b"strandline.format"] == b"1"
    assert kept[b"strandline.topic_id"] == b"0000000000000007"
    assert kept[b"strandline.store_id"].decode() == STORE_ID.hex()
    zones = json.loads(kept[b"strandline.zones"])
    assert [zone[:2] for zone in zones] == [[1, 30], [31, 79], [80, 100]]
    for _, _, offset, size, checksum in zones:
        stored = file.content[offset : offset + size]
        assert xxh3_64_intdigest(stored, TOPIC_ID) == checksum


def test_the_entry_describes_the_file(file):
    entry, content = file.entry, file.content

    assert entry.content == xxh3_128_hexdigest(content)
    assert entry.tail_checksum == xxh3_64_intdigest(content[entry.tail_offset :], TOPIC_ID)
    footer_size = int.from_bytes(content[-8:-4], "little")
    assert entry.tail_offset == len(content) - 8 - footer_size
    assert (entry.rows, entry.ts_min, entry.ts_max) == (81, 1_000_000, 100_000_000)
    assert entry.payload == sum(
        len(value.encode() if isinstance(value, str) else value)
        for row in ROWS
        for value in row[2:]
        if value is not None
    )
    assert isinstance(pa.table(file.reader().zone(0).rows), pa.Table)
