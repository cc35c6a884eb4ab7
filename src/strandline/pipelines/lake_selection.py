"""Selects the lake that a pipeline works on, and its topics.

A pipeline needs only the lake, so it also runs where only the object store is reachable. The lake
is given by its url, by the folder of its store, or by an opened store.
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

_LISTED_MAX = 5


class LakeLocation(msgspec.Struct, frozen=True, kw_only=True):
    """The location of a lake, sent with tasks to other machines."""

    url: str
    options: tuple[tuple[str, str], ...] = ()
    store_id: bytes = b""


class SelectedTopics:
    """The topics of a pipeline."""

    def __init__(self) -> None:
        self.manifests: list[Manifest] = []
        """The newest manifest of each topic."""
        self.damaged: dict[int, tuple[str, str]] = {}
        """By topic id: the name of a topic whose manifests cannot be read, and the reason."""


class OpenLake:
    """A lake that a pipeline works on. Safe from many threads."""

    def __init__(
        self, objects: Objects, options: Mapping[str, str] | None = None, *, owned: bool = False
    ) -> None:
        """With ``ours`` the objects were opened for this pipeline, and are closed with it."""
        self.objects = objects
        self._is_owner = owned
        self.store_id = external_reader.owner_of(objects)
        self.location = LakeLocation(
            url=objects.name,
            options=tuple(sorted((options or {}).items())),
            store_id=self.store_id,
        )

    def manifests(self, topics: Sequence[str] = ()) -> SelectedTopics:
        """The topics that names and patterns select; without any, all topics."""
        selected = SelectedTopics()
        for marker in topic_names.every_topic(self.objects):
            if topics and not any(_is_selected(marker.name, topic) for topic in topics):
                continue
            try:
                manifest = external_reader.newest_of(self.objects, self.store_id, marker.topic_id)
            except (Corrupt, NotFound, UnknownTopic) as error:
                selected.damaged[marker.topic_id] = (marker.name, str(error))
                continue
            if manifest is not None:
                selected.manifests.append(manifest)
        names = {manifest.name for manifest in selected.manifests}
        names.update(name for name, _ in selected.damaged.values())
        for topic in topics:
            if not is_pattern(topic) and topic not in names:
                raise UnknownTopic(
                    f"there is no topic {topic!r} in the lake {self.objects.name}{self._known()}"
                )
        selected.manifests.sort(key=lambda manifest: (manifest.name, manifest.topic_id))
        return selected

    def has(self, name: str) -> bool:
        """Whether a topic of this name exists in the lake, readable or damaged."""
        for topic_id in topic_names.topics_named(self.objects, name):
            try:
                if external_reader.newest_of(self.objects, self.store_id, topic_id) is not None:
                    return True
            except (Corrupt, NotFound, UnknownTopic):
                return True
        return False

    def close(self) -> None:
        if self._is_owner:
            self.objects.close()

    def _known(self) -> str:
        names = sorted({marker.name for marker in topic_names.every_topic(self.objects)})
        listed = ", ".join(map(repr, names[:_LISTED_MAX]))
        return f": it has {listed}{', …' * (len(names) > _LISTED_MAX)}" if names else ""


def open_lake(
    lake: str | Store | Objects,
    *,
    options: Mapping[str, str] | None = None,
    disk: Disk | None = None,
) -> OpenLake:
    """Open the lake of an opened store, of a store's folder, at a url, or in an object store."""
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
    return OpenLake(open_objects(url, options=options, disk=disk), options, owned=True)


def is_lake(url: str, *, disk: Disk | None = None) -> bool:
    """Whether a lake exists: it is created when the first records are moved there."""
    disk = disk or OsDisk()
    if "://" not in url and not disk.is_dir(url):
        return False
    with closing(open_objects(url, disk=disk)) as objects:
        return fencing.identity_of(objects) is not None


@contextmanager
def objects_at(place: LakeLocation, objects: Objects | None) -> Iterator[Objects]:
    """The objects of a task: those given, or opened by location in another process."""
    if objects is not None:
        yield objects
        return
    opened = open_objects(place.url, options=dict(place.options))
    try:
        yield opened
    finally:
        opened.close()


def is_pattern(topic: str) -> bool:
    return any(wildcard in topic for wildcard in "*?[")


def _is_selected(name: str, topic: str) -> bool:
    return name == topic or (is_pattern(topic) and fnmatch.fnmatchcase(name, topic))
