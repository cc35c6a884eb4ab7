"""A topic with a schema, whose records say their own seq, and what its lake says of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.lake import object_keys
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.log.topic.topic import Topic
from tests.unit.log.topic.cold_world import BATCH, ColdWorld

NUMBERS = {"n": "i64", "word": "string"}


def data_of(seq: int) -> bytes:
    """Every third record is no JSON, every seventh has a word that is none."""
    if seq % 3 == 0:
        return b"%d" % seq
    return msgspec.json.encode(
        {"n": seq, "word": seq if seq % 7 == 0 else f"w{seq}", "half": seq / 2}
    )


def number_of(seq: int) -> int | None:
    return None if seq % 3 == 0 else seq


def word_of(seq: int) -> str | None:
    return None if seq % 3 == 0 or seq % 7 == 0 else f"w{seq}"


def fill(world: ColdWorld, topic: Topic, batches: int = 1) -> None:
    for _ in range(batches):
        seqs = range(topic.head_seq + 1, topic.head_seq + 1 + BATCH)
        topic.append_many(
            [data_of(seq) for seq in seqs], tags=["odd" if seq % 2 else "even" for seq in seqs]
        )
        world.store.checkpoint()


def typed_topic(world: ColdWorld, batches: int = 3, **options: Any) -> Topic:
    """A topic with a schema, of which all but the last hundred records are in the lake."""
    topic = world.store.topic("t", **{"schema": NUMBERS, **options})
    fill(world, topic, batches)
    world.store.relocate()
    return topic


def manifest_of(world: ColdWorld, topic: Topic) -> Manifest:
    """The newest manifest as a stranger reads it."""
    store_id = bytes.fromhex(world.store.id)
    return ManifestHistory(world.objects, store_id, topic._state.id).newest().manifest


def rows_of(world: ColdWorld, topic: Topic, file: LakeFile) -> pa.Table:
    """All columns of a file, as any Parquet reader has them."""
    content = world.objects.get(object_keys.data_key(topic._state.id, file.name()))
    return pq.read_table(pa.BufferReader(content))


def typed_rows(world: ColdWorld, topic: Topic) -> list[dict[str, Any]]:
    """Seq and typed columns of every row in the lake, by file."""
    found = []
    for file in manifest_of(world, topic).files:
        table = rows_of(world, topic, file)
        found += table.drop_columns(SCHEMA.names[1:]).to_pylist()
    return found


def read_all(topic: Topic) -> list[bytes]:
    """The records of a topic, checked by their seqs."""
    page = topic.read(0, limit=10_000)
    assert [record.data for record in page.records] == [
        data_of(record.seq) for record in page.records
    ]
    return page.data
