"""Promise: what docs/format/backup.md says of descriptors is what a backup writes."""

from __future__ import annotations

import re

from strandline.backup import descriptor as codec
from strandline.backup.descriptor import (
    BackupDescriptor,
    BackupObject,
    LakeTopicManifest,
    LogPiece,
    ShardReach,
    TopicReach,
)
from tests.house.tree import read_document

PAGE = "docs/format/backup.md"
SAMPLE = BackupDescriptor(
    number=1,
    attempt="00112233445566778899aabbccddeeff",
    store_id="000102030405060708090a0b0c0d0e0f",
    store_created_us=1_700_000_000_000_000,
    made_us=1_700_000_000_003_000,
    timeline=1,
    exact_us=1_700_000_000_002_000,
    until_us=1_700_000_000_003_000,
    copied_bytes=0,
    root_number=0,
    root=None,
    shards=[ShardReach(shard=0)],
    topics=[TopicReach(1, "orders", 0)],
    segments=[],
    log=[],
    manifests=[],
    lake=[],
)


def _example() -> bytes:
    found = re.search(r"^```json\n(.*?)^```", read_document(PAGE), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].encode()


def test_the_example_is_what_is_written_and_read():
    assert codec.encode(SAMPLE) == _example()
    assert codec.decode(_example(), 1, PAGE).timeline == 1


def test_the_page_names_every_field():
    fields = {
        field
        for struct in (
            BackupDescriptor,
            BackupObject,
            LogPiece,
            ShardReach,
            TopicReach,
            LakeTopicManifest,
        )
        for field in struct.__struct_fields__
    }

    assert [field for field in sorted(fields) if f"`{field}`" not in read_document(PAGE)] == []
