"""Promise: a value has the same hash alone, among others, and in every version."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strandline.views.table.index.hashing import (
    HASHED_BYTES_MAX,
    mix,
    mix_one,
    of_key,
    of_numbers,
    of_texts,
)


@given(st.lists(st.text(max_size=40), max_size=20), st.integers(0, 5))
def test_a_text_has_the_same_hash_alone_and_among_others(texts, cut):
    among = of_texts(pa.array(texts, pa.string()).slice(cut))

    assert among.tolist() == [of_key(text.encode()) for text in texts[cut:]]


def test_texts_differ_by_their_bytes_and_by_their_length():
    texts = ["", "\0", "a", "a\0", "a\0\0", "a" * 8, "a" * 8 + "\0", "a" * 16, "b" + "a" * 15]

    assert len({of_key(text.encode()) for text in texts}) == len(texts)


def test_texts_that_differ_only_far_behind_have_one_hash():
    begin = b"x" * HASHED_BYTES_MAX

    assert of_key(begin + b"a") == of_key(begin + b"b")
    assert of_key(begin + b"a") != of_key(begin + b"aa")


def test_wide_offsets_change_nothing():
    texts = ["one", "twenty-two", ""]

    wide = of_texts(pa.array(texts, pa.large_string()))

    assert wide.tolist() == of_texts(pa.array(texts, pa.string())).tolist()


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_one_number_is_mixed_as_many_are(numbers):
    assert [mix_one(each) for each in numbers] == mix(np.array(numbers, "<u8")).tolist()


def test_a_number_has_the_same_hash_in_a_column_and_in_a_question():
    signed = np.array([-(2**63), -1, 0, 1, 2**63 - 1], "<i8")
    unsigned = np.array([0, 1, 2**63, 2**64 - 1], "<u8")

    assert of_numbers(signed).tolist() == [of_key(each) for each in signed.tolist()]
    assert of_numbers(unsigned).tolist() == [of_key(each) for each in unsigned.tolist()]


def test_hashes_are_those_of_the_files_that_exist():
    assert hex(of_key(b"strandline")) == "0x7aa07d081954e893"
    assert hex(of_key(42)) == "0x40843cb047212ce6"
