"""Promise: files of a topic with a schema have its newest typed columns; its records stay as is.

Moved, rewritten or restored from another copy: whoever writes a file derives them from ``data``.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.errors import Conflict
from strandline.lake.manifest.file_entry import ColumnStats
from strandline.lake.manifest.manifest import Manifest
from strandline.log.repair.verify import verify_store
from strandline.schema import NO_SCHEMA, Schema
from tests.unit.lake.histories import lake_file
from tests.unit.log.topic.cold_world import PATH, ColdWorld
from tests.unit.log.topic.typed_world import (
    NUMBERS,
    fill,
    manifest_of,
    number_of,
    read_all,
    typed_rows,
    typed_topic,
    word_of,
)

WIDER = NUMBERS | {"half": "f64"}


def versions(world: ColdWorld, topic) -> list[int]:
    return [file.schema_version for file in manifest_of(world, topic).files]


def test_moved_files_have_typed_columns_and_their_statistics():
    world = ColdWorld()

    topic = typed_topic(world)

    assert typed_rows(world, topic) == [
        {"seq": seq, "n": number_of(seq), "word": word_of(seq)} for seq in range(1, 201)
    ]
    manifest = manifest_of(world, topic)
    assert manifest.schemas == (Schema(1, NUMBERS),)
    stats = manifest.files[0].column_stats()
    assert stats["n"] == ColumnStats("1", "100", 33)
    assert stats["word"] == ColumnStats("w1", "w97", 43)
    assert set(stats) == {"key", "tag", "node", "n", "word"}
    assert len(read_all(topic)) == 300


def test_a_topic_without_a_schema_has_none_in_the_lake():
    world = ColdWorld()

    topic = typed_topic(world, schema={})

    assert manifest_of(world, topic).schema == NO_SCHEMA
    assert typed_rows(world, topic)[:2] == [{"seq": 1}, {"seq": 2}]


def test_a_change_between_two_moves_is_for_the_files_after_it():
    world = ColdWorld()
    topic = typed_topic(world)

    topic.alter(schema=WIDER)
    fill(world, topic, 2)
    world.store.relocate()

    assert versions(world, topic) == [1, 1, 2, 2]
    assert manifest_of(world, topic).schemas == (Schema(1, NUMBERS), Schema(2, WIDER))
    rows = typed_rows(world, topic)
    assert rows[0] == {"seq": 1, "n": 1, "word": "w1"}
    assert rows[-1] == {"seq": 400, "n": 400, "word": "w400", "half": 200.0}
    assert len(read_all(topic)) == 500


def test_the_lake_is_told_of_a_schema_though_nothing_moves():
    world = ColdWorld()
    topic = typed_topic(world)

    topic.alter(schema=WIDER)
    world.store.relocate()
    told = manifest_of(world, topic)
    world.reopen().relocate()

    assert told.schema == Schema(2, WIDER)
    assert versions(world, topic) == [1, 1]
    assert manifest_of(world, topic).number == told.number


def test_a_turn_without_news_asks_the_lake_nothing():
    world = ColdWorld()
    typed_topic(world)
    world.store.relocate()
    world.objects.calls.clear()

    world.store.relocate()

    assert not world.objects.calls


def test_a_rewritten_file_has_the_newest_schema_and_old_ones_are_forgotten():
    world = ColdWorld()
    topic = typed_topic(world, batches=2)
    topic.alter(schema=WIDER)

    topic.delete(match="odd")
    world.store.relocate()

    assert versions(world, topic) == [2]
    assert typed_rows(world, topic)[:2] == [
        {"seq": 2, "n": 2, "word": "w2", "half": 1.0},
        {"seq": 4, "n": 4, "word": "w4", "half": 2.0},
    ]
    topic.alter(schema={})
    world.store.relocate()
    topic.alter(schema=NUMBERS)
    world.store.relocate()
    assert [schema.version for schema in manifest_of(world, topic).schemas] == [2, 4]


def test_a_damaged_file_is_written_anew_with_the_newest_schema():
    world = ColdWorld(copy_hot=True, hot_segments=4)
    topic = typed_topic(world)
    topic.alter(schema=WIDER)
    world.objects.delete([world.data_keys()[0]])

    report = world.store.scrub()

    assert [finding.outcome for finding in report.findings] == ["restored"]
    assert versions(world, topic) == [2, 1, 1]
    assert typed_rows(world, topic)[1] == {"seq": 2, "n": 2, "word": "w2", "half": 1.0}
    assert len(read_all(topic)) == 300


def test_everything_that_reads_the_lake_gives_the_records_alone():
    world = ColdWorld()
    topic = typed_topic(world)
    topic.alter(schema={"n": "string", "half": "f64"})
    fill(world, topic, 2)
    world.store.relocate()

    topic = world.reopen().topic("t")

    assert len(read_all(topic)) == 500
    assert topic.read(0).arrow().schema.names[-1] == "data"
    assert world.store.scrub().findings == []
    world.store.close()
    report = verify_store(world.disk, PATH, world.settings, objects=world.objects)
    assert (report.problems, report.notes) == ([], [])


def test_a_relocation_that_was_cut_off_goes_on_with_what_is_there():
    world = ColdWorld()
    topic = world.store.topic("t", schema=NUMBERS)
    fill(world, topic, 3)
    before = world.disk.kill()
    world.store.relocate()

    world.disk = before
    topic = world.kill().topic("t")
    world.store.relocate()

    assert versions(world, topic) == [1, 1]
    assert len(read_all(topic)) == 300


SCHEMAS = st.sampled_from([{}, NUMBERS, WIDER, {"n": "string"}])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), SCHEMAS), max_size=12))
def test_a_number_never_has_two_meanings_though_a_store_counts_it_twice(told):
    manifest = Manifest(number=1, topic_id=1, name="t", epoch=1, created_us=1)
    meanings: dict[int, dict[str, str]] = {0: {}}
    for place, (version, fields) in enumerate(told):
        manifest = manifest.with_schema(Schema(version if fields else 0, fields))

        assert manifest.schema.fields == fields
        assert meanings.setdefault(manifest.schema.version, fields) == fields
        assert manifest.with_schema(manifest.schema) is manifest
        first_seq = place * 10 + 1
        file = lake_file(first_seq, first_seq + 9, schema_version=manifest.schema.version)
        manifest = manifest.with_added([file]) if place % 2 else manifest
    kept = {schema.version for schema in manifest.schemas}
    assert {file.schema_version for file in manifest.files} <= {0, *kept}


def test_a_file_whose_schema_is_no_longer_known_is_refused():
    manifest = Manifest(number=1, topic_id=1, name="t", epoch=1, created_us=1)
    manifest = manifest.with_schema(Schema(1, NUMBERS)).with_schema(Schema(2, WIDER))

    with pytest.raises(Conflict, match="older schema"):
        manifest.with_added([lake_file(1, 9, schema_version=1)])
