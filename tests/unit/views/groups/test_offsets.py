"""Promise: a floor and a set say exactly which seqs a group is done with, in few bytes.

Against a plain set of done seqs, for any order of acks, gaps and failures.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.views.groups.offsets import Offsets, OffsetsEntry, decode, encode, first_absent

SEQS = st.integers(1, 40)
CHANGES = st.one_of(
    st.tuples(st.just("settle"), st.lists(SEQS, max_size=8)),
    st.tuples(st.just("range"), st.tuples(SEQS, SEQS)),
    st.tuples(st.just("fail"), SEQS),
)


def changed(offsets: Offsets, done: set[int], failures: dict[int, int], change) -> None:
    """Do the same to the offsets and to the model."""
    kind, what = change
    if kind == "settle":
        offsets.mark_done(what)
        done.update(what)
    elif kind == "range":
        first, last = what
        news = set(range(first, last + 1)) - done
        assert offsets.mark_range_done(first, last) == len(news)
        done |= news
    elif what not in done:
        failures[what] = failures.get(what, 0) + 1
        assert offsets.fail(what) == failures[what]
    else:
        assert offsets.fail(what) == 0
    for seq in done & failures.keys():
        del failures[seq]


def after(changes) -> tuple[Offsets, set[int], dict[int, int]]:
    offsets, done, failures = Offsets(), set(), {}
    for change in changes:
        changed(offsets, done, failures, change)
    return offsets, done, failures


@given(st.lists(CHANGES, max_size=20))
def test_offsets_are_the_set_of_what_is_done(changes):
    offsets, done, failures = Offsets(), set(), {}

    for change in changes:
        changed(offsets, done, failures, change)

        assert [seq in offsets for seq in range(1, 45)] == [seq in done for seq in range(1, 45)]
        assert offsets.failures == failures
        assert offsets.floor == next(seq for seq in range(50) if seq + 1 not in done)
        assert not offsets.done or offsets.done.min() > offsets.floor + 1


@given(st.lists(CHANGES, max_size=20), SEQS)
def test_the_next_open_seq_is_the_first_that_is_not_done(changes, seq):
    offsets, done, _ = after(changes)

    found = offsets.next_open(seq)

    assert found == next(number for number in range(seq, 100) if number not in done)


@given(st.lists(CHANGES, max_size=20), st.integers(0, 45))
def test_what_is_above_the_head_can_be_forgotten(changes, head):
    offsets, done, failures = after(changes)

    offsets.truncate(head)

    assert [seq in offsets for seq in range(1, 50)] == [
        seq in done and seq <= head for seq in range(1, 50)
    ]
    assert offsets.failures == {seq: count for seq, count in failures.items() if seq <= head}


@given(st.lists(CHANGES, max_size=20), st.integers(0, 2**32), st.integers(0, 2**40))
def test_offsets_come_back_from_their_bytes(changes, generation, lost):
    offsets, _, failures = after(changes)
    offsets.lost, offsets.deleted, offsets.moves = lost, lost // 2, lost // 3

    found = decode(encode(OffsetsEntry(generation, 7, offsets)), "here")

    again = found.offsets
    assert (found.generation, found.topic) == (generation, 7)
    assert (again.floor, again.done, again.failures) == (offsets.floor, offsets.done, failures)
    assert (again.lost, again.deleted, again.moves) == (lost, lost // 2, lost // 3)


@given(st.lists(CHANGES, max_size=20), st.lists(CHANGES, max_size=20))
def test_merged_offsets_are_done_with_what_either_is_done_with(ours, theirs):
    offsets, done, failures = after(ours)
    others, others_done, others_failures = after(theirs)
    both = done | others_done
    offsets.lost, others.lost = 3, 5

    offsets.merge(others)

    assert [seq in offsets for seq in range(1, 45)] == [seq in both for seq in range(1, 45)]
    assert offsets.failures == {
        seq: max(failures.get(seq, 0), others_failures.get(seq, 0))
        for seq in (failures.keys() | others_failures.keys()) - both
    }
    assert (offsets.lost, offsets.deleted) == (5, 0)
    assert not offsets.done or offsets.done.min() > offsets.floor + 1


def test_a_million_acks_behind_one_that_is_missing_take_few_bytes():
    offsets = Offsets()
    offsets.mark_done(range(2, 1_000_001))

    stored = encode(OffsetsEntry(1, 1, offsets))

    assert offsets.floor == 0
    assert len(stored) < 400


def test_a_gap_of_any_length_at_the_floor_costs_nothing():
    offsets = Offsets(5)
    offsets.mark_done([7])

    news = offsets.mark_range_done(1, 10**15)

    assert news == 10**15 - 6
    assert (offsets.floor, len(offsets.done)) == (10**15, 0)


def test_a_copy_is_independent():
    offsets = Offsets(3)
    offsets.fail(9)
    copy = offsets.copy()

    offsets.mark_done([4, 9])

    assert (copy.floor, 9 in copy, copy.failures) == (3, False, {9: 1})


def test_the_first_absent_seq_is_found_in_long_runs():
    for length in (1, 2, 3, 1000, 65_536, 70_001, 200_000):
        seqs = BitMap64(range(10, 10 + length))

        assert first_absent(seqs, 10) == 10 + length


def test_bytes_of_a_newer_format_ask_for_an_upgrade():
    with pytest.raises(UnsupportedFormat, match="upgrade"):
        decode(msgspec.msgpack.encode([2, "other", "fields"]), "here")


@pytest.mark.parametrize(
    "stored",
    [b"", b"\xc1", msgspec.msgpack.encode({"a": 1}), msgspec.msgpack.encode([1, 1, 1, 1, b"x"])],
)
def test_bytes_that_are_no_offsets_are_refused(stored):
    with pytest.raises(Corrupt, match="cannot be decoded"):
        decode(stored, "here")


def test_a_broken_bitmap_is_refused():
    stored = msgspec.msgpack.encode([1, 1, 1, 1, b"\xff" * 9, {}, 0, 0, 0])

    with pytest.raises(Corrupt, match="cannot be decoded"):
        decode(stored, "here")
