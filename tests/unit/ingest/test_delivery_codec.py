"""Promise (C1): a delivery is what was delivered, or is told to be something else."""

from __future__ import annotations

import msgspec
import pytest

from strandline.errors import Corrupt, Invalid, TooLarge, TopicFull, UnsupportedFormat
from strandline.ingest import delivery_codec as letters
from strandline.ingest.delivery_codec import CHUNK_BITS, NUMBER_MAX, StagedFile, TopicDelivery
from strandline.records import BatchNumber


def file(chunks: int = 1, key: str = "incoming/a.arrow") -> StagedFile:
    return StagedFile(key=key, rows=3 * chunks, chunks=chunks, size=100, checksum="ab" * 16)


def letter(*files: StagedFile, **changes: object) -> TopicDelivery:
    made = TopicDelivery(
        store_id="00" * 16,
        topic="orders",
        producer="spark-query/ü",
        number=7,
        attempt="f" * 32,
        made_us=1,
        files=files or (file(),),
    )
    return msgspec.structs.replace(made, **changes)


def test_a_delivery_is_read_as_it_was_written():
    made = letter(file(2), file(3, "incoming/b.arrow"), create=True)

    found = letters.decode(letters.encode(made), "path")

    assert msgspec.structs.replace(found, checksum="") == made
    assert (found.rows, found.chunks, found.size) == (15, 5, 200)


def test_any_flipped_bit_of_a_delivery_is_noticed():
    data = letters.encode(letter())

    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises(Corrupt):
                letters.decode(bytes(flipped), "path")


def test_a_delivery_cut_at_any_length_and_one_with_more_behind_it_are_noticed():
    data = letters.encode(letter())

    for wrong in [data[:size] for size in range(len(data))] + [data + b" ", data + data]:
        with pytest.raises(Corrupt):
            letters.decode(wrong, "path")


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b"\xff", b'{"format":1}'])
def test_what_is_no_delivery_is_noticed(body):
    with pytest.raises(Corrupt):
        letters.decode(body, "path")


def test_a_newer_delivery_is_told_whether_it_has_new_fields_or_not():
    known = letters.encode(letter(format=letters.FORMAT + 1))
    unknown = b'{"format":3,"post":"express"}'

    for newer in (known, unknown):
        with pytest.raises(UnsupportedFormat, match="upgrade"):
            letters.decode(newer, "path")


def test_a_name_tells_topic_producer_and_number_apart_and_sorts_by_number():
    names = {
        letters.name_of("t", "p", 1),
        letters.name_of("t", "q", 1),
        letters.name_of("u", "p", 1),
        letters.name_of("t", "p", 2),
    }
    rising = [letters.name_of("t", "p", number) for number in (0, 9, 10, NUMBER_MAX - 1)]

    assert len(names) == 4
    assert sorted(rising) == rising


def test_chunks_are_numbered_in_order_across_files_and_deliveries():
    made = letter(file(2), file(1), number=5)
    following = letter(number=6)

    numbers = [made.chunk(place).number for place in range(3)]

    assert numbers == sorted(set(numbers))
    assert numbers[0] == 5 << CHUNK_BITS
    assert numbers[-1] < following.chunk(0).number
    assert made.chunk(1) == BatchNumber("spark-query/ü", 5 << CHUNK_BITS | 1)


def test_a_delivery_is_taken_when_its_last_chunk_is_however_it_was_cut():
    made = letter(file(3), number=5)
    cuts = [letter(*[file(1)] * count, number=5) for count in range(1, 6)]
    last = made.chunk(2).number

    assert all(cut.is_appended(last) for cut in cuts)
    assert all(cut.is_appended(letter(number=6).chunk(0).number) for cut in cuts)


def test_a_delivery_is_not_taken_before_its_last_chunk_is():
    made = letter(file(3), number=5)
    before = letter(number=4).chunk(0).number

    newest = [None, before, made.chunk(0).number, made.chunk(1).number]

    assert [made.is_appended(number) for number in newest] == [False] * 4


def test_the_last_number_of_which_all_is_there_is_known():
    made = letter(file(3), number=5)

    newest = [made.chunk(place).number for place in range(3)]

    assert [letters.last_complete(number) for number in newest] == [4, 4, 5]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"number": -1}, Invalid),
        ({"number": NUMBER_MAX}, Invalid),
        ({"producer": ""}, TooLarge),
        ({"producer": "p" * 201}, TooLarge),
        ({"files": (file(1 << CHUNK_BITS),)}, TooLarge),
        ({"files": (file((1 << CHUNK_BITS) - 1), file(1))}, TooLarge),
    ],
)
def test_what_no_topic_could_take_is_refused(changes, error):
    letters.check(letter(number=NUMBER_MAX - 1, files=(file((1 << CHUNK_BITS) - 1),)))

    with pytest.raises(error):
        letters.check(letter(**changes))


def test_a_refusal_tells_why():
    error = TopicFull("topic 't' is full")

    found = letters.decode_rejection(letters.encode_rejection("name", "t", error, 5), "path")

    assert found.error == "topic_full"
    assert (found.delivery, found.topic, found.reason, found.at_us) == ("name", "t", str(error), 5)
    with pytest.raises(Corrupt):
        letters.decode_rejection(b"{", "path")
