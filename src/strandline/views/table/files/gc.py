"""Garbage collection of a table: that of the lake, and files of indexes without rows.

``lake/gc.py`` deletes manifests and files of rows. A file of indexes is deleted after its rows:

1. Indexes of files that this run has deleted, at once.
2. With ``orphans`` all objects are listed: indexes that no manifest refers to and whose rows do not
   exist are deleted after the grace period. So files that a writer is about to commit stay, and
   those of a crashed writer are deleted.

A file of indexes that is deleted too early costs time, and no rows.
"""

from __future__ import annotations

from strandline.config.settings import LakeSettings
from strandline.errors import NotFound
from strandline.lake import object_keys
from strandline.lake.gc import GcResult, collect_garbage
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import ManifestCommitter
from strandline.views.table.files import layout

_DELETE_MAX = 1000


def sweep_table(
    ledger: ManifestCommitter,
    settings: LakeSettings,
    *,
    now_us: int,
    term: int | None,
    orphans: bool = False,
) -> tuple[GcResult, Manifest]:
    """Collect garbage once; return what was deleted, and the resulting manifest."""
    before = ledger.load()
    swept = collect_garbage(
        ledger,
        now_us=now_us,
        manifest_retention_s=settings.manifest_retention_s,
        grace_s=settings.grace_s,
        term=term,
        orphans=orphans,
    )
    after = ledger.load()
    removed = {each.name for each in after.removed}
    _delete(ledger, [each.name for each in before.removed if each.name not in removed])
    if orphans:
        _delete(ledger, _orphans(ledger, after, now_us - round(settings.grace_s * 1_000_000)))
    return swept, after


def _orphans(ledger: ManifestCommitter, newest: Manifest, horizon_us: int) -> list[str]:
    """Names of files whose indexes exist without the rows."""
    removed = {each.name for each in newest.removed}
    return [
        name
        for info in ledger.objects.list(layout.index_folder(ledger.topic_id))
        if info.modified_us <= horizon_us
        if (name := layout.data_name(info.key)) not in removed and newest.find_file(name) is None
        if not _exists(ledger, name)
    ]


def _exists(ledger: ManifestCommitter, name: str) -> bool:
    try:
        ledger.objects.head(object_keys.data_key(ledger.topic_id, name))
    except NotFound:
        return False
    return True


def _delete(ledger: ManifestCommitter, names: list[str]) -> None:
    for start in range(0, len(names), _DELETE_MAX):
        chunk = names[start : start + _DELETE_MAX]
        ledger.objects.delete([layout.index_key(ledger.topic_id, name) for name in chunk])
