"""Garbage collection of the lake: deletes old manifests, then files that left the manifest.

    1 choose the full manifest from which on versions are retained
    2 delete older manifests in ascending order, one by one
    3 delete files that left no later than that manifest, when their grace period has passed
    4 commit a manifest with that oldest version and without these files

Retained are the newest version, every version that was the newest less than
``manifest_retention_s`` ago, those pinned here, and all that these are read from. A file in
``removed`` is named by no version from its number on (``lake/manifest/manifest.py``), so after 2 no
readable version names a file that 3 deletes: at every step, and after a crash at any step, each
readable version has all its files. Numbers have no holes and the newest manifest holds the oldest
retained number, so no listing is needed: a listing that lags or is wrong cannot cause a deletion.

A version is read from a full manifest. If there are no commits for long, the last files that left
would wait for the next full manifest, so one is committed for them.

An object that no manifest names may belong to a commit in flight. It is therefore never deleted
because of a listing: a commit condemns it first, as a file that left just now. A writer that adds
the file finds it condemned, and the next collections treat it like any other. On any doubt (an
unreadable manifest, an object store that does not respond) the collection raises, and the next one
continues.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from strandline.errors import NotFound
from strandline.lake import object_keys, topic_names
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import ManifestCommitter

_DELETE_MAX = 1000  # keys in one call
_US = 1_000_000


class GcResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one garbage collection."""

    manifests: int
    files: int
    condemned: int
    """Objects that no manifest names, which a later collection will delete."""


def collect_garbage(
    committer: ManifestCommitter,
    *,
    now_us: int,
    manifest_retention_s: float,
    grace_s: float,
    term: int | None = None,
    orphans: bool = False,
) -> GcResult:
    """Collect once. With ``orphans`` list all objects, to find those that no manifest names."""
    with committer.pin() as newest:
        committer.check_term(term, newest)
        needed = _oldest_needed(committer, newest, now_us - round(manifest_retention_s * _US))
        base = committer.retain_from(needed)
    expired = [each for each in newest.removed if each.at_us <= now_us - round(grace_s * _US)]
    due = [each.name for each in expired if each.number <= base]
    expired_numbers = range(newest.oldest, base)
    _delete_manifests(committer, newest, expired_numbers)
    _delete_files(committer, due)
    if expired_numbers or due:
        newest = committer.commit(
            lambda manifest: manifest.with_oldest(base).without_removed(due), term=term
        )
    elif expired and needed == newest.number and committer.base_of(needed) != needed:
        newest = committer.commit(lambda manifest: manifest, term=term, full=True)
    condemned = 0
    if orphans:
        _delete_manifests(committer, newest, _leftovers(committer, newest))
        found = _orphans(committer, newest, now_us - round(grace_s * _US))
        condemned = len(found)
        committer.commit(lambda manifest: manifest.with_condemned(found, at_us=now_us), term=term)
    return GcResult(manifests=len(expired_numbers), files=len(due), condemned=condemned)


def _oldest_needed(committer: ManifestCommitter, newest: Manifest, horizon_us: int) -> int:
    """The full manifest of the oldest version that was the newest after the horizon.

    A version was the newest until the next number was created. When only the newest one was, the
    result is its own number.
    """
    number = newest.oldest
    while number < newest.number and _created_us(committer, number + 1) <= horizon_us:
        number += 1
    while number < newest.number:
        base = committer.base_of(number)
        if base is not None:
            return base
        number += 1  # an interrupted collection deleted what it is read from
    return number


def _created_us(committer: ManifestCommitter, number: int) -> int:
    """When a manifest was created; 0 when an interrupted collection deleted it."""
    try:
        return committer.objects.head(
            object_keys.manifest_key(committer.topic_id, number)
        ).modified_us
    except NotFound:
        return 0


def _delete_manifests(
    committer: ManifestCommitter, newest: Manifest, numbers: Sequence[int]
) -> None:
    if numbers:
        # Number 1 may be among them, and then only the marker shows that the topic is not new.
        topic_names.create_marker(committer.objects, newest.name, newest.topic_id)
    for number in numbers:
        committer.objects.delete([object_keys.manifest_key(committer.topic_id, number)])


def _delete_files(committer: ManifestCommitter, names: Sequence[str]) -> None:
    for start in range(0, len(names), _DELETE_MAX):
        part = names[start : start + _DELETE_MAX]
        committer.objects.delete([object_keys.data_key(committer.topic_id, name) for name in part])


def _leftovers(committer: ManifestCommitter, newest: Manifest) -> list[int]:
    """Existing numbers below the oldest one: commits of writers that were paused; void."""
    listed = committer.objects.list(object_keys.manifest_folder(committer.topic_id))
    numbers = (object_keys.number_of(info.key) for info in listed)
    return sorted(number for number in numbers if number is not None and number < newest.oldest)


def _orphans(committer: ManifestCommitter, newest: Manifest, horizon_us: int) -> list[str]:
    """Names of old objects that the newest manifest does not name."""
    known = {entry.name for entry in newest.removed}
    return [
        name
        for info in committer.objects.list(object_keys.data_folder(committer.topic_id))
        if info.modified_us <= horizon_us
        if (name := object_keys.last_part(info.key)) not in known and newest.find_file(name) is None
    ]
