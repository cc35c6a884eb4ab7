"""Promise: the quick reader of lines takes a text as the exact one does, or leaves it to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Invalid
from strandline.views.metrics.ingest import fast_parser
from strandline.views.metrics.ingest.strict_parser import parse, parse_exactly, parse_head
from strandline.views.metrics.ingest.vectorized_parser import vectorized_parse
from tests.unit.views.metrics.ingest.test_strict_parser import points

PIECES = st.sampled_from(
    [
        *("cpu", "m,host=a", "m,host=b", "m,a=1,b=2", "m\\ x", "m,h=a\\,b", ",", "m,h=", "m,h"),
        *("v=1", "v=1.5", "v=-2e3", "v=7i", "v=7u", "v=t", "v=F", "v=yes", 'v="s"', "v=", "=1"),
        *("v=1,w=2i", "w=2i,v=1", "v=1,v=2", "v=1_0", "v=nan", "v=inf", "v=1e999", "v= 1", "v=+1"),
        *(
            "v=\u0663",
            "v=9223372036854775807i",
            "v=9223372036854775808i",
            "v=0x10",
            "v==1",
            "v=1=2",
        ),
        *("12", "-3", "1_2", "9223372036854775807", "soon", "+5", "0012", "", "\u0663", "-", "1.5"),
        *("\n", "\n", "\n", "\r\n", " ", " ", " ", "  ", "#", "# c", "\t", "\\", '"'),
    ]
)
LINES = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["m", "m,host=a", "m,host=b", "n,zone=x", "m\\ x,h=1"]),
        st.sampled_from(["v=1", "v=2.5,w=3i", "w=1i", "v=t", "v=1i", "w=4i,v=0"]),
        st.sampled_from(["1", "2", "-7", "3"]),
    ),
)
ALIKE = st.lists(
    st.builds(
        "{} {}{}".format,
        st.sampled_from(["m", "m,host=a", "m,b=1,a=2", "m,a=2,b=1", "n,zone=x", "k"]),
        st.sampled_from(["v=1", "v=2.5", "v=-1e3", "v=.5", "v=7i", "v=0x1i", "v=nan", "v=1e999"]),
        st.sampled_from([" 1", " 2", " -7", " 0x10", " 1-1", ""]),
    ),
    min_size=1,
    max_size=4,
).map(lambda lines: "\n".join(lines * 9))
"""Texts of many lines, which may be read all at once."""
TEXTS = st.lists(PIECES, max_size=12).map("".join) | st.lists(LINES, max_size=12).map("\n".join)


def outcome(work) -> list | None:
    try:
        return sorted(points(work()), key=lambda point: point[0])  # as they came, by measurement
    except Invalid:
        return None


@given(TEXTS | ALIKE, st.sampled_from(["ns", "ms", "s"]))
def test_a_text_is_read_as_the_exact_reader_does(text, precision):
    unit = {"ns": 1, "ms": 1_000_000, "s": 1_000_000_000}[precision]

    quick = outcome(lambda: parse(text, precision=precision, now_ns=5))

    assert quick == outcome(lambda: parse_exactly(text, unit=unit, now_ns=5))


def test_plain_lines_are_not_left_to_the_exact_reader(monkeypatch):
    text = "\n".join(f"m,host=h{n % 3} v={n}.5,w={n}i,up=t {n}" for n in range(20))

    def refuse(*_args, **_options):
        pytest.fail("a plain text was read one character after the other")

    tables = fast_parser.fast_parse(text, unit=1, now_ns=0, head_of=parse_head, add_line=refuse)

    assert tables is not None
    assert sum(table.points for table in tables) == 60


@pytest.mark.parametrize(
    "line",
    ["m,host=h{n} v={n}.5,w={n}i {n}", "m v={n}", "m{k},host=a v={n}i {n}", "m,b={k},a=1 v=1 {n}"],
)
def test_many_lines_alike_are_read_all_at_once(line):
    text = "\n".join(line.format(n=n, k=n % 3) for n in range(100)) + "\n"

    found = vectorized_parse(text, unit=1, now_ns=5, head_of=parse_head)

    assert found is not None
    exact = parse_exactly(text, unit=1, now_ns=5)
    assert sorted(points(found), key=str) == sorted(points(exact), key=str)


@pytest.mark.parametrize(
    "odd",
    [
        *(
            "m v=t 1",
            "m w=1 1",
            "m v=1,w=2 1",
            "m v=1i 1",
            "m v=1",
            "m v=1  1",
            "m v==1 1",
            "m, v=1 1",
        ),
        *("m v=1 0x10", "m v=inf 1", 'm v="x" 1', "# c", "", "m v=1 9223372036854775807", "m v= 1"),
    ],
)
def test_a_text_with_one_odd_line_is_left_to_others(odd):
    text = "\n".join([*["m v=1 1"] * 50, odd, *["m v=1 1"] * 50])

    assert vectorized_parse(text, unit=1, now_ns=5, head_of=parse_head) is None


def test_hex_digits_are_no_whole_number():
    assert vectorized_parse("m v=0x1i 1\n" * 50, unit=1, now_ns=5, head_of=parse_head) is None


def test_one_odd_line_does_not_slow_the_others(monkeypatch):
    seen: list[int] = []
    text = "m v=1 1\nm\\ x v=1 1\nm v=2 2"

    fast_parser.fast_parse(
        text,
        unit=1,
        now_ns=0,
        head_of=parse_head,
        add_line=lambda line, number, builder: seen.append(number),
    )

    assert seen == [2]


def test_heads_of_lines_that_are_known_take_no_more_than_their_bound(monkeypatch):
    monkeypatch.setattr(fast_parser, "_HEADS_MAX", 10)

    parse("\n".join(f"m,seen=never{n} v=1 1" for n in range(50)), precision="ns", now_ns=0)

    assert len(fast_parser._heads) <= 10
