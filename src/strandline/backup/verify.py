"""Verifies that backups are complete: every object exists, and is as it was written.

For each backup: its descriptor can be read; every object that it names has its size and its
content; the checkpoint names no segment, and a manifest no lake file, that the backup lacks; and
the log has no hole from where the checkpoint's replay begins to where the backup ends. Nothing is
changed. ``quick`` checks descriptors and listed sizes, and reads no object.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from strandline.backup import catalog, object_keys
from strandline.backup.descriptor import BackupDescriptor, BackupObject
from strandline.backup.pitr_cut import plan_latest
from strandline.backup.uploader import digest, fetch
from strandline.errors import Corrupt, Invalid, NotFound, StrandlineError, Unavailable
from strandline.lake.manifest import manifest_codec
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.progress import Progress
from strandline.platform.objectstore.protocol import ObjectInfo, Objects


class BackupProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a backup that is not as it was written."""

    backup: int
    """The oldest backup that has the problem."""
    key: str
    reason: str


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a verification."""

    place: str
    backups: int
    objects: int
    bytes_read: int
    problems: list[BackupProblem]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(
    objects: Objects,
    *,
    backup: int | None = None,
    quick: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> BackupReport:
    """Check every backup of a location, or one."""
    found = catalog.read_catalog(objects)
    known = [*found.broken, *(each.number for each in found.backups)]
    if backup is not None and backup not in known:
        raise Invalid(f"there is no backup {backup} in {objects.name}")
    if not known:
        raise Invalid(f"there is no backup in {objects.name}")
    check = _Check(objects, progress, quick=quick)
    for number, error in found.broken.items():
        if backup in (None, number):
            check.add_problem(number, object_keys.descriptor_key(number), str(error))
    if backup is None:
        for number in sorted(set(range(min(known), max(known))) - set(known)):
            check.add_problem(
                number, object_keys.descriptor_key(number), "the descriptor is missing"
            )
    chosen = [each for each in found.backups if backup in (None, each.number)]
    check.run(chosen)
    return BackupReport(
        place=objects.name,
        backups=len(chosen),
        objects=check.objects_checked,
        bytes_read=check.bytes_read,
        problems=check.problems,
    )


class _Check:
    """One verification."""

    def __init__(self, objects: Objects, progress: Progress, *, quick: bool) -> None:
        self.problems: list[BackupProblem] = []
        self.objects_checked = 0
        self.bytes_read = 0
        self._objects = objects
        self._progress = progress
        self._quick = quick
        self._listed: dict[str, ObjectInfo] = {}

    def add_problem(self, backup: int, key: str, reason: str) -> None:
        self.problems.append(BackupProblem(backup=backup, key=key, reason=reason))

    def run(self, backups: list[BackupDescriptor]) -> None:
        for folder in object_keys.FOLDERS if self._quick else ():
            self._listed.update((info.key, info) for info in self._objects.list(folder))
        owners: dict[BackupObject, int] = {}
        for backup in backups:
            for each in backup.objects():
                owners.setdefault(each, backup.number)
        self.objects_checked = len(owners)
        total = sum(each.size for each in owners)
        done = 0
        bad: set[str] = set()
        for each, number in owners.items():
            reason = self._check_size(each) if self._quick else self._read(each)
            if reason:
                bad.add(each.key)
                self.add_problem(number, each.key, reason)
            done += each.size
            self._progress("verify", done, total)
        for backup in backups:
            for key, reason in self._missing(backup, bad):
                self.add_problem(backup.number, key, reason)

    def _check_size(self, target: BackupObject) -> str:
        info = self._listed.get(target.key)
        if info is None:
            try:
                info = self._objects.head(target.key)  # a listing may lag
            except NotFound:
                return "it is missing"
        return "" if info.size == target.size else f"it has {info.size} bytes, not {target.size}"

    def _read(self, target: BackupObject) -> str:
        """The problem of an object, or "". Only the second bad response counts as damage."""
        try:
            size = self._objects.head(target.key).size
            if size != target.size:
                return f"it has {size} bytes, not {target.size}"
            for _ in range(2):
                self.bytes_read += target.size
                if digest(fetch(self._objects, target)) == target.content:
                    return ""
        except Unavailable:
            raise
        except StrandlineError as error:
            return "it is missing" if isinstance(error, NotFound) else str(error)
        return "its content is not what was written"

    def _missing(self, backup: BackupDescriptor, bad: set[str]) -> Iterator[tuple[str, str]]:
        """What a backup needs and does not name."""
        try:
            plan_latest([backup])
        except Corrupt as error:
            yield object_keys.descriptor_key(backup.number), str(error)
        if self._quick:
            return
        named = {each.key for each in backup.objects()}
        root = backup.root
        if root is not None and root.key not in bad:
            content = root_file.decode(self._objects.get(root.key), root.key)
            for info in content.segments:
                if object_keys.segment_key(info) not in named:
                    yield object_keys.segment_key(info), "the backup does not name it"
        for topic in backup.manifests:
            if topic.object.key in bad:
                continue
            place = manifest_codec.ManifestKey(
                bytes.fromhex(backup.store_id), topic.topic_id, topic.number
            )
            data = self._objects.get(topic.object.key)
            for file in manifest_codec.apply_object(None, data, place).manifest.files:
                if object_keys.lake_key(topic.topic_id, file.name()) not in named:
                    yield (
                        object_keys.lake_key(topic.topic_id, file.name()),
                        "the backup does not name it",
                    )
