"""Promise: a zone looks like a block of the log, with an empty slot for every missing record."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from strandline.lake.files.zone import Zone
from strandline.log.wal import block
from tests.unit.lake.cold_files import Row, plain_rows, table_of, write

_FIELDS = (block.KEY, block.TAG, block.NODE, block.META)
FULL: list[Row] = [
    (5, 50, b"k", "t", "n", b"m", b"five"),
    (6, 60, None, "ü€😀", None, b"", b""),
    (7, 60, b"", None, None, None, b"seven"),
]


def _zone(rows: list[Row], first_seq: int, last_seq: int) -> Zone:
    return write(rows, first_seq=first_seq, last_seq=last_seq).reader().zone(0)


def _as_block(rows: list[Row]) -> block.Block:
    """The same rows as the log would keep them."""
    draft = block.draft([row[6] for row in rows])
    for place, column in enumerate(_FIELDS):
        draft.add(column, [row[2 + place] for row in rows])
    draft.add_ts(pa.array([row[1] for row in rows]).to_numpy())
    header, _ = draft.finish(0, 7, rows[0][0], rows[-1][1])
    return block.Block(memoryview(b"".join([header, *draft.buffers])))


def test_a_zone_has_the_face_of_a_block():
    zone, same = _zone(FULL, 5, 7), _as_block(FULL)

    for name in ("topic_id", "first_seq", "last_seq", "count", "payload_size"):
        assert getattr(zone, name) == getattr(same, name), name
    assert zone.stamps().tolist() == same.stamps().tolist()
    assert zone.sizes().tolist() == same.sizes().tolist()
    assert zone.data().equals(same.data())
    for column in _FIELDS:
        assert zone.column(column).equals(same.column(column))


def test_a_column_without_values_is_no_column():
    zone = _zone(plain_rows([1, 2]), 1, 2)

    assert zone.column(block.NODE) is None
    assert zone.column(block.META) is None
    assert zone.column(block.TAG).to_pylist() == ["tag 1", "tag 2"]


def test_a_hole_is_an_empty_slot_with_the_stamp_before_it():
    zone = _zone([FULL[0], FULL[2]], 3, 9)

    assert zone.count == 7
    assert zone.holes() == BitMap64([3, 4, 6, 8, 9])
    assert zone.data().to_pylist() == [b"", b"", b"five", b"", b"seven", b"", b""]
    assert zone.column(block.TAG).to_pylist() == [None, None, "t", None, None, None, None]
    assert zone.stamps().tolist() == [50, 50, 50, 50, 60, 60, 60]
    assert zone.sizes().tolist() == [0, 0, 8, 0, 5, 0, 0]
    assert zone.payload_size == 13


def test_holes_at_the_start_of_a_zone_have_the_stamp_of_the_zone_before():
    reader = write(plain_rows([1, 2, 7, 8]), zone_rows=2).reader()

    zone = reader.zone(1)

    assert zone.first_seq == 3
    assert zone.stamps().tolist() == [2_000_000] * 4 + [7_000_000, 8_000_000]


def test_without_holes_columns_are_not_copied():
    rows = table_of(FULL)

    zone = Zone(rows, topic_id=7, first_seq=5, last_seq=7, ts=0)

    assert zone.holes() is None
    assert zone.data().buffers()[2].address == rows["data"].chunk(0).buffers()[2].address
    assert zone.stamps().ctypes.data == rows["ts"].chunk(0).buffers()[1].address


def test_chunks_become_one():
    rows = pa.concat_tables([table_of(FULL[:1]), table_of(FULL[1:])])

    zone = Zone(rows, topic_id=7, first_seq=5, last_seq=7, ts=0)

    assert zone.data().to_pylist() == [b"five", b"", b"seven"]
    assert zone.stamps().tolist() == [50, 60, 60]


def test_the_size_in_memory_counts_what_is_kept():
    payload = bytes(100_000)
    rows = [(seq, seq, None, None, None, None, payload) for seq in (1, 2, 4)]

    dense, with_hole = _zone(rows[:2], 1, 2), _zone(rows, 1, 4)

    assert 200_000 <= dense.size <= 400_000
    assert 600_000 <= with_hole.size <= 900_000  # the rows, and the slots


@given(st.sets(st.integers(1, 60)), st.integers(0, 5))
def test_holes_are_exactly_the_seqs_without_a_row(seqs, margin):
    last_seq = max(seqs, default=1) + margin

    zone = _zone(plain_rows(sorted(seqs)), 1, last_seq)

    missing = set(range(1, last_seq + 1)) - seqs
    assert set(zone.holes() or ()) == missing
    assert (zone.holes() is None) == (not missing)
    assert [bool(data) for data in zone.data().to_pylist()] == [
        seq in seqs for seq in range(1, last_seq + 1)
    ]
