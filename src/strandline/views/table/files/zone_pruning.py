"""Decides which zones of a table's files are read.

    files     skipped if their seqs in the manifest are outside the range
    zones     skipped if the indexes exclude them for the condition, or by the bounds of their seqs
    top       with ``top`` only zones that may hold one of the first rows, over all files together

A file that is only partly in the range of seqs is not used for ``top``: the rows for which its
zones would be selected may be outside the range. For hidden rows, the number of first rows is
increased by the number of hidden rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile
from strandline.schema import Schema
from strandline.views.table.condition import Condition
from strandline.views.table.files import index_file
from strandline.views.table.files.file_snapshot import PinnedFiles
from strandline.views.table.files.table_file import TableFile
from strandline.views.table.index.index_reader import Indexes, top_across
from strandline.views.table.snapshot import ReadStatistics, Top


class RowRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that a read requests from files."""

    schema: Schema
    """The schema that the condition is bound to."""
    where: Condition | None
    first_seq: int
    last_seq: int
    top: Top | None
    hidden: BitMap64


class SelectedZones(msgspec.Struct, frozen=True, kw_only=True):
    """The selected zones of one file."""

    opened: TableFile
    schema: Schema
    """The schema that the file was written in."""
    zones: np.ndarray
    checked: np.ndarray
    """The selected zones with rows that must be left out."""

    @property
    def rows(self) -> int:
        starts = self.opened.starts
        return int((starts[self.zones + 1] - starts[self.zones]).sum())


class _Candidate:
    """A file with rows in the range. Owned by one thread."""

    def __init__(self, file: LakeFile, opened: TableFile) -> None:
        self.file = file
        self.opened = opened
        self.keep = np.ones(opened.zones, dtype=bool)
        self.checked = np.zeros(opened.zones, dtype=bool)
        self.is_cut = False
        self.hidden = 0


def select_zones(
    pinned: PinnedFiles, request: RowRequest, facts: ReadStatistics
) -> list[SelectedZones]:
    """The zones to read, by file; ``facts`` gets the number of excluded ones and the indexes."""
    candidates = list(_candidates(pinned, request, facts))
    for candidate in candidates:
        _prune(candidate, request, facts)
        _keep_in_range(candidate, request)
    if request.top is not None:
        _keep_top(candidates, request, request.top, facts)
    selected = []
    for candidate in candidates:
        pinned.cache.account(candidate.file.content)  # more of its indexes may have been read
        if candidate.keep.any():
            zones, checked = (
                np.flatnonzero(candidate.keep),
                np.flatnonzero(candidate.keep & candidate.checked),
            )
            schema = pinned.schema_of(candidate.file)
            selected.append(
                SelectedZones(opened=candidate.opened, schema=schema, zones=zones, checked=checked)
            )
            facts.files_kept += 1
            facts.zones_kept += len(zones)
    return selected


def _candidates(
    pinned: PinnedFiles, request: RowRequest, facts: ReadStatistics
) -> Iterator[_Candidate]:
    for file in pinned.files:
        if not file.rows:
            continue
        facts.files += 1
        if file.last_seq >= request.first_seq and file.first_seq <= request.last_seq:
            candidate = _Candidate(file, pinned.open(file))
            facts.zones += candidate.opened.zones
            yield candidate


def _prune(candidate: _Candidate, request: RowRequest, facts: ReadStatistics) -> None:
    """Keep zones that may hold rows which fulfil the condition."""
    indexes = candidate.opened.indexes
    if request.where is None or indexes is None:
        return
    try:
        keep, used = indexes.prune(request.where, request.schema)
    except index_file.UNUSABLE as error:
        candidate.opened.disable_indexes(error)
        return
    candidate.keep &= keep
    facts.indexes += [name for name in used if name not in facts.indexes]


def _keep_in_range(candidate: _Candidate, request: RowRequest) -> None:
    """Keep zones with seqs in the range, and mark those that have others, too."""
    file, first, last = candidate.file, request.first_seq, request.last_seq
    candidate.hidden = request.hidden.range_cardinality(file.first_seq, file.last_seq + 1)
    candidate.is_cut = file.first_seq < first or file.last_seq > last
    if not candidate.is_cut and not candidate.hidden:
        return
    lows, highs = candidate.opened.seq_bounds()
    candidate.keep &= (highs >= np.uint64(first)) & (lows <= np.uint64(last))
    candidate.checked |= (lows < np.uint64(first)) | (highs > np.uint64(last))
    if candidate.hidden:
        candidate.checked |= _zones_with_hidden(request.hidden, lows, highs)


def _zones_with_hidden(hidden: BitMap64, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
    """The zones whose range of seqs has a hidden one."""
    pairs = zip(lows.tolist(), highs.tolist(), strict=True)
    return np.array([hidden.range_cardinality(low, high + 1) > 0 for low, high in pairs], bool)


def _keep_top(
    candidates: Sequence[_Candidate], request: RowRequest, top: Top, facts: ReadStatistics
) -> None:
    """Keep zones that may hold one of the first rows by a column."""
    usable = [
        (candidate, indexes)
        for candidate in candidates
        if (indexes := candidate.opened.indexes) is not None and not candidate.is_cut
    ]
    rows = top.rows + sum(candidate.hidden for candidate, _ in usable)
    try:
        masks = _top_masks(usable, request, msgspec.structs.replace(top, rows=rows))
    except index_file.UNUSABLE as error:
        for candidate, _ in usable:
            candidate.opened.disable_indexes(error)
        return
    for (candidate, _), keep in zip(usable, masks, strict=True):
        if not (keep == candidate.keep).all() and f"{top.field}: ladder" not in facts.indexes:
            facts.indexes.append(f"{top.field}: ladder")
        candidate.keep &= keep


def _top_masks(
    usable: Sequence[tuple[_Candidate, Indexes]], request: RowRequest, top: Top
) -> list[np.ndarray]:
    files = [(indexes, candidate.keep) for candidate, indexes in usable]
    return [*top_across(files, top, where=request.where, schema=request.schema)]
