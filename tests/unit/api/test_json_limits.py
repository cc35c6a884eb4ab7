"""JSON of strangers: exactly what is too deep, too long or no text is refused."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.api import json_limits
from strandline.api.errors import Refused
from strandline.api.json_limits import NUMBER_SIZE_MAX, check_json
from strandline.errors import Invalid
from strandline.server.http.request_body import check_objects, decompress

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='[]{}"\\a1', max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('[{"\\', max_size=3), inner)
    ),
    max_leaves=30,
)


@given(value=VALUES, depth_max=st.integers(1, 6), chunk_size=st.sampled_from([1, 5, 1 << 20]))
@example(value=['\\"[[[[[['], depth_max=1, chunk_size=1 << 20)
@example(value=["\\", [[]]], depth_max=2, chunk_size=1 << 20)
def test_depth_is_counted_as_a_parser_would(value, depth_max, chunk_size):
    text = json.dumps(value).encode()

    with patch.object(json_limits, "_CHUNK_SIZE", chunk_size):
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

    with pytest.raises(Refused, match="exceeds 1000000"):
        decompress(bomb, "gzip", 1_000_000)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 65 + b"]" * 65 + b',""' * 2_000_000,
        b"[" * 65 + b"]" * 65 + b',"{"' * 2_000_000,
        b"[" * 65 + b"]" * 65 + b"1" * (NUMBER_SIZE_MAX + 1) + b',""' * 2_000_000,
    ],
    ids=["empty texts", "brackets in texts", "a long number"],
)
def test_a_check_takes_a_few_times_the_memory_of_the_text(text):
    tracemalloc.start()

    with pytest.raises(Invalid):
        check_json(b"[" + text + b"]", 65)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * len(text)


@pytest.mark.parametrize("piece", [b'{"data":0},', b"[],", b"[[]],"])
def test_a_body_has_so_many_objects_and_lists_at_most(piece):
    size = piece.count(b"[") + piece.count(b"{")

    check_objects(piece * 10, 10 * size)
    with pytest.raises(Refused, match="json_objects_max") as refused:
        check_objects(piece * 10, 10 * size - 1)

    assert refused.value.wire_error.status == 413


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
