"""Optimistic commits to one topic in the lake: numbered manifests, each created once.

A commit reads the newest version, applies the change, and creates the next number if it does not
exist. If it exists, the commit reads it and tries again on top of it. So a commit is visible
completely or not at all, none is ever lost, and any number of writers may commit. After
``ObjectStoreUnreachable`` it is unknown whether a commit happened: repeat the change, which then
changes nothing (``manifest.py``).

**A paused writer cannot fork history.** Numbers that garbage collection deleted could be created
again by a writer that was paused after it read the version before. Its commit counts only if the
full manifest that it builds on still exists afterwards (``manifest_history.py`` explains why this
is enough); otherwise it begins again.

**No manifest names a missing object.** The objects of files that a commit adds are checked after
the version that it builds on was read. Garbage collection deletes only what some manifest has in
``removed``. If that manifest is not newer than the version read, the name is in its ``removed`` and
the change is rejected, or the object is already deleted and the check fails. If it is newer, it has
the number that the commit would create.

**Terms.** A store commits with its term; a newer one makes it ``Fenced``. Other writers, such as
Spark pipelines, commit without one: they are not fenced, and leave the term as it is.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from strandline.errors import Conflict, Corrupt, NotFound, ObjectExists, UnknownTopic
from strandline.lake import object_keys, topic_names
from strandline.lake.manifest import fencing, manifest_codec
from strandline.lake.manifest.manifest import Manifest, difference
from strandline.lake.manifest.manifest_codec import ManifestVersion
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects

ManifestChange = Callable[[Manifest], Manifest | None]

TRIES_MAX = 200
"""Maximum attempts of a commit. Each failed attempt is a successful commit of another writer."""

_PAUSE_S_FIRST = 0.005
_PAUSE_S_MAX = 1.0


class ManifestCommitter:
    """Reads and commits versions of one topic in the lake. Safe from many threads.

    Many of these may exist for one topic, here and elsewhere; a pin protects only from this one.
    """

    def __init__(
        self,
        objects: Objects,
        store_id: bytes,
        topic_id: int,
        clock: Clock,
        random_id: Callable[[], bytes],
    ) -> None:
        self.objects = objects
        self.topic_id = topic_id
        self._store_id = store_id
        self._clock = clock
        self._random_id = random_id
        self._history = ManifestHistory(objects, store_id, topic_id)
        self._commit_lock = threading.Lock()
        self._pin_lock = threading.Lock()  # never held during a request
        self._pins: Counter[int] = Counter()  # by the number of the full manifest
        self._retained = 0

    def create(self, name: str, *, epoch: int, term: int | None = None) -> Manifest:
        """The newest manifest; creates the first one, without files, for a new topic."""
        try:
            newest = self.load()
        except UnknownTopic:
            if topic_names.has_marker(self.objects, name, self.topic_id):
                raise Corrupt(
                    f"topic {name!r} has been in the lake, but no manifest is there",
                    path=object_keys.manifest_folder(self.topic_id),
                ) from None
            self._create_first(name, epoch, term)
            newest = self.load()
        topic_names.create_marker(self.objects, newest.name, self.topic_id)
        return newest

    def load(self, number: int | None = None) -> Manifest:
        """The newest version, or an older one: ``NotFound`` when it is no longer retained."""
        return self._load(number).manifest

    def load_after(self, number: int, checksum: str) -> Manifest:
        """The newest version, which is the version ``number`` or a later one.

        ``Corrupt`` when the newest is older than that, or the number has another checksum: the
        lake is an older copy, or another copy of the store wrote to it.
        """
        newest = self._history.newest(number).manifest
        stored = self._history.checksum_of(number)
        if checksum and stored not in (None, checksum):
            raise Corrupt(
                f"manifest {number} is of another history: another copy of the store wrote it",
                path=object_keys.manifest_key(self.topic_id, number),
            )
        return newest

    def checksum_of(self, number: int) -> str:
        """The checksum of a version's object, empty when it is no longer retained."""
        return self._history.checksum_of(number) or ""

    def commit(
        self, change: ManifestChange, *, term: int | None = None, full: bool = False
    ) -> Manifest:
        """Apply a change to the newest version, with retries; return the result.

        The change may run several times. It may raise, which ends the commit, or return None or
        its argument when there is nothing to do. With ``full`` a full manifest is written even
        then.
        """
        with self._commit_lock:  # one at a time: commits of one process do not compete
            for failures in range(TRIES_MAX):
                before = self._history.newest()
                self.check_term(term, before.manifest)
                changed = change(before.manifest)
                if changed is None or (changed is before.manifest and not full):
                    return before.manifest
                self._check_uploaded(before.manifest, changed)
                if (committed := self._try(before, changed, term, full=full)) is not None:
                    return committed
                self._pause(failures)
        raise Conflict(f"too many concurrent commits to topic {self.topic_id} of the lake: retry")

    @contextmanager
    def pin(self, number: int | None = None) -> Iterator[Manifest]:
        """A version whose files this object does not delete while it is in use."""
        while True:
            version = self._load(number)
            with self._pin_lock:
                # A collection may have begun since the load. The newest version is always retained.
                if version.base >= self._retained:
                    self._pins[version.base] += 1
                    break
            if number is not None:
                raise NotFound(f"manifest {number} of topic {self.topic_id} is no longer kept")
        try:
            yield version.manifest
        finally:
            with self._pin_lock:
                self._pins[version.base] -= 1
                self._pins += Counter()  # drops the zeros

    def retain_from(self, base: int) -> int:
        """Release versions that are read from an older full manifest than this, or than the oldest
        pinned one. Return the full manifest from which on versions are retained."""
        with self._pin_lock:
            self._retained = max(self._retained, min([base, *self._pins]))
            return self._retained

    def base_of(self, number: int) -> int | None:
        """The full manifest from which a version is read; None when either is deleted."""
        return self._history.base_of(number)

    def check_term(self, term: int | None, newest: Manifest) -> None:
        """Raise ``Fenced`` when a newer opening of the store exists."""
        if term is None:
            return
        if newest.term > term:
            raise fencing.fenced_error(self.objects, term)
        fencing.check_term(self.objects, term)

    def _load(self, number: int | None) -> ManifestVersion:
        return self._history.newest() if number is None else self._history.read(number)

    def _create_first(self, name: str, epoch: int, term: int | None) -> None:
        """Create the first manifest, unless another writer does."""
        first = Manifest(
            number=1,
            topic_id=self.topic_id,
            name=name,
            epoch=epoch,
            term=term or 0,
            created_us=self._clock.now_us(),
        )
        self.check_term(term, first)
        try:
            self._write(first, None, full=True)
        except ObjectExists:
            return

    def _try(
        self, before: ManifestVersion, changed: Manifest, term: int | None, *, full: bool
    ) -> Manifest | None:
        """Commit; None when another commit was first or the base was deleted meanwhile."""
        manifest = msgspec.structs.replace(
            changed,
            number=before.manifest.number + 1,
            term=max(before.manifest.term, term or 0),
            created_us=max(before.manifest.created_us, self._clock.now_us()),
        )
        try:
            version = self._write(manifest, before, full=full)
            self.objects.head(object_keys.manifest_key(self.topic_id, before.base))
        except ObjectExists:
            return None
        except NotFound:
            self._history.drop_version(before)
            return None
        self._history.cache_version(version)
        return manifest

    def _write(
        self, manifest: Manifest, before: ManifestVersion | None, *, full: bool
    ) -> ManifestVersion:
        attempt = self._random_id().hex()
        data, version = manifest_codec.encode(
            manifest, before, store_id=self._store_id, attempt=attempt, full=full
        )
        try:
            self.objects.create(
                object_keys.manifest_key(self.topic_id, manifest.number), data, writer=attempt
            )
        except ObjectExists:
            if self._history.attempt_at(manifest.number) != attempt:
                raise
        return version

    def _check_uploaded(self, before: Manifest, changed: Manifest) -> None:
        _, added = difference(before.files, changed.files)
        for file in added:
            key = object_keys.data_key(self.topic_id, file.name())
            try:
                size = self.objects.head(key).size
            except NotFound:
                raise Conflict(f"{key} is not in the lake: upload it again") from None
            if size != file.size:
                raise Corrupt(f"a file of {file.size} bytes has {size}", path=key)

    def _pause(self, failures: int) -> None:
        """Wait for a random time, so that competing writers spread; not after the first failure."""
        if failures:
            chance = int.from_bytes(self._random_id()[:2], "little") / 0xFFFF
            longest = min(_PAUSE_S_MAX, _PAUSE_S_FIRST * 2 ** min(failures, 16))
            self._clock.wait(threading.Event(), longest * chance)
