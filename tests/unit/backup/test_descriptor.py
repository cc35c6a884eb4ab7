"""Promise (C1, C10): the descriptor of a backup comes back as it was, or says what is wrong."""

from __future__ import annotations

import msgspec
import pytest

from strandline.backup import descriptor as codec
from strandline.backup.descriptor import (
    BackupDescriptor,
    BackupObject,
    LakeTopicManifest,
    LogPiece,
    ShardReach,
    TopicReach,
)
from strandline.errors import Corrupt, UnsupportedFormat

PATH = "backups/00000000000000000003.json"
OBJECT = BackupObject("roots/x.bin", 10, "ab" * 16)
SAMPLE = BackupDescriptor(
    number=3,
    attempt="00" * 16,
    store_id="11" * 16,
    store_created_us=1,
    made_us=2,
    timeline=2,
    exact_us=3,
    until_us=4,
    copied_bytes=5,
    root_number=6,
    root=OBJECT,
    shards=[ShardReach(shard=0, replay_lsn=8, exact_lsn=16, end_lsn=24, last_header="00" * 72)],
    topics=[TopicReach(1, "naïve", 7), TopicReach(2, "gone", 3, True)],
    segments=[OBJECT],
    log=[LogPiece(shard=0, first_lsn=8, end_lsn=24, term=1, ts_first=1, ts_last=2, object=OBJECT)],
    manifests=[LakeTopicManifest(topic_id=1, number=2, object=OBJECT)],
    lake=[OBJECT],
)


def test_a_descriptor_comes_back_as_it_was():
    data = codec.encode(SAMPLE)

    found = codec.decode(data, 3, PATH)

    assert msgspec.structs.replace(found, checksum="") == SAMPLE
    assert len(list(found.objects())) == 5


def test_every_flipped_bit_is_noticed():
    data = codec.encode(SAMPLE)

    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises(Corrupt):
                codec.decode(bytes(flipped), 3, PATH)


def test_the_descriptor_of_another_backup_is_refused():
    with pytest.raises(Corrupt, match="that of another backup"):
        codec.decode(codec.encode(SAMPLE), 4, PATH)


def test_a_newer_format_is_told_from_damage():
    newer = codec.encode(msgspec.structs.replace(SAMPLE, format=2))

    with pytest.raises(UnsupportedFormat):
        codec.decode(newer, 3, PATH)
    with pytest.raises(UnsupportedFormat):
        codec.decode(b'{"format":2,"unknown":true}', 3, PATH)
