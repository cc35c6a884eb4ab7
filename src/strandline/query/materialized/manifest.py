"""What is known of a remembered query after each of its commits. Pure.

A manifest is the closing record of a commit in the query's topic (result_log.py). It tells all
there
is to know: which query it is, which frames hold its state, and up to which record of every table
they reach. Each replaces the one before.

The state is engine-neutral: tables of Arrow whose columns are given by the query alone
(incremental_plan.py). Whoever computes them may go on from where another engine stopped.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from strandline.errors import NewerFormat

FORMAT = 1
"""Of manifests and frames. A reader that does not know it leaves the topic alone."""

Kind = Literal["rows", "groups", "whole"]
"""``rows``: a selection, whose rows only become more. ``groups``: partial states of aggregates,
which are merged. ``whole``: a result that is computed anew when a table has news."""


class TableMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far into a table a state reaches: the high-water mark."""

    position: int
    """The seq of the last record of the table that was seen."""
    ts: int = 0
    """The time of that record, in microseconds; 0 when it is not known."""
    deletions: int = 0
    """How often the table had hidden rows of its past by then."""
    schema_version: int = 0
    identity: tuple[int, int] = (0, 0)
    """Which topic it was: a table that was made anew is another one."""
    epoch: int = 0
    """Which lineage of the topic: a tail that was lost may have been seen."""

    def continues(self, older: TableMark) -> bool:
        """Whether all that ``older`` has seen is still as it was, so that news can be added."""
        return (
            self.identity == older.identity
            and self.epoch == older.epoch
            and self.deletions == older.deletions
            and self.position >= older.position
        )

    def has_news(self, older: TableMark) -> bool:
        return self.position != older.position or not self.continues(older)


Marks = dict[str, TableMark]
"""By event."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Frames that lie side by side in the topic, and are one table when put together."""

    part: int
    """Which of the query's states it is of (incremental_plan.py)."""
    first: int
    last: int
    """Seqs of its first and last frame, both included."""
    rows: int
    size: int
    """Bytes of its frames."""
    newest_us: int = 0
    """Of a selection: the time of its newest row."""


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a result is kept: KEEP n ROWS, KEEP 7 DAYS."""

    rows_max: int | None = None
    age_max_us: int | None = None


NO_KEEP = Keep()
"""All of it stays."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What has been done for a query so far."""

    commits: int = 0
    anew: int = 0
    """Commits for which everything was computed again, the first included."""
    rows_taken: int = 0
    """Rows of results, or groups, that deltas have brought."""
    rows_dropped: int = 0
    """Rows that retention has let go."""
    rows_rewritten: int = 0
    """Rows that were written again when runs were merged."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A remembered query after one of its commits."""

    format: int = FORMAT
    alias: str
    text: str
    """The query, as it was written: the one definition of it."""
    kind: Kind
    shape: str
    """Digest of what the state is a state of; with another one it is of no use."""
    keep: Keep = NO_KEEP
    marks: Marks
    runs: tuple[Run, ...] = ()
    generation: int = 1
    """Rises when the state was computed anew: what followers hold is no beginning of it."""
    created_us: int
    refreshed_us: int
    counters: Counters = Counters()
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
_DECODER = msgspec.json.Decoder(Manifest)


def encode(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest)


def decode(data: bytes) -> Manifest:
    """A manifest from its record; NewerFormat when a later version has written it."""
    if _VERSION.decode(data).format > FORMAT:
        raise NewerFormat("a remembered query was written by a newer version: upgrade to use it")
    return _DECODER.decode(data)
