"""A remembered query for people: what it is, how much is stored, how far it has come. Pure."""

from __future__ import annotations

import msgspec

from strandline.query.materialized.manifest import Counters, Keep, Kind, Manifest, Marks


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered query, as it stands."""

    alias: str
    query: str
    kind: Kind
    keep: Keep
    rows: int
    """Rows that are stored: of a selection its rows, of aggregates partial states of groups."""
    bytes: int
    runs: int
    marks: Marks
    behind: int
    """Records that were appended to its tables since."""
    created_us: int
    refreshed_us: int
    counters: Counters


def description_of(manifest: Manifest, behind: int) -> Description:
    return Description(
        alias=manifest.alias,
        query=manifest.text,
        kind=manifest.kind,
        keep=manifest.keep,
        rows=manifest.rows,
        bytes=manifest.size,
        runs=len(manifest.runs),
        marks=manifest.marks,
        behind=behind,
        created_us=manifest.created_us,
        refreshed_us=manifest.refreshed_us,
        counters=manifest.counters,
    )
