"""Promise: merged files of a topic with a schema have the typed columns of its newest version."""

from __future__ import annotations

import pytest

from strandline.pipelines import compact
from tests.unit.log.topic.cold_world import ColdWorld
from tests.unit.log.topic.typed_world import (
    NUMBERS,
    fill,
    manifest_of,
    number_of,
    read_all,
    typed_rows,
    typed_topic,
)


@pytest.fixture
def world():
    opened = ColdWorld()
    yield opened
    opened.store.close()


def test_files_of_several_versions_become_one_of_the_newest(world):
    topic = typed_topic(world)
    topic.alter(schema={**NUMBERS, "half": "f64"})
    fill(world, topic, batches=2)
    world.store.relocate()
    before = read_all(topic)
    versions = {file.schema_version for file in manifest_of(world, topic).files}
    assert len(versions) == 2

    compact(world.objects)

    manifest = manifest_of(world, topic)
    assert [file.schema_version for file in manifest.files] == [max(versions)]
    rows = typed_rows(world, topic)
    assert {row["half"] for row in rows if number_of(row["seq"]) is None} == {None}
    assert all(row["half"] == row["seq"] / 2 for row in rows if number_of(row["seq"]) is not None)
    assert [row["n"] for row in rows] == [number_of(row["seq"]) for row in rows]
    assert read_all(topic) == before
    assert "half" in manifest.files[0].column_stats()
