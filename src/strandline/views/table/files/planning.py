"""Decides which files of a table are merged next. Pure.

The level of a file follows from its rows: a flush is of level 0, eight of them together of level
1, and so on; what was flushed early is below. Files are merged with their neighbours only, since a
file answers for a range of seqs.

1. ``merge_files`` neighbours of a level or below become one file.
2. Fewer are left over where a larger file follows: no more will come between. They are merged when
   they are two thirds of as many.
3. Where one of them has more rows than the others together, they wait: it would be written again
   and again for a few rows.
4. No merged file has more than ``rows_max`` rows; one that has half of them is large enough.
5. A file of which a third is hidden is written anew by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import msgspec
from pyroaring import BitMap64

from strandline.lake.entry import LakeFile

ROWS_MAX = 16 * 1024 * 1024
_CROWD = 4
"""So many times ``merge_files`` are merged even where one is larger than the rest."""


class MergeRules(msgspec.Struct, frozen=True, kw_only=True):
    """When files are merged."""

    flush_rows: int = 262_144
    merge_files: int = 8
    rows_max: int = ROWS_MAX
    hidden_share: float = 1 / 3
    """A file with a larger share of hidden rows is written anew."""


def level_of(rows: int, rules: MergeRules) -> int:
    """How often files were merged to make one of so many rows, about."""
    return round(math.log(max(1, rows) / rules.flush_rows, max(2, rules.merge_files)))


def next_merge(
    files: Sequence[LakeFile], hidden: BitMap64, rules: MergeRules
) -> Sequence[LakeFile]:
    """The files to merge next, none when all is well; one alone only loses its hidden rows."""
    levels = [level_of(file.rows, rules) for file in files]
    for level in sorted(set(levels)):
        for first, following in _runs(files, levels, level):
            chosen = _chosen(files[first:following], rules, closed=following < len(files))
            if chosen:
                return chosen
    return next(([file] for file in files if _is_hollow(file, hidden, rules)), [])


def _runs(
    files: Sequence[LakeFile], levels: Sequence[int], level: int
) -> Iterator[tuple[int, int]]:
    """Neighbours of a level or below, as long as they go."""
    places = range(len(files))
    for low, run in itertools.groupby(places, key=lambda place: levels[place] <= level):
        if low:
            found = list(run)
            yield found[0], found[-1] + 1


def _chosen(run: Sequence[LakeFile], rules: MergeRules, *, closed: bool) -> Sequence[LakeFile]:
    count = rules.merge_files
    enough = max(2, count * 2 // 3) if closed else count
    for start in range(len(run) - 1):
        window = run[start : start + count]
        fitting = _fitting(window, rules)
        rows = [file.rows for file in fitting]
        full = len(fitting) < len(window) and sum(rows) >= rules.rows_max // 2
        if len(fitting) < (2 if full else enough):
            continue
        if sum(rows) >= 2 * max(rows) or len(run) >= _CROWD * count:
            return fitting
    return []


def _fitting(files: Sequence[LakeFile], rules: MergeRules) -> Sequence[LakeFile]:
    """As many of the files as one file may have the rows of."""
    totals = itertools.accumulate(file.rows for file in files)
    return files[: sum(total <= rules.rows_max for total in totals)]


def _is_hollow(file: LakeFile, hidden: BitMap64, rules: MergeRules) -> bool:
    gone = hidden.range_cardinality(file.first_seq, file.last_seq + 1)
    return gone > 0 and gone >= file.rows * rules.hidden_share
