"""Promise: deletes by tag take what a look at every record would, wherever the records are.

Random appends in every form, exact and prefix deletes with and without a bound, checkpoints that
share and seal, merges, caps that evict, moves into the lake, restarts clean and by SIGKILL; with an
index whose parts are tiny, and one that is dropped all the time. Until records move into the lake,
which counts by files, ``payload_bytes`` is the sum over the live records, whenever it is read.
"""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.config.settings import LakeSettings, SegmentSettings
from strandline.log.state import tag_index
from tests.unit.store.world import World, read_all

TAGS = st.sampled_from(["a", "a1", "a12", "a2", "b", "ä", "b\x00", "", None])
MATCHES = st.sampled_from(["a", "a*", "a1*", "b", "b*", "ä*", "*", "c", "a2"])
STEPS = st.one_of(
    st.tuples(st.just("one"), TAGS),
    st.tuples(st.just("many"), st.lists(TAGS, min_size=1, max_size=12)),
    st.tuples(st.just("arrow"), st.lists(TAGS, min_size=1, max_size=12)),
    st.tuples(st.just("same"), st.tuples(TAGS, st.integers(1, 9))),
    st.tuples(st.just("delete"), st.tuples(MATCHES, st.none() | st.integers(1, 60))),
    st.tuples(st.just("trim"), st.integers(1, 40)),
    st.tuples(
        st.sampled_from(["checkpoint", "relocate", "reopen", "kill", "statistics"]), st.none()
    ),
)


class Model:
    """Seq and tag of every live record."""

    def __init__(self, cap: int) -> None:
        self.live: list[tuple[int, str | None]] = []
        self.next_seq = 1
        self.is_in_lake = False
        self._cap = cap

    @property
    def payload_bytes(self) -> int:
        return sum(len(_data(seq)) + len((tag or "").encode()) for seq, tag in self.live)

    def append(self, first_seq: int, tags: list[str | None]) -> None:
        self.live += list(enumerate(tags, first_seq))
        self.next_seq = first_seq + len(tags)
        if self._cap:
            self.live = self.live[-self._cap :]

    def delete(self, match: str, before: int | None) -> int:
        bound = 1 << 62 if before is None else before
        kept = [(seq, tag) for seq, tag in self.live if seq >= bound or not _matches(match, tag)]
        count, self.live = len(self.live) - len(kept), kept
        return count

    def trim(self, before: int) -> None:
        self.live = [(seq, tag) for seq, tag in self.live if seq >= before]


def _data(seq: int) -> bytes:
    return b"x" * (seq * 7 % 23)


def _matches(match: str, tag: str | None) -> bool:
    if tag is None:
        return False
    return tag.startswith(match[:-1]) if match.endswith("*") else tag == match


@settings(max_examples=250, deadline=None)
@given(
    steps=st.lists(STEPS, min_size=4, max_size=30),
    durability=st.sampled_from(["disk", "fsync", "memory", "ephemeral"]),
    cap=st.sampled_from([0, 0, 15]),
    sealed_from=st.sampled_from([8, 40, 1 << 20]),
    sizes=st.sampled_from([(2, 4, 1 << 20), (3, 1000, 0), (4096, 65_536, 1 << 20), (2, 1, 400)]),
)
def test_deletes_through_the_index_are_those_of_a_scan(steps, durability, cap, sealed_from, sizes):
    recent_max, waiting_max, cache_bytes = sizes
    segment = SegmentSettings(
        seal_records=sealed_from,
        seal_bytes=1 << 30,
        block_records=3,
        shared_files_max=2,
        cache_bytes=cache_bytes,
    )
    world = World(segment=segment, lake=LakeSettings(hot_segments=1))
    model = Model(cap)
    world.store.topic("t", durability=durability, cap_records=cap)
    with (
        patch.object(tag_index, "RECENT_MAX", recent_max),
        patch.object(tag_index, "WAITING_MAX", waiting_max),
    ):
        for name, given_value in steps:
            if durability == "ephemeral" and name in ("reopen", "kill"):
                continue  # which ends its records
            _act(world, model, name, given_value)

            assert [(r.seq, r.tag) for r in read_all(world.store.topic("t"))] == model.live
    world.store.close()


def _act(world: World, model: Model, name: str, value: object) -> None:
    topic = world.store.topic("t")
    following = model.next_seq
    match name, value:
        case "one", tag:
            model.append(topic.append(_data(following), tag=tag).first_seq, [tag])
        case "many", list(tags):
            data = [_data(following + place) for place in range(len(tags))]
            model.append(topic.append_many(data, tags=tags).first_seq, tags)
        case "arrow", list(tags):
            data = pa.array([_data(following + place) for place in range(len(tags))], pa.binary())
            batch = pa.record_batch({"data": data, "tag": pa.array(tags, pa.string())})
            model.append(topic.append_arrow(batch).first_seq, tags)
        case "same", (tag, count):
            data = [_data(following + place) for place in range(count)]
            model.append(topic.append(data, tag=tag).first_seq, [tag] * count)
        case "delete", (match, before):
            assert topic.delete(match=match, before=before).deleted == model.delete(match, before)
        case "trim", before:
            topic.delete(before=before)
            model.trim(before)
        case "statistics", _:
            if not model.is_in_lake:
                assert topic.statistics().payload_bytes == model.payload_bytes
        case "kill", _:
            world.store.topic("t").sync()
            world.kill()
        case _:
            model.is_in_lake = model.is_in_lake or name == "relocate"
            (world.reopen if name == "reopen" else getattr(world.store, name))()
