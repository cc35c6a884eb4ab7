"""Promise (C7, C9): the scrub job finds damage, mends it from another copy, or fences it off.

Everything else stays available: other topics, other files, and other records of the same file.
"""

from __future__ import annotations

import msgspec
import pytest

from strandline.config.settings import ScrubSettings, Settings
from strandline.errors import Corrupt, Unavailable
from strandline.log.topic.topic import Topic
from tests.unit.log.topic.cold_world import ColdWorld, seqs_of

FOLDER = "/data/segments/0000000000000001"


def copied_world(**lake: object) -> ColdWorld:
    return ColdWorld(**{"copy_hot": True, "hot_segments": 2, **lake})


def segment_paths(world: ColdWorld) -> list[str]:
    return [f"{FOLDER}/{name}" for name in world.disk.list_dir(FOLDER)]


def flip(world: ColdWorld, path: str, offset: int) -> None:
    content = bytearray(world.disk.read(path))
    content[offset] ^= 1
    world.disk.durable_replace(path, bytes(content))


def flip_object(world: ColdWorld, key: str, offset: int) -> None:
    content = bytearray(world.objects.get(key))
    content[offset] ^= 1
    world.objects.delete([key])
    world.objects.put(key, bytes(content))


def readable(topic: Topic) -> list[int]:
    """Seqs of the records that can be read one by one."""
    found = []
    for seq in range(1, topic.head_seq + 1):
        try:
            assert topic.read(seq - 1, 1).data == [b"%d" % seq]
        except Corrupt:
            continue
        found.append(seq)
    return found


def test_a_round_over_good_files_finds_nothing():
    world = copied_world()
    world.cold_topic()

    told = world.store.scrub()

    assert (told.rounds, told.findings) == (1, [])
    assert told.files == told.files_total == 7
    assert told.bytes_read > sum(info.size for info in world.objects.list("topics"))
    assert world.store.health().status == "green"


@pytest.mark.parametrize("offset", [3, 100, -3], ids=["header", "block", "end"])
def test_a_damaged_segment_is_restored_from_the_lake(offset):
    world = copied_world()
    topic = world.cold_topic()
    path = segment_paths(world)[0]
    flip(world, path, offset)

    told = world.store.scrub()

    assert [(each.path, each.outcome) for each in told.findings] == [(path, "restored")]
    world.objects.calls.clear()
    assert seqs_of(topic, after=300) == list(range(301, 501))
    assert not world.objects.calls
    assert world.store.scrub().findings == told.findings
    assert seqs_of(world.kill().topic("t")) == list(range(1, 501))


def test_a_missing_segment_is_restored_from_the_lake_with_what_was_deleted_since():
    world = copied_world()
    topic = world.cold_topic()
    topic.delete(match="odd")
    world.disk.remove(segment_paths(world)[1])
    topic = world.reopen().topic("t")

    told = world.store.scrub()

    assert [each.outcome for each in told.findings] == ["restored"]
    assert seqs_of(topic) == list(range(2, 501, 2))
    topic.delete(before=501)
    assert topic.statistics().payload_bytes == 0


def test_a_segment_whose_index_alone_is_damaged_needs_no_lake():
    world = ColdWorld(hot_segments=9)
    topic = world.cold_topic(batches=2)
    seqs_of(topic)
    flip(world, segment_paths(world)[0], -3)

    told = world.store.scrub()

    assert [each.outcome for each in told.findings] == ["restored"]
    assert seqs_of(world.reopen().topic("t")) == list(range(1, 201))


