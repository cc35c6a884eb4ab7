"""One position of a store, which every reader of a query shares.

The driver opens the store read-only, beside its writer if there is one, and takes a snapshot of
each topic (``log/read/snapshot.py``): files of one manifest, floor, hidden seqs, gaps, head. The
snapshot travels with the tasks. So what is appended later is not seen, and the border between lake
and store is the same for all: no gap, no overlap.

``Offsets`` is the short form of a position, JSON that a person can read. A stream's checkpoint
holds it, ``position`` tells it, ``as_of`` takes it: how far each topic had come, in which life.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Sequence

import msgspec

from strandline.config.settings import LakeSettings, Settings, ViewSettings
from strandline.errors import Invalid, StrandlineError, Unavailable, UnknownTopic, Unreachable
from strandline.lake.manifest import fencing
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.lake_selection import is_pattern
from strandline.store import Store

_seen_lakes: set[tuple[str, str]] = set()  # store and url


class Offset(msgspec.Struct, frozen=True):
    """How far a topic has come."""

    epoch: int
    seq: int


class Offsets(msgspec.Struct, frozen=True):
    """How far the topics of one store have come."""

    store: str
    topics: dict[str, Offset]

    @classmethod
    def decode(cls, text: str) -> Offsets:
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise Invalid(f"{text[:80]!r} is no position ({error}): use position(…)") from error

    @classmethod
    def of(cls, value: dict[str, object]) -> Offsets:
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise Invalid(
                f"the checkpoint is of another source ({error}): use a new one"
            ) from error

    def encode(self) -> str:
        return msgspec.json.encode(self, order="sorted").decode()

    def check_store(self, store_id: str) -> None:
        """Raise when the position is of another store: its seqs would mean something else."""
        if self.store != store_id:
            raise Invalid(
                f"the position or checkpoint is of store {self.store[:8]}…, this is store "
                f"{store_id[:8]}…: name the right store, or begin with a new checkpoint"
            )


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshots of some topics of one store."""

    store: str
    """Its path."""
    store_id: str
    lake: str
    """Where its lake is."""
    topics: tuple[Snapshot, ...]

    def offsets(self) -> Offsets:
        found = {topic.name: Offset(topic.epoch, topic.head_seq) for topic in self.topics}
        return Offsets(self.store_id, dict(sorted(found.items())))


def open_readonly(path: str, lake: str = "", views_url: str = "") -> Store:
    """The store, beside its writer if there is one."""
    settings = Settings(lake=LakeSettings(url=lake), views=ViewSettings(url=views_url))
    try:
        return Store(path, readonly=True, settings=settings)
    except StrandlineError:
        raise
    except OSError as error:
        raise Unavailable(
            f"cannot read the store {path} ({error}): check the path and its rights"
        ) from error


def matching(store: Store, topics: Sequence[str], *, strict: bool = True) -> list[str]:
    """The names that a list of names and patterns stands for; with ``strict`` names must exist."""
    there = store.topics()
    found: dict[str, None] = {}
    for topic in topics:
        if topic in there:
            found[topic] = None
        elif is_pattern(topic):
            found.update(dict.fromkeys(fnmatch.filter(there, topic)))
        elif strict:
            near = ", ".join(there[:5]) or "none"
            raise UnknownTopic(f"there is no topic {topic!r} in {store.path}: there are {near}")
    return sorted(found)


def pin(store: Store, topics: Sequence[str], lake: str = "", *, strict: bool = True) -> Position:
    """The position of an opened store, for these topics."""
    names = matching(store, topics, strict=strict)
    found = tuple(store.existing_topic(name).snapshot() for name in names)
    if any(snapshot.cold_files() is not None for snapshot in found):
        with contextlib.suppress(Unreachable):  # perhaps only what is here is wanted
            check_lake(store)
    return Position(
        store=store.path, store_id=store.id, lake=lake or f"{store.path}/lake", topics=found
    )


def check_lake(store: Store) -> None:
    """Raise when the store was opened with a lake that is not its own. Asked once in a process.

    A store does not know where its lake is, and whoever forgets to say so would stage rows where
    nobody takes them, or look for files where there are none.
    """
    objects = store.lake_objects
    if (store.id, objects.name) in _seen_lakes:
        return
    owner = fencing.identity_of(objects)
    if owner is None and not any(_has_moved(store, name) for name in store.topics()):
        return  # it is made when the first records move
    if owner is None or owner.hex() != store.id:
        raise Invalid(
            f"{objects.name} is not the lake of the store {store.path}: name the one that is, "
            'for Spark with .option("lake", url), else with lake'
        )
    _seen_lakes.add((store.id, objects.name))


def _has_moved(store: Store, name: str) -> bool:
    return store.existing_topic(name).snapshot().cold_files() is not None


def position(store: str | Store, *topics: str, lake: str = "") -> str:
    """Where these topics are now (names or patterns): a text that ``as_of`` takes."""
    with open_readonly(path_of(store), lake) as opened:
        return pin(opened, topics or ["*"], lake).offsets().encode()


def path_of(store: str | Store) -> str:
    return store.path if isinstance(store, Store) else os.path.abspath(store)
