"""Promise: a store that lets two writers create one name is refused before anything rests on it.

O6. The simulated store is broken in the ways that real ones are.
"""

from __future__ import annotations

import random
import threading

import pytest

from strandline.errors import Unavailable, UnsupportedObjectStore
from strandline.platform.objectstore.probe import RACERS, probe
from strandline.testing.sim_objects import SimObjects


def test_a_good_store_is_accepted_and_left_clean():
    objects = SimObjects()

    probe(objects)

    assert objects.snapshot() == {}


def test_a_store_that_takes_no_notice_of_the_condition_is_refused():
    objects = SimObjects(name="s3://careless")
    objects.broken_create = "overwrites"

    with pytest.raises(UnsupportedObjectStore, match=r"s3://careless.*created one object twice"):
        probe(objects)

    assert objects.snapshot() == {}


def test_a_store_that_looks_first_and_stores_later_is_refused():
    objects = SimObjects(name="s3://racy")
    objects.broken_create = "races"
    all_have_looked = threading.Barrier(RACERS)

    def wait_for_the_others(operation: str, key: str) -> None:
        if operation == "create.store" and not key.endswith("-0"):
            all_have_looked.wait(60)

    objects.on_call = wait_for_the_others
    with pytest.raises(
        UnsupportedObjectStore, match=f"s3://racy.*{RACERS} of {RACERS} concurrent creators"
    ):
        probe(objects)

    assert objects.snapshot() == {}


def test_a_store_whose_listing_lags_is_refused():
    objects = SimObjects()
    objects.lagging_list = 1

    with pytest.raises(UnsupportedObjectStore, match="listing"):
        probe(objects)


@pytest.mark.parametrize("trouble", ["away", "denied"])
def test_a_store_that_does_not_answer_is_not_called_unfit(trouble: str):
    objects = SimObjects()
    if trouble == "away":
        objects.cut(random.Random(1))
    objects.denied = trouble == "denied"

    with pytest.raises(Unavailable):
        probe(objects)
