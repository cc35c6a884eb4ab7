"""Deletes from the lake what no version needs any more: old manifests, then files that left.

    1 choose from which full manifest on versions are retained
    2 delete older manifests in ascending order, one by one
    3 delete files that left no later than that manifest, when the grace period is over
    4 commit a manifest that says so, and has forgotten them

Retained are the newest version, every version that was the newest less than ``keep_s`` ago, those
pinned here, and all that these are read from. A file in ``removed`` is named by no version from its
number on (``lake/manifest/manifest.py``), so after 2 nothing that can be read names a file that 3
deletes: at
every step, and after a crash at any step, each version that can be read has all its files. Numbers
have no holes and the newest manifest says from where on they are kept, so no listing is needed:
one that lags or lies cannot make anything go.

A version is read from a full manifest. Where nobody commits for long, the last files that left
would wait for the next full one, so one is committed for them.

An object that no manifest names may be half of a commit in flight. It is therefore never deleted by
what a listing says: it is condemned first, as a file that left just now, by a commit. Whoever wants
to add it meets that, and the next sweeps treat it like any other. On any doubt (a manifest that
cannot be read, a store that does not answer) the sweep raises, and what is left is for the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from strandline.errors import NotFound
from strandline.lake import object_keys, topic_names
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import Ledger

_DELETE_MAX = 1000  # keys in one call
_US = 1_000_000


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep did."""

    manifests: int
    files: int
    condemned: int
    """Objects that no manifest names, which a later sweep will delete."""


def sweep(
    ledger: Ledger,
    *,
    now_us: int,
    keep_s: float,
    grace_s: float,
    term: int | None = None,
    orphans: bool = False,
) -> Swept:
    """Sweep once. With ``orphans`` all objects are listed, to find those nobody names."""
    with ledger.pin() as newest:
        ledger.check_term(term, newest)
        needed = _oldest_needed(ledger, newest, now_us - round(keep_s * _US))
        base = ledger.retain_from(needed)
    over = [each for each in newest.removed if each.at_us <= now_us - round(grace_s * _US)]
    due = [each.name for each in over if each.number <= base]
    doomed = range(newest.oldest, base)
    _delete_manifests(ledger, newest, doomed)
    _delete_files(ledger, due)
    if doomed or due:
        newest = ledger.commit(
            lambda manifest: manifest.with_oldest(base).without_removed(due), term=term
        )
    elif over and needed == newest.number and ledger.base_of(needed) != needed:
        newest = ledger.commit(lambda manifest: manifest, term=term, full=True)
    condemned = 0
    if orphans:
        _delete_manifests(ledger, newest, _leftovers(ledger, newest))
        strays = _strays(ledger, newest, now_us - round(grace_s * _US))
        condemned = len(strays)
        ledger.commit(lambda manifest: manifest.with_condemned(strays, at_us=now_us), term=term)
    return Swept(manifests=len(doomed), files=len(due), condemned=condemned)


def _oldest_needed(ledger: Ledger, newest: Manifest, horizon_us: int) -> int:
    """The full manifest from which the oldest version is read that was the newest lately.

    A version was the newest until the next number was created. When only the newest one was, the
    answer is its own number.
    """
    number = newest.oldest
    while number < newest.number and _created_us(ledger, number + 1) <= horizon_us:
        number += 1
    while number < newest.number:
        base = ledger.base_of(number)
        if base is not None:
            return base
        number += 1  # what it is read from went in a sweep that was cut short
    return number


def _created_us(ledger: Ledger, number: int) -> int:
    """When a manifest was created; long ago when a sweep that was cut short deleted it."""
    try:
        return ledger.objects.head(object_keys.manifest_key(ledger.topic_id, number)).modified_us
    except NotFound:
        return 0


def _delete_manifests(ledger: Ledger, newest: Manifest, numbers: Sequence[int]) -> None:
    if numbers:
        # Number 1 may be among them, and then only the marker knows that the topic is not new.
        topic_names.mark(ledger.objects, newest.name, newest.topic_id)
    for number in numbers:
        ledger.objects.delete([object_keys.manifest_key(ledger.topic_id, number)])


def _delete_files(ledger: Ledger, doomed: Sequence[str]) -> None:
    for start in range(0, len(doomed), _DELETE_MAX):
        part = doomed[start : start + _DELETE_MAX]
        ledger.objects.delete([object_keys.data_key(ledger.topic_id, name) for name in part])


def _leftovers(ledger: Ledger, newest: Manifest) -> list[int]:
    """Numbers that are no longer kept and yet there: commits of sleepers, which do not count."""
    listed = ledger.objects.list(object_keys.manifest_folder(ledger.topic_id))
    numbers = (object_keys.number_of(info.key) for info in listed)
    return sorted(number for number in numbers if number is not None and number < newest.oldest)


def _strays(ledger: Ledger, newest: Manifest, horizon_us: int) -> list[str]:
    """Names of old objects that the newest manifest does not know."""
    known = {entry.name for entry in newest.removed}
    return [
        name
        for info in ledger.objects.list(object_keys.data_folder(ledger.topic_id))
        if info.modified_us <= horizon_us
        if (name := object_keys.last_part(info.key)) not in known and newest.named(name) is None
    ]
