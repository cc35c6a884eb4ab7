"""Removes old backups, then the objects that no backup names any more.

    1 read every descriptor; one that cannot be read ends it here, and nothing is deleted
    2 delete the descriptors of all but the newest, the oldest first
    3 list the objects, and delete those that no descriptor names and that are old enough

An object of a backup that is being taken has no name yet: it is young, and stays for a grace
period. What the newest backup names stays, for a backup under way may rest on it; it cannot be
added once there is a newer one that it does not know (``catalog.py``).
"""

from __future__ import annotations

import msgspec

from strandline.backup import catalog, object_keys
from strandline.backup.uploader import GRACE_S
from strandline.errors import Invalid
from strandline.platform.objectstore.protocol import Objects

_DELETE_MAX = 1000  # keys in one call


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed."""

    backups: list[int]
    objects: int
    bytes: int


def prune(objects: Objects, *, keep: int, now_us: int, grace_s: float = GRACE_S) -> Pruned:
    """Keep the newest backups, and remove the others."""
    if keep < 1:
        raise Invalid("prune keeps one backup at least")
    shelf = catalog.read_all(objects)
    for error in shelf.broken.values():
        raise error
    doomed = [each.number for each in shelf.backups[:-keep]]
    for number in doomed:
        objects.delete([object_keys.descriptor_key(number)])
    strays = []
    for folder in object_keys.FOLDERS:
        strays += list(objects.list(folder))
    # Read again, behind the listing: a backup that was added meanwhile names what it took.
    after = catalog.read_all(objects)
    for error in after.broken.values():
        raise error
    named = {each.key for backup in after.backups for each in backup.objects()}
    due_us = now_us - round(grace_s * 1e6)
    unnamed = [info for info in strays if info.key not in named and info.modified_us <= due_us]
    for start in range(0, len(unnamed), _DELETE_MAX):
        objects.delete([info.key for info in unnamed[start : start + _DELETE_MAX]])
    return Pruned(backups=doomed, objects=len(unnamed), bytes=sum(info.size for info in unnamed))