@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_a_bad_lake_file_is_written_anew_from_the_segments(how):
    world = copied_world()
    world.cold_topic()
    key = world.data_keys()[3]
    if how == "missing":
        world.objects.delete([key])
    else:
        flip_object(world, key, len(world.objects.get(key)) // 3)

    told = world.store.scrub()

    assert [each.outcome for each in told.findings] == ["restored"]
    assert key in told.findings[0].path
    assert (told.findings[0].first_seq, told.findings[0].last_seq) == (301, 400)
    for path in segment_paths(world):
        world.disk.remove(path)
    assert seqs_of(world.reopen().topic("t")) == list(range(1, 501))


def test_damage_between_the_zones_of_a_lake_file_is_mended_from_the_file_itself():
    world = ColdWorld()
    topic = world.cold_topic()
    key = world.data_keys()[0]
    flip_object(world, key, topic._state.cold.tail_offsets[0] - 3)

    told = world.store.scrub()

    assert [each.outcome for each in told.findings] == ["restored"]
    assert seqs_of(topic) == list(range(1, 501))
    assert world.store.scrub().findings == told.findings


def test_what_has_no_other_copy_is_fenced_off_and_told_once():
    world = ColdWorld()
    topic = world.cold_topic()
    key = world.data_keys()[1]
    flip_object(world, key, len(world.objects.get(key)) // 4)
    topic = world.reopen().topic("t")

    for _ in range(2):
        told = world.store.scrub()

    (found,) = told.findings
    assert found.outcome == "fenced"
    assert key in found.path
    health = world.store.health()
    assert health.status == "yellow"
    assert [reason for reason in health.reasons if key in reason] == [str(found)]
    fenced = set(range(1, 501)) - set(readable(topic))
    assert fenced == set(range(found.first_seq, found.last_seq + 1))
    assert len(fenced) == 25


def test_a_fence_falls_when_its_file_is_good_again():
    world = ColdWorld()
    world.cold_topic()
    key = world.data_keys()[1]
    kept = world.objects.snapshot()
    world.objects.delete([key])
    world.store.scrub()
    assert world.store.health().status == "yellow"

    world.objects.restore(kept)
    told = world.store.scrub()

    assert told.findings == []
    assert world.store.health().status == "green"


def test_a_fence_falls_when_its_records_are_gone():
    world = ColdWorld()
    topic = world.cold_topic()
    world.objects.delete([world.data_keys()[0]])
    world.store.scrub()

    topic.delete(before=101)
    world.store.relocate()
    told = world.store.scrub()

    assert told.findings == []
    assert seqs_of(topic) == list(range(101, 501))


def test_retention_relocation_and_rewriting_go_on_around_a_fence():
    world = ColdWorld()
    topic = world.cold_topic()
    other = world.store.topic("other")
    key = world.data_keys()[1]
    flip_object(world, key, len(world.objects.get(key)) // 4)
    topic = world.reopen().topic("t")
    other = world.store.topic("other")
    world.store.scrub()
    with pytest.raises(Corrupt):
        topic.delete(match="odd")
    topic.alter(cap_records=450)

    world.fill(topic, 2)
    world.fill(other, 3)
    world.store.relocate()

    assert topic._state.cold.released == 600
    assert other._state.cold.released == 200
    assert topic.statistics().earliest_seq == 251
    assert seqs_of(topic, after=250) == list(range(251, 701))


def test_a_rewrite_of_a_damaged_file_is_left_out():
    world = ColdWorld(dead_share=0.3)
    topic = world.cold_topic()
    topic.delete(match="odd")
    keys = world.data_keys()
    flip_object(world, keys[1], len(world.objects.get(keys[1])) // 4)

    world.store.relocate()

    assert list(topic._state.cold.rows) == [50, 100, 50, 50]
    assert seqs_of(topic, after=200) == list(range(202, 501, 2))


def test_a_damaged_local_segment_keeps_its_topic_from_moving_and_no_other():
    world = ColdWorld(hot_segments=1)
    hit, other = world.store.topic("t"), world.store.topic("other")
    world.fill(hit, 2)
    world.fill(other, 2)
    flip(world, segment_paths(world)[0], 100)

    with pytest.raises(Corrupt):
        world.store.relocate()

    assert hit._state.cold is None
    assert other._state.cold.released == 100
    told = world.store.scrub()
    assert [(each.outcome, each.first_seq, each.last_seq) for each in told.findings] == [
        ("fenced", 1, 32)
    ]
    hit.delete(before=33)
    world.store.relocate()
    assert hit._state.cold.released == 100
    assert seqs_of(hit) == list(range(33, 201))


def test_a_manifest_that_cannot_be_read_is_replaced_while_it_is_known():
    world = ColdWorld()
    topic = world.cold_topic()
    key = "topics/0000000000000001/manifest/00000000000000000001.json"
    flip_object(world, key, 200)

    told = world.store.scrub()

    assert key in {each.path for each in told.findings if each.outcome == "restored"}
    assert seqs_of(topic) == list(range(1, 501))
    topic = world.reopen().topic("t")
    world.fill(topic, 1)
    world.store.relocate()
    assert topic._state.cold.last_seq == 500


def test_a_segment_that_the_lake_stood_in_for_is_looked_at_at_once():
    world = copied_world()
    world.settings = _paced(world, bytes_per_s=1 << 20)
    world.cold_topic()
    path = segment_paths(world)[0]
    world.store.scrub()
    flip(world, path, 100)
    topic = world.reopen().topic("t")
    world.store._scrubber._began_s = 0.0  # a round has just been
    topic.read(300)

    world.clock.advance(1)
    world.store._scrubber.run_once()

    assert [each.path for each in world.store.health().scrub.findings] == [path]
    assert world.store.health().status == "green"


def test_a_round_keeps_its_pace_and_the_next_waits():
    world = copied_world()
    world.settings = _paced(world, bytes_per_s=1000, cycle_s=3600.0)
    world.reopen()
    world.cold_topic()
    whole = world.store.scrub().bytes_read
    world.reopen()
    scrubber = world.store._scrubber
    seconds = 0

    while scrubber.progress().rounds == 0:
        world.clock.advance(1)
        seconds += 1
        before = scrubber.progress().bytes_read
        scrubber.run_once()
        assert scrubber.progress().bytes_read - before <= 1000 + 16_000  # one step too far

    assert abs(scrubber.progress().bytes_read - whole) < 2000
    assert seconds >= whole / 1000
    world.clock.advance(60)
    scrubber.run_once()
    assert (scrubber.progress().rounds, scrubber._in_round) == (1, False)
    world.clock.advance(3600)
    scrubber.run_once()
    assert scrubber._in_round


def test_a_lake_that_does_not_answer_is_asked_again_for_the_same_file():
    world = ColdWorld()
    world.cold_topic()
    world.objects.fail("get_ranges", nth=2, how="before")
    scrubber = world.store._scrubber
    with pytest.raises(Unavailable):
        world.store.scrub()

    while scrubber._busy:
        scrubber._step()

    told = scrubber.progress()
    assert (told.rounds, told.files, told.findings) == (1, 5, [])


def test_a_bit_that_flipped_on_the_way_is_no_damage():
    world = copied_world()
    world.cold_topic()
    world.objects.fail("get_ranges", nth=1, how="flipped")
    world.objects.fail("get", nth=2, how="flipped")

    told = world.store.scrub()

    assert told.findings == []


def _paced(world: ColdWorld, **scrub: object) -> Settings:
    return msgspec.structs.replace(world.settings, scrub=ScrubSettings(**scrub))
