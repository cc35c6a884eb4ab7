"""One position of a store that all tasks of a read share.

The driver opens the store read-only, beside its writer if there is one, and takes a snapshot of
each topic (``log/read/snapshot.py``): files of one manifest, floor, hidden seqs, gaps, head. The
snapshot is sent with the tasks. So records that are appended later are not read, and the border
between lake and store is the same for all tasks: no gap, no overlap.

``Offsets`` is the short form of a position, as readable JSON: the epoch and the seq of each topic.
It is stored in the checkpoint of a stream, returned by ``position`` and accepted by ``as_of``.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Sequence

import msgspec

from strandline.config.settings import LakeSettings, Settings, ViewSettings
from strandline.errors import (
    Invalid,
    ObjectStoreUnreachable,
    StrandlineError,
    Unavailable,
    UnknownTopic,
)
from strandline.lake.manifest import fencing
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.lake_selection import is_pattern
from strandline.store import Store

_checked_lakes: set[tuple[str, str]] = set()  # store and url


class TopicOffset(msgspec.Struct, frozen=True):
    """The position of one topic."""

    epoch: int
    seq: int


class TopicOffsets(msgspec.Struct, frozen=True):
    """The positions of the topics of one store."""

    store: str
    topics: dict[str, TopicOffset]

    @classmethod
    def decode(cls, text: str) -> TopicOffsets:
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise Invalid(f"{text[:80]!r} is not a position ({error}): use position(…)") from error

    @classmethod
    def of(cls, value: dict[str, object]) -> TopicOffsets:
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise Invalid(
                f"the checkpoint is of another source ({error}): use a new one"
            ) from error

    def encode(self) -> str:
        return msgspec.json.encode(self, order="sorted").decode()

    def check_store(self, store_id: str) -> None:
        """Raise Invalid when the position is of another store: its seqs are of other records."""
        if self.store != store_id:
            raise Invalid(
                f"the position or checkpoint is of store {self.store[:8]}…, this is store "
                f"{store_id[:8]}…: name the right store, or start with a new checkpoint"
            )


class StorePosition(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshots of some topics of one store."""

    store: str
    """Its path."""
    store_id: str
    lake: str
    """The url of its lake."""
    topics: tuple[TopicSnapshot, ...]

    def offsets(self) -> TopicOffsets:
        offsets = {topic.name: TopicOffset(topic.epoch, topic.head_seq) for topic in self.topics}
        return TopicOffsets(self.store_id, dict(sorted(offsets.items())))


def open_readonly(path: str, lake: str = "", views_url: str = "") -> Store:
    """Open the store read-only, beside its writer if there is one."""
    settings = Settings(lake=LakeSettings(url=lake), views=ViewSettings(url=views_url))
    try:
        return Store(path, readonly=True, settings=settings)
    except StrandlineError:
        raise
    except OSError as error:
        raise Unavailable(
            f"cannot read the store {path} ({error}): check the path and its permissions"
        ) from error


def matching(store: Store, topics: Sequence[str], *, strict: bool = True) -> list[str]:
    """The topics that names and patterns select; with ``strict`` the names must exist."""
    existing = store.topics()
    names: dict[str, None] = {}
    for topic in topics:
        if topic in existing:
            names[topic] = None
        elif is_pattern(topic):
            names.update(dict.fromkeys(fnmatch.filter(existing, topic)))
        elif strict:
            examples = ", ".join(existing[:5]) or "none"
            raise UnknownTopic(f"there is no topic {topic!r} in {store.path}: it has {examples}")
    return sorted(names)


def take_position(
    store: Store, topics: Sequence[str], lake: str = "", *, strict: bool = True
) -> StorePosition:
    """The position of an opened store, for these topics."""
    names = matching(store, topics, strict=strict)
    snapshots = tuple(store.existing_topic(name).snapshot() for name in names)
    if any(snapshot.cold_files() is not None for snapshot in snapshots):
        with contextlib.suppress(ObjectStoreUnreachable):  # the read may need only local records
            check_lake(store)
    return StorePosition(
        store=store.path, store_id=store.id, lake=lake or f"{store.path}/lake", topics=snapshots
    )


def check_lake(store: Store) -> None:
    """Raise Invalid when the store was opened with the lake of another store. Checked once in a
    process.

    A store does not know the location of its lake. With a wrong one, rows would be staged where no
    process appends them, or files would not be found.
    """
    objects = store.lake_objects
    if (store.id, objects.name) in _checked_lakes:
        return
    owner = fencing.identity_of(objects)
    if owner is None and not any(_has_moved(store, name) for name in store.topics()):
        return  # the lake is created when the first records move
    if owner is None or owner.hex() != store.id:
        raise Invalid(
            f"{objects.name} is not the lake of the store {store.path}: name the one that is, "
            'for Spark with .option("lake", url), else with lake'
        )
    _checked_lakes.add((store.id, objects.name))


def _has_moved(store: Store, name: str) -> bool:
    return store.existing_topic(name).snapshot().cold_files() is not None


def position(store: str | Store, *topics: str, lake: str = "") -> str:
    """The current position of these topics (names or patterns), as a text for ``as_of``."""
    with open_readonly(path_of(store), lake) as opened:
        return take_position(opened, topics or ["*"], lake).offsets().encode()


def path_of(store: str | Store) -> str:
    return store.path if isinstance(store, Store) else os.path.abspath(store)
