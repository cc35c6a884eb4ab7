"""The versions of a key: listed by the fold, read from the log."""

from __future__ import annotations

from strandline.errors import NotFound
from strandline.records import Record
from strandline.views.kv.fold import KvFold
from strandline.views.kv.values import Entry, Version, version_of
from strandline.views.view_runner import ViewRunner


def versions(host: ViewRunner[KvFold], key: bytes) -> list[Version]:
    """The versions of a key, newest first, without those that have left the log since."""
    return [version_of(record) for record in _records(host, key)]


def entry_at(
    host: ViewRunner[KvFold], key: bytes, version: int | None, ts: int | None
) -> Entry | None:
    """The key as it was at a version of the view, or at a time; None if it had no value."""
    history = versions(host, key)
    for each in history:
        if (version is not None and each.version > version) or (ts is not None and each.ts > ts):
            continue
        expired = ts is not None and each.expires_us is not None and each.expires_us <= ts
        if each.value is None or expired:
            return None
        return Entry(
            key=key,
            value=each.value,
            version=each.version,
            ts=each.ts,
            expires_us=each.expires_us,
        )
    if len(history) >= host.fold.config.history:
        raise NotFound(
            f"the history of key {key!r} begins with version {history[-1].version}: older "
            "versions are not stored"
        )
    return None


def _records(host: ViewRunner[KvFold], key: bytes) -> list[Record]:
    with host.reading() as fold:
        slot = fold.find(key)
        seqs = () if slot is None else (*fold.older_seqs(slot), slot.version)
    return host.records(0, seqs)[::-1] if seqs else []
