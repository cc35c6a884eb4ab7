"""The backups of one place: which there are, and how one more is added.

A backup gets the next number by creating its descriptor where nothing is. Who builds on the newest
backup and finds the next number taken begins again: so the newest one that a backup built on is
still the newest when it is added, and as long as it is, nobody prunes its objects (``prune.py``).
"""

from __future__ import annotations

import msgspec

from strandline.backup import descriptor as codec
from strandline.backup import object_keys
from strandline.backup.descriptor import Descriptor
from strandline.errors import Corrupt, NotFound
from strandline.platform.objectstore.protocol import Objects


class Shelf(msgspec.Struct, frozen=True):
    """The backups that can be read, oldest first, and what is wrong with others, by number."""

    backups: list[Descriptor]
    broken: dict[int, Corrupt]

    @property
    def newest(self) -> int:
        return max([*self.broken, *(each.number for each in self.backups)], default=0)

    def get(self, number: int) -> Descriptor | None:
        """A backup; None when there is none of this number."""
        if number in self.broken:
            raise self.broken[number]
        return next((each for each in self.backups if each.number == number), None)

    def chain(self, number: int) -> list[Descriptor]:
        """The backups whose logs are one log that ends with this one's, oldest first."""
        found: list[Descriptor] = []
        for each in reversed(self.backups):
            if each.number > number:
                continue
            if found and (each.number, each.timeline) != (found[-1].number - 1, found[-1].timeline):
                break
            found.append(each)
        return found[::-1]


def read_all(objects: Objects) -> Shelf:
    """Every backup of a place."""
    backups, broken = [], {}
    for number in numbers(objects):
        try:
            backups.append(read(objects, number))
        except Corrupt as error:
            broken[number] = error
    return Shelf(backups, broken)


def read(objects: Objects, number: int) -> Descriptor:
    """One backup. Bits flip on the way too: only a second bad answer is believed."""
    key = object_keys.descriptor_key(number)
    path = f"{objects.name}/{key}"
    try:
        return codec.decode(objects.get(key), number, path)
    except Corrupt:
        return codec.decode(objects.get(key), number, path)


def numbers(objects: Objects) -> list[int]:
    """Numbers of the backups, in order. A listing may lag: the next numbers are asked for."""
    found = [object_keys.number_of(info.key) for info in objects.list(object_keys.BACKUPS)]
    known = sorted(number for number in found if number is not None)
    following = known[-1] + 1 if known else 1
    while _exists(objects, following):
        known.append(following)
        following += 1
    return known


def add(objects: Objects, backup: Descriptor) -> None:
    """Let the backup exist; ``AlreadyThere`` when another one got the number."""
    key = object_keys.descriptor_key(backup.number)
    objects.create(key, codec.encode(backup), writer=backup.attempt)


def _exists(objects: Objects, number: int) -> bool:
    try:
        objects.head(object_keys.descriptor_key(number))
    except NotFound:
        return False
    return True
