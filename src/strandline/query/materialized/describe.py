"""The description of a materialized query: definition, stored size, progress. Pure."""

from __future__ import annotations

import msgspec

from strandline.query.materialized.manifest import (
    CommitCounters,
    Kind,
    Marks,
    QueryManifest,
    ResultRetention,
)


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A materialized query and its present state."""

    alias: str
    query: str
    kind: Kind
    keep: ResultRetention
    rows: int
    """Stored rows: of a selection its rows, of aggregates partial states of groups."""
    bytes: int
    runs: int
    marks: Marks
    behind: int
    """Records that were appended to its tables since the last commit."""
    created_us: int
    refreshed_us: int
    counters: CommitCounters


def description_of(manifest: QueryManifest, behind: int) -> Description:
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
