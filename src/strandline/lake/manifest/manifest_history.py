"""Reads the versions of one topic in the lake, the newest or an older one.

A listing alone does not show the newest version, because it may lag: from its last number on, the
next number is requested until there is none. A version is read from its full manifest and the
deltas after it, ``manifest_codec.DELTAS_MAX`` + 1 objects at most. The newest version read is
cached, and then a check for a newer one takes two small requests.

**A paused reader does not return an old version as the newest.** Old manifests are deleted, so a
missing next number proves nothing to a reader that was paused while others committed and collected
garbage. But they are deleted in ascending order, a full one therefore before its deltas and all
later numbers. Hence: if the next number does not exist, and *afterwards* the full manifest still
does, nothing newer exists.
"""

from __future__ import annotations

import threading

from strandline.errors import Corrupt, NotFound, StrandlineError, UnknownTopic
from strandline.lake import object_keys
from strandline.lake.manifest import manifest_codec
from strandline.lake.manifest.fencing import foreign_lake_reason, identity_of
from strandline.lake.manifest.manifest_codec import ManifestHeader, ManifestKey, ManifestVersion
from strandline.platform.objectstore.protocol import Objects

_READS_MAX = 4  # of a history that moves while it is read


class ManifestHistory:
    """Versions of one topic in the lake. Safe from many threads."""

    def __init__(self, objects: Objects, store_id: bytes, topic_id: int) -> None:
        self._objects = objects
        self._store_id = store_id
        self._topic_id = topic_id
        self._lock = threading.Lock()
        self._newest: ManifestVersion | None = None

    def newest(self, least: int = 0) -> ManifestVersion:
        """The newest version; ``UnknownTopic`` when there is none.

        ``least`` is the number of a version that has been committed: a lower newest version is
        ``Corrupt``, and so is none at all.
        """
        missing = ""
        for _ in range(_READS_MAX):
            known = self._newest
            try:
                version = self._read_forward(known or self._read_listed(least))
                if version.manifest.number < least:
                    raise NotFound(f"{self.key(least)} is not there")
                self._objects.head(self.key(version.base))
            except NotFound as error:  # garbage collection deleted it meanwhile
                missing = str(error)
                self.drop_version(known)
            else:
                self.cache_version(version)
                return version
        raise Corrupt(
            f"the newest manifest cannot be read: {missing}",
            path=self.key(least) if least else object_keys.manifest_folder(self._topic_id),
        )

    def checksum_of(self, number: int) -> str | None:
        """The checksum of a version's object; None when it is no longer retained."""
        known = self._newest
        if known is not None and known.manifest.number == number:
            return known.checksum
        try:
            return self.header(number, self._get(number)).checksum
        except NotFound:
            return None

    def read(self, number: int) -> ManifestVersion:
        """A version by its number; ``NotFound`` when it does not exist or is no longer retained."""
        known = self._newest
        if known is not None and known.manifest.number == number:
            return known
        data = self._get(number)
        base = self.header(number, data).base
        version: ManifestVersion | None = None
        for step in range(base, number):
            version = manifest_codec.apply_object(version, self._get(step), self.manifest_key(step))
        return manifest_codec.apply_object(version, data, self.manifest_key(number))

    def base_of(self, number: int) -> int | None:
        """The full manifest from which a version is read; None when either is deleted."""
        try:
            base = self.header(number, self._get(number)).base
            self._objects.head(self.key(base))
        except NotFound:
            return None
        return base

    def header(self, number: int, data: bytes) -> ManifestHeader:
        return manifest_codec.header_of(data, self.manifest_key(number))

    def attempt_at(self, number: int) -> str | None:
        """The attempt that created this number, None when it does not exist."""
        try:
            return self.header(number, self._get(number)).attempt
        except NotFound:
            return None

    def cache_version(self, version: ManifestVersion) -> None:
        with self._lock:
            known = self._newest
            if known is None or known.manifest.number < version.manifest.number:
                self._newest = version

    def drop_version(self, version: ManifestVersion | None) -> None:
        """Drop a cached version that is not the newest, and that the newest does not build on."""
        with self._lock:
            if self._newest is version:
                self._newest = None

    def key(self, number: int) -> str:
        return object_keys.manifest_key(self._topic_id, number)

    def manifest_key(self, number: int) -> ManifestKey:
        return ManifestKey(self._store_id, self._topic_id, number)

    def _read_listed(self, after: int) -> ManifestVersion:
        """The newest version in a listing that begins after a number, at least that number."""
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

    def _read_forward(self, version: ManifestVersion) -> ManifestVersion:
        """The version after which there is no next number."""
        steps = 0
        while True:
            number = version.manifest.number + 1
            try:
                data = self._get(number)
            except NotFound:
                return version
            version = manifest_codec.apply_object(version, data, self.manifest_key(number))
            steps += 1
            if steps % manifest_codec.DELTAS_MAX == 0:
                version = self._read_listed(number)

    def _get(self, number: int) -> bytes:
        """A manifest. Bits also flip in transit: only the second bad response counts as damage."""
        data = self._objects.get(self.key(number))
        try:
            self.header(number, data)
        except Corrupt:
            data = self._objects.get(self.key(number))
            try:
                self.header(number, data)
            except Corrupt as error:
                raise self._with_cause(error) from None
        return data

    def _with_cause(self, error: Corrupt) -> Corrupt:
        """The error; or its cause, when all manifests here belong to another store."""
        try:
            owner = identity_of(self._objects)
        except StrandlineError:
            return error
        if owner is None or owner == self._store_id:
            return error
        return Corrupt(foreign_lake_reason(owner, self._store_id), path=error.path)
