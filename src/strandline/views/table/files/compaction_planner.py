"""Decides which files of a table are merged next. Pure.

The level of a file follows from its rows: a flush is of level 0, eight of them together of level
1, and so on; what was flushed early is below. Files are merged with their neighbours only, since a
file answers for a range of seqs.

1. ``merge_files`` files of a level become one, with smaller ones that are between them.
2. Fewer are left over where a larger file follows: no more will come between. They are merged when
   they are two thirds of as many.
3. The merged file is of a higher level, else they wait for more: so a row is written once for each
   level, and not again and again to take a few others in.
4. No merged file has more than ``rows_max`` rows. Files that have half of them together, and with
   the next one too many, are merged without waiting.
5. A file of which a third is hidden is written anew by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import msgspec
from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile

ROWS_MAX = 10 * 256 * 1024
"""Eight flushes of the usual size, and what they have too much: contexts are gathered, and yet a
file is of a short time, so that questions about a time leave most files out."""


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
        for run in _runs(levels, level):
            chosen = _chosen(files, levels, run, rules)
            if chosen:
                return files[chosen.start : chosen.stop]
    return next(([file] for file in files if _is_hollow(file, hidden, rules)), [])


def _runs(levels: Sequence[int], level: int) -> Iterator[range]:
    """Neighbours of a level or below, as long as they go, if one of them is of that level."""
    for low, run in itertools.groupby(range(len(levels)), key=lambda place: levels[place] <= level):
        places = list(run)
        if low and any(levels[place] == level for place in places):
            yield range(places[0], places[-1] + 1)


def _chosen(
    files: Sequence[LakeFile], levels: Sequence[int], run: range, rules: MergeRules
) -> range | None:
    """The first neighbours in a run that are to be merged."""
    level = max(levels[place] for place in run)
    closed = run.stop < len(files)
    enough = max(2, rules.merge_files * 2 // 3) if closed else rules.merge_files
    for start in run:
        rows = alike = 0
        for place in range(start, run.stop):
            if rows + files[place].rows > rules.rows_max:
                if rows >= rules.rows_max // 2 and place - start >= 2:
                    return range(start, place)
                break
            rows += files[place].rows
            alike += levels[place] == level
            if alike >= enough and level_of(rows, rules) > level:
                return range(start, place + 1)
    return None


def _is_hollow(file: LakeFile, hidden: BitMap64, rules: MergeRules) -> bool:
    gone = hidden.range_cardinality(file.first_seq, file.last_seq + 1)
    return gone > 0 and gone >= file.rows * rules.hidden_share
