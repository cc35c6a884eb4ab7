"""Reads the versions of one topic's part of the lake, the newest or an older one.

A listing alone does not tell the newest version, because it may lag: from where it ends, the next
number is asked for until there is none. A version is read from its full manifest and the deltas
behind it, ``codec.DELTAS_MAX`` + 1 objects at most. What was read once is remembered, and then
looking for news takes two small requests.

**A sleeper is not fooled.** Old manifests are deleted, so "the next number is not there" is no
proof for somebody who slept while others went on and swept. But they are deleted in ascending
order, a full one therefore before its deltas and all that is behind. Hence: if the next number is
not there, and *then* the full manifest still is, nothing newer exists.
"""

from __future__ import annotations

import threading

from strandline.errors import Corrupt, NotFound, StrandlineError, UnknownTopic
from strandline.lake import object_keys
from strandline.lake.manifest import manifest_codec
from strandline.lake.manifest.fencing import identity_of, of_another_lake
from strandline.lake.manifest.manifest_codec import Header, Place, Version
from strandline.platform.objectstore.protocol import Objects

_LOOKS_MAX = 4  # at a history that moves while it is read


class History:
    """Versions of one topic's part of the lake. Safe from many threads."""

    def __init__(self, objects: Objects, store_id: bytes, topic_id: int) -> None:
        self._objects = objects
        self._store_id = store_id
        self._topic_id = topic_id
        self._guard = threading.Lock()
        self._known: Version | None = None

    def newest(self, least: int = 0) -> Version:
        """The newest version; ``UnknownTopic`` when there is none.

        ``least`` is the number of a version that is known to have been committed: an older one is
        ``Corrupt``, and so is no version at all.
        """
        missing = ""
        for _ in range(_LOOKS_MAX):
            known = self._known
            try:
                version = self._forward(known or self._listed(least))
                if version.manifest.number < least:
                    raise NotFound(f"{self.key(least)} is not there")
                self._objects.head(self.key(version.base))
            except NotFound as error:  # it was swept while we looked, or we slept
                missing = str(error)
                self.forget(known)
            else:
                self.remember(version)
                return version
        raise Corrupt(
            f"the newest manifest cannot be read: {missing}",
            path=self.key(least) if least else object_keys.manifest_folder(self._topic_id),
        )

    def checksum_of(self, number: int) -> str | None:
        """The checksum of a version's object; None when it is no longer kept."""
        known = self._known
        if known is not None and known.manifest.number == number:
            return known.checksum
        try:
            return self.header(number, self._get(number)).checksum
        except NotFound:
            return None

    def read(self, number: int) -> Version:
        """A version by its number; ``NotFound`` when it is not there, or no longer kept."""
        known = self._known
        if known is not None and known.manifest.number == number:
            return known
        data = self._get(number)
        base = self.header(number, data).base
        version: Version | None = None
        for step in range(base, number):
            version = manifest_codec.follow(version, self._get(step), self.place(step))
        return manifest_codec.follow(version, data, self.place(number))

    def base_of(self, number: int) -> int | None:
        """The full manifest from which a version is read; None when either is gone."""
        try:
            base = self.header(number, self._get(number)).base
            self._objects.head(self.key(base))
        except NotFound:
            return None
        return base

    def header(self, number: int, data: bytes) -> Header:
        return manifest_codec.header_of(data, self.place(number))

    def attempt_at(self, number: int) -> str | None:
        """Whose manifest has this number, None when nobody's."""
        try:
            return self.header(number, self._get(number)).attempt
        except NotFound:
            return None

    def remember(self, version: Version) -> None:
        with self._guard:
            known = self._known
            if known is None or known.manifest.number < version.manifest.number:
                self._known = version

    def forget(self, version: Version | None) -> None:
        """It is not the newest, nor does the newest build on it."""
        with self._guard:
            if self._known is version:
                self._known = None

    def key(self, number: int) -> str:
        return object_keys.manifest_key(self._topic_id, number)

    def place(self, number: int) -> Place:
        return Place(self._store_id, self._topic_id, number)

    def _listed(self, after: int) -> Version:
        """The newest version that a listing shows, at least the one behind which it begins."""
        newest = after
        folder = object_keys.manifest_folder(self._topic_id)
        for info in self._objects.list(folder, start_after=self.key(after)):
            newest = max(newest, object_keys.number_of(info.key) or 0)
        if newest:
            return self.read(newest)
        try:
            return self.read(1)  # the listing may lag
        except NotFound:
            raise UnknownTopic(f"topic {self._topic_id} is not in the lake") from None

    def _forward(self, version: Version) -> Version:
        """The version behind which there is no next number."""
        steps = 0
        while True:
            number = version.manifest.number + 1
            try:
                data = self._get(number)
            except NotFound:
                return version
            version = manifest_codec.follow(version, data, self.place(number))
            steps += 1
            if steps % manifest_codec.DELTAS_MAX == 0:
                version = self._listed(number)

    def _get(self, number: int) -> bytes:
        """A whole manifest. Bits flip on the way too: only a second bad answer is believed."""
        data = self._objects.get(self.key(number))
        try:
            self.header(number, data)
        except Corrupt:
            data = self._objects.get(self.key(number))
            try:
                self.header(number, data)
            except Corrupt as error:
                raise self._explained(error) from None
        return data

    def _explained(self, error: Corrupt) -> Corrupt:
        """The error; or what is behind it, when all manifests here are another store's."""
        try:
            told = identity_of(self._objects)
        except StrandlineError:
            return error
        if told is None or told == self._store_id:
            return error
        return Corrupt(of_another_lake(told, self._store_id), path=error.path)
