"""Deletes old backups, then the objects that no remaining backup names.

    1 read every descriptor; if one cannot be read, stop and delete nothing
    2 delete the descriptors of all but the newest, the oldest first
    3 list the objects, and delete those that no descriptor names and that are old enough

No descriptor names the objects of a backup in progress yet: they are young, and stay for a grace
period. The objects of the newest backup stay, because a backup in progress may build on it; it
cannot be added once there is a newer one that it has not read (``catalog.py``).
"""

from __future__ import annotations

import msgspec

from strandline.backup import catalog, object_keys
from strandline.backup.uploader import GRACE_S
from strandline.errors import Invalid
from strandline.platform.objectstore.protocol import Objects

_DELETE_MAX = 1000  # keys in one call


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted."""

    backups: list[int]
    objects: int
    bytes: int


def prune(objects: Objects, *, keep: int, now_us: int, grace_s: float = GRACE_S) -> Pruned:
    """Keep the newest backups, and delete the others."""
    if keep < 1:
        raise Invalid("prune keeps one backup at least")
    before = catalog.read_catalog(objects)
    for error in before.broken.values():
        raise error
    pruned = [each.number for each in before.backups[:-keep]]
    for number in pruned:
        objects.delete([object_keys.descriptor_key(number)])
    listed = []
    for folder in object_keys.FOLDERS:
        listed += list(objects.list(folder))
    # Read again, after the listing: a backup that was added meanwhile names the objects it uses.
    after = catalog.read_catalog(objects)
    for error in after.broken.values():
        raise error
    named = {each.key for backup in after.backups for each in backup.objects()}
    due_us = now_us - round(grace_s * 1e6)
    orphans = [info for info in listed if info.key not in named and info.modified_us <= due_us]
    for start in range(0, len(orphans), _DELETE_MAX):
        objects.delete([info.key for info in orphans[start : start + _DELETE_MAX]])
    return Pruned(backups=pruned, objects=len(orphans), bytes=sum(info.size for info in orphans))
