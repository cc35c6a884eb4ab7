"""House rule: the blocking client is made from the asynchronous one, never changed by hand."""

from __future__ import annotations

import pytest

from tests.house.blocking import TARGET, blocking_word, made_of, sources


@pytest.mark.parametrize("source", sources(), ids=lambda path: path.name)
def test_a_blocking_file_is_what_its_source_makes(source):
    committed = (TARGET / source.name).read_text(encoding="utf-8")

    assert committed == made_of(source), "run `python -m tests.house.blocking`"


def test_there_is_no_blocking_file_without_a_source():
    assert {path.name for path in TARGET.glob("*.py")} == {path.name for path in sources()}


@pytest.mark.parametrize(
    ("word", "made"),
    [
        ("async", ""),
        ("await", ""),
        ("AsyncTopic", "RemoteTopic"),
        ("AsyncIterator", "Iterator"),
        ("asynchronous", "blocking"),
        ("Asynchrony", "Asynchrony"),
        ("topic", "topic"),
    ],
)
def test_words_are_replaced_whole(word, made):
    assert blocking_word(word) == made
