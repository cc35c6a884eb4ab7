"""JSON of strangers: exactly what is too deep, too long or no text is refused."""

from __future__ import annotations

import json
import tracemalloc
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.errors import Invalid
from strandline.server.bodies import unpacked
from strandline.wire.limits import NUMBER_SIZE_MAX, check_json
from strandline.wire.problems import Refused

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='[]{}"\\a1', max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('[{"\\', max_size=3), inner)
    ),
    max_leaves=30,
)


@given(value=VALUES, depth_max=st.integers(1, 6))
@example(value=['\\"[[[[[['], depth_max=1)
@example(value=["\\", [[]]], depth_max=2)
def test_depth_is_counted_as_a_parser_would(value, depth_max):
    text = json.dumps(value).encode()

    if _depth(value) > depth_max:
        with pytest.raises(Invalid, match="deeper"):
            check_json(text, depth_max)
    else:
        check_json(text, depth_max)


@pytest.mark.parametrize("digits", [NUMBER_SIZE_MAX, NUMBER_SIZE_MAX + 1])
def test_a_number_has_so_many_digits_at_most(digits):
    text = b'{"a": -' + b"7" * digits + b"}"

    if digits <= NUMBER_SIZE_MAX:
        check_json(text, 5)
    else:
        with pytest.raises(Invalid, match="digits"):
            check_json(text, 5)


def test_digits_in_text_are_no_number():
    check_json(b'["\\"' + b"1" * 5000 + b'", "' + b"2" * 5000 + b'"]', 5)


def test_what_is_not_utf8_is_refused_with_its_place():
    with pytest.raises(Invalid, match="at byte 3"):
        check_json(b'["a\xff"]', 5)


def test_a_bomb_is_not_unpacked_further_than_it_may_be():
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packing.compress(b" " * 64_000_000) + packing.flush()
    tracemalloc.start()

    with pytest.raises(Refused, match="over 1000000"):
        unpacked(bomb, "gzip", 1_000_000)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
