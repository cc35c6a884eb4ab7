"""Decides which files of a table are merged next. Pure.

The level of a file follows from its number of rows: a flush has level 0, a merge of eight flushes
has level 1, and so on; an early flush has a lower level. Files are merged only with their
neighbours, since a file covers a range of seqs.

1. ``merge_files`` files of a level become one, with smaller ones between them.
2. Before a larger file, fewer are enough: no more files will appear between. They are merged when
   there are two thirds of ``merge_files``.
3. The merged file must have a higher level, else the files wait for more: so a row is written once
   per level, and not again for every few new files.
4. No merged file has more than ``rows_max`` rows. Files that have half of that together, and with
   the next file more than that, are merged without waiting.
5. A file with a third of its rows hidden is rewritten alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import msgspec
from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile

ROWS_MAX = 10 * 256 * 1024
"""Eight flushes of the usual size with a margin: rows of a context are together, and still a file
covers a short time, so that queries over a range of time skip most files."""


class MergeRules(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that decide when files are merged."""

    flush_rows: int = 262_144
    merge_files: int = 8
    rows_max: int = ROWS_MAX
    hidden_share: float = 1 / 3
    """A file with at least this ratio of hidden rows is rewritten."""


def level_of(rows: int, rules: MergeRules) -> int:
    """The approximate number of merges that lead to a file of so many rows."""
    return round(math.log(max(1, rows) / rules.flush_rows, max(2, rules.merge_files)))


def next_merge(
    files: Sequence[LakeFile], hidden: BitMap64, rules: MergeRules
) -> Sequence[LakeFile]:
    """The files to merge next; empty if none. A single file only loses its hidden rows."""
    levels = [level_of(file.rows, rules) for file in files]
    for level in sorted(set(levels)):
        for run in _runs(levels, level):
            selected = _select(files, levels, run, rules)
            if selected:
                return files[selected.start : selected.stop]
    return next(([file] for file in files if _should_rewrite(file, hidden, rules)), [])


def _runs(levels: Sequence[int], level: int) -> Iterator[range]:
    """Longest runs of neighbours of a level or below, with at least one of that level."""
    for is_low, run in itertools.groupby(
        range(len(levels)), key=lambda index: levels[index] <= level
    ):
        indices = list(run)
        if is_low and any(levels[index] == level for index in indices):
            yield range(indices[0], indices[-1] + 1)


def _select(
    files: Sequence[LakeFile], levels: Sequence[int], run: range, rules: MergeRules
) -> range | None:
    """The first neighbours of a run that should be merged."""
    level = max(levels[index] for index in run)
    is_closed = run.stop < len(files)
    enough = max(2, rules.merge_files * 2 // 3) if is_closed else rules.merge_files
    for start in run:
        rows = same_level = 0
        for index in range(start, run.stop):
            if rows + files[index].rows > rules.rows_max:
                if rows >= rules.rows_max // 2 and index - start >= 2:
                    return range(start, index)
                break
            rows += files[index].rows
            same_level += levels[index] == level
            if same_level >= enough and level_of(rows, rules) > level:
                return range(start, index + 1)
    return None


def _should_rewrite(file: LakeFile, hidden: BitMap64, rules: MergeRules) -> bool:
    hidden_rows = hidden.range_cardinality(file.first_seq, file.last_seq + 1)
    return hidden_rows > 0 and hidden_rows >= file.rows * rules.hidden_share
