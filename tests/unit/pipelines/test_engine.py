"""Promise: an engine tells of every task that finished, and then of the first that failed."""

from __future__ import annotations

import threading

import pytest

from strandline.errors import Invalid
from strandline.pipelines import Embedded


def test_a_failure_comes_after_what_was_under_way_and_stops_what_was_not():
    begun: list[int] = []
    other_begun, nobody = threading.Event(), threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        if number == 0:
            assert other_begun.wait(30)
            raise ValueError("the first fails")
        other_begun.set()
        nobody.wait(0.1)  # so that there is something left to stop
        return number

    with pytest.raises(ValueError, match="the first fails"):
        list(Embedded(threads=2).run(work, list(range(100))))

    assert sorted(begun)[:2] == [0, 1]
    assert len(begun) < 100


def test_what_was_under_way_when_another_failed_is_told():
    begun, failed = threading.Event(), threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert begun.wait(30)
            failed.set()
            raise ValueError("the first fails")
        begun.set()
        assert failed.wait(30)
        return number

    run = Embedded(threads=2).run(work, [0, 1])

    assert next(run) == (1, 1)
    with pytest.raises(ValueError, match="the first fails"):
        next(run)


def test_a_number_of_threads_below_zero_is_refused():
    with pytest.raises(Invalid, match="one thread or more"):
        Embedded(threads=-1)
