"""A store on the real disk whose older records are in a lake beside it."""

from __future__ import annotations

import strandline
from strandline.config.settings import LakeSettings, SegmentSettings, Settings
from strandline.log.topic.topic import Topic
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store

BATCH = 100


def open_small(path: str, *, objects: Objects | None = None, **lake: object) -> Store:
    """Every batch becomes a segment; all but the newest move, a file each, never rewritten."""
    return strandline.open(
        path,
        settings=Settings(
            segment=SegmentSettings(seal_records=BATCH, own_bytes_min=1),
            lake=LakeSettings(**{"hot_segments": 1, "file_bytes": 1, "dead_share": 1.0, **lake}),
        ),
        objects=objects,
        start_jobs=False,
    )


def fill(store: Store, name: str = "orders", batches: int = 5) -> Topic:
    """Records that say their seq; all but the last hundred are in the lake."""
    topic = store.topic(name)
    for _ in range(batches):
        seqs = range(topic.head_seq + 1, topic.head_seq + 1 + BATCH)
        topic.append_many(
            [b"%d" % seq for seq in seqs], tags=["odd" if seq % 2 else "even" for seq in seqs]
        )
        store.checkpoint()
    store.relocate()
    return topic
