"""Promise (C9): ``verify_store`` reads the lake too, and finds every damaged file there."""

from __future__ import annotations

import pytest

from strandline.log.repair.verify import VerifyReport, verify_store
from tests.unit.log.topic.cold_world import PATH, ColdWorld


def verified(world: ColdWorld) -> VerifyReport:
    return verify_store(world.disk, PATH, world.settings, objects=world.objects)


def test_a_store_with_a_lake_is_good():
    world = ColdWorld()
    world.cold_topic()
    world.store.close()

    report = verified(world)

    assert (report.problems, report.notes) == ([], [])
    assert report.records >= 500


@pytest.mark.parametrize("part", range(10))
def test_a_flipped_bit_in_the_lake_is_found_and_its_file_and_seqs_named(part):
    world = ColdWorld()
    world.cold_topic()
    world.store.close()
    key = world.data_keys()[1]
    content = bytearray(world.objects.get(key))
    content[len(content) * part // 10] ^= 1
    world.objects.delete([key])
    world.objects.put(key, bytes(content))

    (problem,) = verified(world).problems

    assert problem.kind == "lake"
    assert problem.path.endswith(key)
    assert (problem.topic, problem.first_seq, problem.last_seq) == ("t", 101, 200)


def test_a_missing_file_of_the_lake_is_found():
    world = ColdWorld()
    world.cold_topic()
    world.store.close()
    world.objects.delete(world.data_keys()[2:3])

    (problem,) = verified(world).problems

    assert (problem.kind, problem.reason) == ("lake", "a lake file is missing")
    assert (problem.first_seq, problem.last_seq) == (201, 300)


def test_a_lake_that_cannot_be_reached_is_a_problem_told_once():
    world = ColdWorld()
    world.cold_topic()
    world.store.close()
    world.objects.fail("get_ranges", once=False)

    (problem,) = verified(world).problems

    assert problem.kind == "lake"
    assert "cannot be read" in problem.reason
