"""Promise: choosers cover all crash states when these are few, and many kinds when they are not."""

from __future__ import annotations

import random

import pytest

from strandline.testing.crash_choices import all_choices, sample_choices


def test_every_walks_through_a_tree_of_choices_once():
    leaves = []
    for choices in all_choices():
        first = choices.pick(3)
        leaves.append((first, choices.pick(2)) if first == 1 else (first,))

    assert leaves == [(0,), (1, 0), (1, 1), (2,)]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_samples_are_as_many_as_asked(count: int):
    assert len(list(sample_choices(count, random.Random(0), 2**20))) == count


def test_samples_lose_one_of_many_about_as_often_as_half_of_many():
    lost = []
    for choices in sample_choices(1000, random.Random(0), 2**100):
        lost.append(sum(choices.pick(2) == 0 for _ in range(100)))

    assert lost[:2] == [100, 0]
    assert sum(1 <= count <= 3 for count in lost) > 50
    assert sum(30 <= count <= 70 for count in lost) > 50
    assert sum(97 <= count <= 99 for count in lost) > 50
