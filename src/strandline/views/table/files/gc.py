"""Deletes what a table no longer needs: as the lake does, and files of indexes with their rows.

``lake/gc.py`` deletes manifests and files of rows. A file of indexes goes when its rows have
gone:

1. Those of files that this sweep has deleted, at once.
2. With ``orphans`` all are listed: those that no manifest knows and whose rows are not there, when
   the grace period is over. So what a writer is about to commit is left alone, and what a crash
   left behind goes.

A file of indexes that goes too early would cost time, and no rows.
"""

from __future__ import annotations

from strandline.config.settings import LakeSettings
from strandline.errors import NotFound
from strandline.lake import object_keys
from strandline.lake.gc import Swept, sweep
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import Ledger
from strandline.views.table.files import layout

_DELETE_MAX = 1000


def sweep_table(
    ledger: Ledger,
    settings: LakeSettings,
    *,
    now_us: int,
    term: int | None,
    orphans: bool = False,
) -> tuple[Swept, Manifest]:
    """Sweep once; what was done, and the manifest that says so."""
    before = ledger.load()
    swept = sweep(
        ledger,
        now_us=now_us,
        keep_s=settings.keep_s,
        grace_s=settings.grace_s,
        term=term,
        orphans=orphans,
    )
    after = ledger.load()
    leaving = {each.name for each in after.removed}
    _delete(ledger, [each.name for each in before.removed if each.name not in leaving])
    if orphans:
        _delete(ledger, _strays(ledger, after, now_us - round(settings.grace_s * 1_000_000)))
    return swept, after


def _strays(ledger: Ledger, newest: Manifest, horizon_us: int) -> list[str]:
    """Names of files of whose indexes alone are there."""
    leaving = {each.name for each in newest.removed}
    return [
        name
        for info in ledger.objects.list(layout.side_folder(ledger.topic_id))
        if info.modified_us <= horizon_us
        if (name := layout.data_name(info.key)) not in leaving and newest.named(name) is None
        if not _is_there(ledger, name)
    ]


def _is_there(ledger: Ledger, name: str) -> bool:
    try:
        ledger.objects.head(object_keys.data_key(ledger.topic_id, name))
    except NotFound:
        return False
    return True


def _delete(ledger: Ledger, names: list[str]) -> None:
    for start in range(0, len(names), _DELETE_MAX):
        part = names[start : start + _DELETE_MAX]
        ledger.objects.delete([layout.side_key(ledger.topic_id, name) for name in part])
