"""Promise (V1): the history checker accepts what a log can answer and names each broken rule."""

from __future__ import annotations

import random

import msgspec
import pytest

from strandline.testing.history import ReadCall, WriteCall, check


def write(
    first_seq: int, *payloads: int, at: tuple[int, int | None], topic: str = "t"
) -> WriteCall:
    return WriteCall(
        topic=topic, invoked=at[0], acked=at[1], first_seq=first_seq, payloads=tuple(payloads)
    )


def read(after: int, *payloads: int, head: int, at: tuple[int, int]) -> ReadCall:
    return ReadCall(
        topic="t",
        invoked=at[0],
        returned=at[1],
        after=after,
        head=head,
        seqs=list(range(after + 1, after + 1 + len(payloads))),
        payloads=list(payloads),
    )


def broken(writes: list[WriteCall], reads: list[ReadCall]) -> list[str]:
    return [violation.rule for violation in check(writes, reads)]


GOOD_WRITES = [
    write(1, 11, at=(0, 10)),
    write(2, 12, 13, at=(5, 20)),  # beside the first
    write(4, 14, at=(21, 30)),
    write(5, 15, at=(22, 29)),  # beside the one before, acked earlier, seq later
]
GOOD_READS = [
    read(0, 11, head=1, at=(6, 12)),
    read(1, 12, 13, head=3, at=(21, 22)),
    read(0, 11, 12, head=5, at=(31, 32)),  # a page may end before the head
    read(5, head=5, at=(33, 34)),
]


def test_a_history_of_a_log_is_accepted():
    assert broken(GOOD_WRITES, GOOD_READS) == []


def test_a_seq_given_twice_is_named():
    assert broken([*GOOD_WRITES, write(3, 99, at=(5, 20))], []) == ["unique"]


def test_a_missing_seq_is_named():
    assert broken([write(1, 11, at=(0, 10)), write(3, 13, at=(5, 20))], []) == ["dense"]


def test_a_write_of_unknown_outcome_may_fill_a_hole_or_not_exist():
    hole = [write(1, 11, at=(0, 10)), write(3, 13, at=(5, 20))]
    unknown = write(0, 12, at=(3, None))

    assert broken([*hole, unknown], []) == []
    assert broken([write(1, 11, at=(0, 10)), unknown], []) == []


def test_a_later_write_with_the_smaller_seq_is_named():
    assert broken([write(2, 12, at=(0, 10)), write(1, 11, at=(11, 20))], []) == ["order"]


def test_the_order_of_writes_far_apart_is_checked_too():
    writes = [write(seq, seq, at=(0, 100)) for seq in range(1, 50)]
    writes += [write(50, 50, at=(0, 5)), write(51, 51, at=(0, 100))]
    writes[0] = write(1, 1, at=(6, 100))

    assert broken(writes, []) == ["order"]


def test_a_read_of_another_payload_is_named():
    assert broken(GOOD_WRITES, [read(1, 12, 99, head=5, at=(31, 32))]) == ["payload"]


def test_two_reads_that_disagree_about_an_unknown_write_are_named():
    unknown = [write(0, 77, at=(0, None)), write(0, 78, at=(0, None))]
    reads = [read(0, 77, head=1, at=(5, 6)), read(0, 78, head=1, at=(7, 8))]

    assert broken(unknown, reads) == ["payload"]


def test_a_read_of_what_nobody_wrote_is_named():
    assert broken(GOOD_WRITES, [read(5, 99, head=6, at=(31, 32))]) == ["invented"]


def test_a_read_of_what_is_written_only_later_is_named():
    assert broken(GOOD_WRITES, [read(3, 14, head=4, at=(18, 20))]) == ["invented"]


def test_a_hole_in_a_page_is_named():
    page = msgspec.structs.replace(read(0, 11, 13, head=5, at=(31, 32)), seqs=[1, 3])

    assert broken(GOOD_WRITES, [page]) == ["prefix"]


def test_a_page_that_begins_too_late_is_named():
    page = msgspec.structs.replace(read(0, 12, head=5, at=(31, 32)), seqs=[2])

    assert broken(GOOD_WRITES, [page]) == ["prefix"]


def test_a_record_above_the_head_of_its_page_is_named():
    assert broken(GOOD_WRITES[:2], [read(0, 11, 12, head=1, at=(6, 7))]) == ["prefix"]


def test_an_empty_page_below_the_head_is_named():
    assert broken(GOOD_WRITES, [read(2, head=5, at=(31, 32))]) == ["stuck"]


def test_a_read_that_misses_an_acked_write_is_named():
    assert broken(GOOD_WRITES, [read(2, 13, head=3, at=(30, 31))]) == ["own writes"]


def test_a_head_that_goes_back_is_named():
    reads = [read(0, 11, head=3, at=(6, 7)), read(0, 11, head=2, at=(8, 9))]

    assert broken(GOOD_WRITES, reads) == ["head"]


def test_topics_are_judged_apart():
    other = [write(1, 90, at=(0, 10), topic="u"), write(3, 91, at=(5, 20), topic="u")]

    violations = check([*GOOD_WRITES, *other], GOOD_READS)

    assert [(found.rule, found.topic) for found in violations] == [("dense", "u")]


@pytest.mark.parametrize("seed", range(20))
def test_any_history_of_a_real_log_is_accepted_and_no_swap_of_two_seqs_is(seed: int):
    rng = random.Random(seed)
    writes, now = [], 0
    for seq in range(1, 200):
        now += rng.randrange(3)
        # The log decides at some moment between the call and its answer.
        writes.append(write(seq, seq, at=(now - rng.randrange(1, 9), now + rng.randrange(1, 9))))
    one, two = sorted(rng.sample(range(len(writes)), 2))
    swapped = list(writes)
    swapped[one], swapped[two] = (
        msgspec.structs.replace(writes[one], first_seq=two + 1),
        msgspec.structs.replace(writes[two], first_seq=one + 1),
    )
    explainable = _every_pair_in_order(swapped)

    assert broken(writes, []) == []
    assert (broken(swapped, []) == []) is explainable


def _every_pair_in_order(writes: list[WriteCall]) -> bool:
    """The rule as it is written down, without the cleverness."""
    return not any(
        early.acked is not None and early.acked < late.invoked and early.first_seq > late.first_seq
        for early in writes
        for late in writes
    )
