"""Promise: a filter takes exactly the records that it describes, and a wrong one is refused."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.log.read.page import PageColumns
from strandline.routers.filters import RouterFilter, parse_filter

RECORDS = PageColumns(
    seqs=[1, 2, 3, 4],
    stamps=[0, 0, 0, 0],
    keys=[b"k1", b"k2", None, b"\xff"],
    tags=["eu", "eu-west", None, "us"],
    nodes=["a", None, "b", "a"],
    metas=[None] * 4,
    data=[b"1", b"2", b"3", b"4"],
)


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        (["tag", "Eq", "eu"], [0]),
        (["tag", "Glob", "eu*"], [0, 1]),
        (["tag", "Glob", "*"], [0, 1, 3]),
        (["tag", "In", ["us", "eu"]], [0, 3]),
        ("eu", [0]),
        ("eu*", [0, 1]),
        (["node", "Eq", "a"], [0, 3]),
        (["key", "Glob", "k*"], [0, 1]),
        (["key", "Eq", "k2"], [1]),
        (["key", "Glob", "*"], [0, 1, 3]),
        (["tag", "Eq", ""], []),
    ],
)
def test_a_filter_takes_the_records_that_it_describes(written, taken):
    found = parse_filter(written)

    assert found is not None
    assert found.matching_indices(RECORDS) == taken


def test_no_filter_is_no_filter():
    assert parse_filter(None) is None


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (["tag", "Eq"], "a filter is"),
        (17, "a filter is"),
        (["data", "Eq", "x"], "tag, node or key"),
        (["tag", "Like", "x"], "Eq, Glob or In"),
        (["tag", "Glob", "eu"], "at its end"),
        (["tag", "Glob", "*eu*"], "at its end"),
        (["tag", "Eq", 5], "text"),
        (["tag", "Eq", "\ud800"], "Unicode"),
        (["tag", "Eq", "x" * 5000], "4096 bytes"),
        (["tag", "In", []], "1 to 1000"),
        (["tag", "In", "eu"], "1 to 1000"),
        (["tag", ["Eq"], "eu"], "Eq, Glob or In"),
    ],
)
def test_a_wrong_filter_is_refused_with_what_would_be_right(written, told):
    with pytest.raises(Invalid, match=told):
        parse_filter(written)


def test_a_filter_stays_itself():
    once = RouterFilter("tag", "Eq", "eu")

    assert parse_filter(once) is once
