"""Which lake a pipeline works on, and which of its topics.

A pipeline needs the lake and nothing else, so that it runs where only the object store can be seen:
named by its url, by the folder of its store, or by an opened store.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import msgspec

from strandline.errors import Corrupt, Invalid, NotFound, UnknownTopic
from strandline.lake import external_reader, topic_names
from strandline.lake.manifest import fencing
from strandline.lake.manifest.manifest import Manifest
from strandline.log.files.layout import Layout
from strandline.platform.disk import Disk, OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store

_NAMED_MAX = 5


class LakePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a lake is, as a task takes it along to another machine."""

    url: str
    options: tuple[tuple[str, str], ...] = ()
    store_id: bytes = b""


class Chosen:
    """The topics of a pipeline."""

    def __init__(self) -> None:
        self.manifests: list[Manifest] = []
        """The newest of each."""
        self.damaged: dict[int, tuple[str, str]] = {}
        """By topic id: the name of a topic whose manifests cannot be read, and why."""


class OpenLake:
    """A lake that a pipeline works on. Safe from many threads."""

    def __init__(
        self, objects: Objects, options: Mapping[str, str] | None = None, *, ours: bool = False
    ) -> None:
        """``ours`` were opened for this pipeline, and are closed with it."""
        self.objects = objects
        self._ours = ours
        self.store_id = external_reader.owner_of(objects)
        self.place = LakePlace(
            url=objects.name,
            options=tuple(sorted((options or {}).items())),
            store_id=self.store_id,
        )

    def manifests(self, topics: Sequence[str] = ()) -> Chosen:
        """The topics that are meant, by names and patterns; all for none."""
        found = Chosen()
        for marker in topic_names.every_topic(self.objects):
            if topics and not any(_is_meant(marker.name, topic) for topic in topics):
                continue
            try:
                manifest = external_reader.newest_of(self.objects, self.store_id, marker.topic_id)
            except (Corrupt, NotFound, UnknownTopic) as error:
                found.damaged[marker.topic_id] = (marker.name, str(error))
                continue
            if manifest is not None:
                found.manifests.append(manifest)
        there = {manifest.name for manifest in found.manifests}
        there.update(name for name, _ in found.damaged.values())
        for topic in topics:
            if not is_pattern(topic) and topic not in there:
                raise UnknownTopic(
                    f"there is no topic {topic!r} in the lake {self.objects.name}{self._known()}"
                )
        found.manifests.sort(key=lambda manifest: (manifest.name, manifest.topic_id))
        return found

    def has(self, name: str) -> bool:
        """Whether a topic of this name is here now, readable or damaged."""
        for topic_id in topic_names.topics_named(self.objects, name):
            try:
                if external_reader.newest_of(self.objects, self.store_id, topic_id) is not None:
                    return True
            except (Corrupt, NotFound, UnknownTopic):
                return True
        return False

    def close(self) -> None:
        if self._ours:
            self.objects.close()

    def _known(self) -> str:
        some = sorted({marker.name for marker in topic_names.every_topic(self.objects)})
        listed = ", ".join(map(repr, some[:_NAMED_MAX]))
        return f": it has {listed}{', …' * (len(some) > _NAMED_MAX)}" if some else ""


def open_lake(
    lake: str | Store | Objects,
    *,
    options: Mapping[str, str] | None = None,
    disk: Disk | None = None,
) -> OpenLake:
    """The lake of an opened store, of a store's folder, at a url, or in an object store."""
    if isinstance(lake, Store):
        return OpenLake(lake.lake_objects)
    if not isinstance(lake, str):
        return OpenLake(lake, options)
    url, disk = lake, disk or OsDisk()
    if "://" not in url:
        folder = os.path.abspath(url)
        if not disk.is_dir(folder):
            raise Invalid(f"{url} is neither the folder of a store nor of a lake: check the path")
        url = Layout(folder).lake if disk.exists(f"{folder}/SYSTEM") else folder
    return OpenLake(open_objects(url, options=options, disk=disk), options, ours=True)


def is_lake(url: str, *, disk: Disk | None = None) -> bool:
    """Whether there is a lake: it is made when the first records are moved there."""
    disk = disk or OsDisk()
    if "://" not in url and not disk.is_dir(url):
        return False
    with closing(open_objects(url, disk=disk)) as objects:
        return fencing.identity_of(objects) is not None


@contextmanager
def objects_at(place: LakePlace, given: Objects | None) -> Iterator[Objects]:
    """What a task works on: as given, or as named when it came from another process."""
    if given is not None:
        yield given
        return
    objects = open_objects(place.url, options=dict(place.options))
    try:
        yield objects
    finally:
        objects.close()


def is_pattern(topic: str) -> bool:
    return any(sign in topic for sign in "*?[")


def _is_meant(name: str, topic: str) -> bool:
    return name == topic or (is_pattern(topic) and fnmatch.fnmatchcase(name, topic))
