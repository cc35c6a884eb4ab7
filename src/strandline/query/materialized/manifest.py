"""The manifest of a materialized query, written by each commit. Pure.

A manifest is the last record of a commit in the query's topic (result_log.py). It is complete: the
query, the frames of its state, and the last record of every table that they include. Each replaces
the one before.

The state is independent of the engine: tables of Arrow whose columns are determined by the query
alone (incremental_plan.py). An engine can continue from the state of another one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from strandline.errors import UnsupportedFormat

FORMAT = 1
"""The format of manifests and frames. A reader that does not know it rejects the topic."""

Kind = Literal["rows", "groups", "whole"]
"""``rows``: a selection, whose rows only become more. ``groups``: partial states of aggregates,
which are merged. ``whole``: a result that is computed again when a table has new rows."""


class TableMark(msgspec.Struct, frozen=True, kw_only=True):
    """The high-water mark of a table: its last record that is in a state."""

    position: int
    """The seq of the last record of the table that was read."""
    ts: int = 0
    """The time of that record, in microseconds; 0 when it is unknown."""
    deletions: int = 0
    """How often the table had removed old rows by then."""
    schema_version: int = 0
    identity: tuple[int, int] = (0, 0)
    """The identity of the topic: a table that was created again has another one."""
    epoch: int = 0
    """The epoch of the topic: a tail that was lost may have been read."""

    def continues(self, older: TableMark) -> bool:
        """Whether all rows up to ``older`` are unchanged, so that new rows can be added."""
        return (
            self.identity == older.identity
            and self.epoch == older.epoch
            and self.deletions == older.deletions
            and self.position >= older.position
        )

    def has_new_rows(self, older: TableMark) -> bool:
        return self.position != older.position or not self.continues(older)


Marks = dict[str, TableMark]
"""Marks by event."""


class FrameRun(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive frames in the topic that are one table together."""

    part: int
    """The index of its state (incremental_plan.py)."""
    first: int
    last: int
    """Seqs of its first and last frame, both included."""
    rows: int
    size: int
    """Bytes of its frames."""
    newest_us: int = 0
    """Of a selection: the time of its newest row."""


class ResultRetention(msgspec.Struct, frozen=True, kw_only=True):
    """The retention of a result: KEEP n ROWS, KEEP 7 DAYS."""

    rows_max: int | None = None
    age_max_us: int | None = None


NO_RETENTION = ResultRetention()
"""No limit."""


class CommitCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of the commits of a query."""

    commits: int = 0
    recomputed: int = msgspec.field(default=0, name="anew")
    """Commits for which everything was computed again, the first included."""
    rows_taken: int = 0
    """Rows of results, or groups, that commits have added."""
    rows_dropped: int = 0
    """Rows that retention has removed."""
    rows_rewritten: int = 0
    """Rows that were written again when runs were merged."""


class QueryManifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A materialized query after one of its commits."""

    format: int = FORMAT
    alias: str
    text: str
    """The text of the query, which is its only definition."""
    kind: Kind
    shape: str
    """Digest of the shape of the state; a state with another digest is unusable."""
    keep: ResultRetention = NO_RETENTION
    marks: Marks
    runs: tuple[FrameRun, ...] = ()
    generation: int = 1
    """Rises when the state was computed again in full: followers must replace theirs."""
    created_us: int
    refreshed_us: int
    counters: CommitCounters = CommitCounters()
    leaving: tuple[tuple[int, int], ...] = ()
    """Seqs, first and last of each range, that this commit replaced and could not delete."""

    @property
    def rows(self) -> int:
        """Rows of a selection, groups (at most) of an aggregate."""
        return sum(run.rows for run in self.runs if run.part == 0)

    @property
    def size(self) -> int:
        return sum(run.size for run in self.runs)


class _Version(msgspec.Struct):
    format: int = FORMAT


_VERSION = msgspec.json.Decoder(_Version)
_DECODER = msgspec.json.Decoder(QueryManifest)


def encode(manifest: QueryManifest) -> bytes:
    return msgspec.json.encode(manifest)


def decode(data: bytes) -> QueryManifest:
    """A manifest from its record; NewerFormat when a later version has written it."""
    if _VERSION.decode(data).format > FORMAT:
        raise UnsupportedFormat(
            "a remembered query was written by a newer version: upgrade to read it"
        )
    return _DECODER.decode(data)
