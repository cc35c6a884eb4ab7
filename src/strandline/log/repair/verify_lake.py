"""Verifies the lake of a store, and that the store and its lake agree.

    every object           store.json, terms, names, manifests, and all bytes of every live file
    cold part of a topic   lists the files of the manifest that it names, and no other
    floor and deletes      a manifest hides no record that is live in the store

Of a topic whose newest manifest cannot be read only the versions are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyroaring import BitMap64

from strandline.errors import Corrupt, NotFound
from strandline.lake import object_keys, verify
from strandline.lake.cold_index import ColdIndex
from strandline.lake.lake import Lake
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.lake.verify import VerifyStep
from strandline.log.retention import retention
from strandline.log.state.topic_state import TopicState


def check_lake(lake: Lake, store_id: bytes, states: Sequence[TopicState]) -> Iterator[VerifyStep]:
    """The problems of a lake, and how many bytes were read."""
    objects = lake.objects
    yield from verify.check_head(objects, store_id)
    cold = {state.id: state for state in states if state.cold is not None}
    for topic_id in sorted({*verify.topics_in(objects), *cold}):
        yield from verify.check_versions(objects, store_id, topic_id)
        newest, _ = verify.newest_or_error(objects, store_id, topic_id)
        if newest is None:
            continue
        for file in newest.files:
            for step in verify.check_file(lake.open_file(topic_id, file), file):
                yield step if isinstance(step, int) else _of_topic(step, topic_id)
        if topic_id in cold:
            for reason in _disagreements(lake, store_id, cold[topic_id], newest):
                yield Corrupt(reason, path=object_keys.manifest_key(topic_id, newest.number))


def _of_topic(error: Corrupt, topic_id: int) -> Corrupt:
    return Corrupt(
        error.reason,
        path=error.path,
        offset=error.offset,
        topic_id=topic_id,
        first_seq=error.first_seq,
        last_seq=error.last_seq,
    )


def _disagreements(
    lake: Lake, store_id: bytes, state: TopicState, newest: Manifest
) -> Iterator[str]:
    cold = state.cold
    assert cold is not None
    if newest.dropped or newest.name != state.name:
        yield f"the topic of the lake is {newest.name!r}" + " and deleted" * newest.dropped
        return
    if cold.manifest > newest.number:
        yield f"the checkpoint refers to manifest {cold.manifest}, which is newer"
        return
    if not _lists_the_same(cold, _version(lake, store_id, state.id, cold.manifest), newest):
        yield f"the checkpoint lists other files than manifest {cold.manifest}"
    if newest.floor > state.floor and not retention.is_limited(state):
        yield f"records below {newest.floor} are gone, but the topic begins at {state.floor}"
    hidden = newest.deleted - (state.deleted or BitMap64()) if newest.deleted else BitMap64()
    hidden.remove_range(0, state.floor)
    if hidden:
        yield f"{len(hidden)} records are hidden that the topic has not deleted"


def _version(lake: Lake, store_id: bytes, topic_id: int, number: int) -> Manifest | None:
    """An older manifest, None when it is no longer kept or cannot be read."""
    try:
        return ManifestHistory(lake.objects, store_id, topic_id).read(number).manifest
    except (NotFound, Corrupt):
        return None


def _lists_the_same(cold: ColdIndex, version: Manifest | None, newest: Manifest) -> bool:
    known = {(cold.file(place).name(), cold.sizes[place]) for place in range(len(cold))}
    if version is not None:
        return known == {(file.name(), file.size) for file in version.files}
    names = {file.name() for file in newest.files} | {file.name for file in newest.removed}
    return all(
        cold.file(place).name() in names or cold.lasts[place] < newest.floor
        for place in range(len(cold))
    )
