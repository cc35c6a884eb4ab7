"""Catalog of the backups in one location: reading it, and adding a backup.

A backup takes the next number by creating its descriptor, which must not exist. A backup that
builds on the newest one and finds the next number taken begins again: so the backup that it built
on is still the newest when it is added, and until then ``prune.py`` does not delete its objects.
"""

from __future__ import annotations

import msgspec

from strandline.backup import descriptor as codec
from strandline.backup import object_keys
from strandline.backup.descriptor import Descriptor
from strandline.errors import Corrupt, NotFound
from strandline.platform.objectstore.protocol import Objects


class Shelf(msgspec.Struct, frozen=True):
    """The readable backups, oldest first, and the errors of the others, by number."""

    backups: list[Descriptor]
    broken: dict[int, Corrupt]

    @property
    def newest(self) -> int:
        return max([*self.broken, *(each.number for each in self.backups)], default=0)

    def get(self, number: int) -> Descriptor | None:
        """The backup with this number, None when there is none."""
        if number in self.broken:
            raise self.broken[number]
        return next((each for each in self.backups if each.number == number), None)

    def chain(self, number: int) -> list[Descriptor]:
        """The backups whose logs form one log that ends with this backup's, oldest first."""
        chain: list[Descriptor] = []
        for each in reversed(self.backups):
            if each.number > number:
                continue
            if chain and (each.number, each.timeline) != (chain[-1].number - 1, chain[-1].timeline):
                break
            chain.append(each)
        return chain[::-1]


def read_all(objects: Objects) -> Shelf:
    """Read every backup of a location."""
    backups, broken = [], {}
    for number in numbers(objects):
        try:
            backups.append(read(objects, number))
        except Corrupt as error:
            broken[number] = error
    return Shelf(backups, broken)


def read(objects: Objects, number: int) -> Descriptor:
    """Read one backup. Bits also flip in transit: only the second bad response counts as damage."""
    key = object_keys.descriptor_key(number)
    path = f"{objects.name}/{key}"
    try:
        return codec.decode(objects.get(key), number, path)
    except Corrupt:
        return codec.decode(objects.get(key), number, path)


def numbers(objects: Objects) -> list[int]:
    """Numbers of the backups, in order. A listing may lag: the next numbers are requested."""
    listed = [object_keys.number_of(info.key) for info in objects.list(object_keys.BACKUPS)]
    known = sorted(number for number in listed if number is not None)
    following = known[-1] + 1 if known else 1
    while _exists(objects, following):
        known.append(following)
        following += 1
    return known


def add(objects: Objects, backup: Descriptor) -> None:
    """Create the descriptor of a backup; ``AlreadyThere`` when the number is taken."""
    key = object_keys.descriptor_key(backup.number)
    objects.create(key, codec.encode(backup), writer=backup.attempt)


def _exists(objects: Objects, number: int) -> bool:
    try:
        objects.head(object_keys.descriptor_key(number))
    except NotFound:
        return False
    return True
