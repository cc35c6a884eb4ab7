"""Catalog of the backups in one location: reading it, and adding a backup.

A backup takes the next number by creating its descriptor, which must not exist. A backup that
builds on the newest one and finds the next number taken begins again: so the backup that it built
on is still the newest when it is added, and until then ``prune.py`` does not delete its objects.
"""

from __future__ import annotations

import msgspec

from strandline.backup import descriptor as codec
from strandline.backup import object_keys
from strandline.backup.descriptor import BackupDescriptor
from strandline.errors import Corrupt, NotFound
from strandline.platform.objectstore.protocol import Objects


class BackupCatalog(msgspec.Struct, frozen=True):
    """The readable backups, oldest first, and the errors of the others, by number."""

    backups: list[BackupDescriptor]
    broken: dict[int, Corrupt]

    @property
    def newest(self) -> int:
        return max([*self.broken, *(each.number for each in self.backups)], default=0)

    def get(self, number: int) -> BackupDescriptor | None:
        """The backup with this number, None when there is none."""
        if number in self.broken:
            raise self.broken[number]
        return next((each for each in self.backups if each.number == number), None)

    def chain(self, number: int) -> list[BackupDescriptor]:
        """The backups whose logs form one log that ends with this backup's, oldest first."""
        chain: list[BackupDescriptor] = []
        for each in reversed(self.backups):
            if each.number > number:
                continue
            if chain and (each.number, each.timeline) != (chain[-1].number - 1, chain[-1].timeline):
                break
            chain.append(each)
        return chain[::-1]


def read_catalog(objects: Objects) -> BackupCatalog:
    """Read every backup of a location."""
    backups, broken = [], {}
    for number in backup_numbers(objects):
        try:
            backups.append(read_backup(objects, number))
        except Corrupt as error:
            broken[number] = error
    return BackupCatalog(backups, broken)


def read_backup(objects: Objects, number: int) -> BackupDescriptor:
    """Read one backup. Bits also flip in transit: only the second bad response counts as damage."""
    key = object_keys.descriptor_key(number)
    path = f"{objects.name}/{key}"
    try:
        return codec.decode(objects.get(key), number, path)
    except Corrupt:
        return codec.decode(objects.get(key), number, path)


def backup_numbers(objects: Objects) -> list[int]:
    """Numbers of the backups, in order. A listing may lag: the next numbers are requested."""
    listed = [object_keys.number_of(info.key) for info in objects.list(object_keys.BACKUPS)]
    known = sorted(number for number in listed if number is not None)
    following = known[-1] + 1 if known else 1
    while _exists(objects, following):
        known.append(following)
        following += 1
    return known


def add_backup(objects: Objects, backup: BackupDescriptor) -> None:
    """Create the descriptor of a backup; ``ObjectExists`` when the number is taken."""
    key = object_keys.descriptor_key(backup.number)
    objects.create(key, codec.encode(backup), writer=backup.attempt)


def _exists(objects: Objects, number: int) -> bool:
    try:
        objects.head(object_keys.descriptor_key(number))
    except NotFound:
        return False
    return True
