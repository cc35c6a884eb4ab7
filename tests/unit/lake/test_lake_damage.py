"""Promise (C1): no damaged byte of a lake file is ever served, and the error says what is lost.

Zones and footer are checked whenever they are read. Between them lie the bloom filters and the page
index, which Strandline never reads; the content hash covers them with everything else.
"""

from __future__ import annotations

import pytest

from strandline.errors import Corrupt
from tests.unit.lake.cold_files import LABEL, TOPIC_ID, ColdFile, plain_rows, rows_of, write

ROWS = plain_rows([1, 2, 3, 5, 6, 9])


def _file() -> ColdFile:
    return write(ROWS, last_seq=12, zone_rows=3)


def _read(file: ColdFile) -> list[object]:
    reader = file.reader()
    return [row for place in range(len(reader.zones)) for row in rows_of(reader.zone(place).rows)]


def _index(file: ColdFile) -> range:
    """The bytes between the last zone and the footer."""
    last = file.reader().zones[-1]
    return range(last.offset + last.size, file.entry.tail_offset)


def test_zones_and_tail_cover_all_but_the_index():
    file = _file()

    parts = [(zone.offset, zone.offset + zone.size) for zone in file.reader().zones]

    assert parts[0][0] == 0
    assert [end for _, end in parts] == [parts[1][0], _index(file).start]


def test_any_flipped_bit_is_noticed():
    file = _file()
    index, served = _index(file), _read(file)
    undamaged = file.reader().content()
    unnoticed = []
    for offset in range(len(file.content)):
        damaged = bytearray(file.content)
        damaged[offset] ^= 1 << offset % 8
        stored = file.with_content(bytes(damaged))
        if stored.reader().content() == undamaged:
            unnoticed.append(offset)
        if offset in index:
            assert _read(stored) == served
            continue
        with pytest.raises(Corrupt):
            _read(stored)

    assert unnoticed == []
    assert undamaged == file.entry.content


def test_any_truncation_is_noticed():
    file = _file()

    for size in range(len(file.content)):
        with pytest.raises(Corrupt):
            _read(file.with_content(file.content[:size]))


def test_a_file_without_rows_is_covered_from_its_first_byte_to_its_last():
    file = write([], first_seq=1, last_seq=5)

    for offset in range(len(file.content)):
        damaged = bytearray(file.content)
        damaged[offset] ^= 0x10
        with pytest.raises(Corrupt):
            _read(file.with_content(bytes(damaged)))


def test_damage_to_a_zone_costs_only_that_zone():
    file = _file()
    second = file.reader().zones[1]
    damaged = bytearray(file.content)
    damaged[second.offset + 10] ^= 1
    reader = file.with_content(bytes(damaged)).reader()

    whole = reader.zone(0)
    with pytest.raises(Corrupt) as caught:
        reader.zone(1)

    assert rows_of(whole.rows) == ROWS[:3]
    error = caught.value
    assert (error.path, error.offset) == (LABEL, second.offset)
    assert (error.topic_id, error.first_seq, error.last_seq) == (TOPIC_ID, 4, 12)


def test_damage_to_the_footer_names_the_whole_file():
    file = _file()
    damaged = bytearray(file.content)
    damaged[-1] ^= 1

    with pytest.raises(Corrupt) as caught:
        _read(file.with_content(bytes(damaged)))

    error = caught.value
    assert (error.path, error.offset) == (LABEL, file.entry.tail_offset)
    assert (error.topic_id, error.first_seq, error.last_seq) == (TOPIC_ID, 1, 12)


def test_a_file_of_another_topic_or_with_other_rows_is_refused():
    file = _file()
    other_rows = write(plain_rows([1, 2, 3, 5, 6, 8]), last_seq=12, zone_rows=3)

    with pytest.raises(Corrupt):
        _read(file.with_content(other_rows.content))
    with pytest.raises(Corrupt):
        _ = file.reader(topic_id=TOPIC_ID + 1).zones


def test_an_error_of_the_object_store_passes_through():
    file = _file()
    reader = file.reader()
    assert reader.zones

    def fail(start: int, length: int) -> bytes:
        raise TimeoutError

    reader._fetch = fail
    with pytest.raises(TimeoutError):
        reader.zone(0)


def test_an_answer_that_is_too_short_or_too_long_is_damage():
    for change in (lambda data: data[:-1], lambda data: data + b"\0"):
        reader = _file().reader()
        assert reader.zones
        fetch = reader._fetch
        reader._fetch = lambda start, length, fetch=fetch, change=change: change(
            fetch(start, length)
        )

        with pytest.raises(Corrupt):
            reader.zone(0)
