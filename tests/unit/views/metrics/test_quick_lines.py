"""Promise: the quick reader of lines takes a text as the exact one does, or leaves it to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Invalid
from strandline.views.metrics import quick_lines
from strandline.views.metrics.lines import parse, parse_exactly
from tests.unit.views.metrics.test_lines import points

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
TEXTS = st.lists(PIECES, max_size=12).map("".join) | st.lists(LINES, max_size=12).map("\n".join)


def outcome(work) -> list | None:
    try:
        return sorted(points(work()), key=lambda point: point[0])  # as they came, by measurement
    except Invalid:
        return None


@given(TEXTS, st.sampled_from(["ns", "ms", "s"]))
def test_a_text_is_read_as_the_exact_reader_does(text, precision):
    unit = {"ns": 1, "ms": 1_000_000, "s": 1_000_000_000}[precision]

    quick = outcome(lambda: parse(text, precision=precision, now_ns=5))

    assert quick == outcome(lambda: parse_exactly(text, unit=unit, now_ns=5))


def test_plain_lines_are_not_left_to_the_exact_reader(monkeypatch):
    text = "\n".join(f"m,host=h{n % 3} v={n}.5,w={n}i,up=t {n}" for n in range(20))

    def refuse(*_args, **_options):
        pytest.fail("a plain text was read one character after the other")

    tables = quick_lines.quick_parse(
        text, unit=1, now_ns=0, head_of=lambda head: ("m", head.encode()), add_line=refuse
    )

    assert tables is not None
    assert sum(table.points for table in tables) == 60


def test_one_odd_line_does_not_slow_the_others(monkeypatch):
    seen: list[int] = []
    text = "m v=1 1\nm\\ x v=1 1\nm v=2 2"

    quick_lines.quick_parse(
        text,
        unit=1,
        now_ns=0,
        head_of=lambda head: (head, b""),
        add_line=lambda line, number, builder: seen.append(number),
    )

    assert seen == [2]


def test_heads_of_lines_that_are_known_take_no_more_than_their_bound(monkeypatch):
    monkeypatch.setattr(quick_lines, "_HEADS_MAX", 10)

    parse("\n".join(f"m,host=h{n} v=1 1" for n in range(50)), precision="ns", now_ns=0)

    assert len(quick_lines._heads) <= 10
