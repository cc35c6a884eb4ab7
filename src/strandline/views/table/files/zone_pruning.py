"""Decides which zones of a table's files are read.

    files     those whose seqs are not wanted are left out, by what the manifest tells
    zones     those that the indexes rule out for a condition, or the bounds of their seqs
    first     of ``top`` only zones that may hold one of the first rows, over all files together

A file of which not all seqs are wanted is no help for ``top``: the rows for which its zones would
be chosen may be just those that are not. Hidden rows are allowed for by looking so many rows
further.
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
from strandline.views.table.files.file_snapshot import Pinned
from strandline.views.table.files.table_file import OpenFile
from strandline.views.table.index.index_reader import Indexes, top_across
from strandline.views.table.snapshot import Facts, Top


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of files."""

    schema: Schema
    """The condition is bound to it."""
    where: Condition | None
    first_seq: int
    last_seq: int
    top: Top | None
    hidden: BitMap64


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Zones of one file that are to be read."""

    opened: OpenFile
    schema: Schema
    """In which the file was written."""
    zones: np.ndarray
    checked: np.ndarray
    """Those of them of which rows must be left out."""

    @property
    def rows(self) -> int:
        starts = self.opened.starts
        return int((starts[self.zones + 1] - starts[self.zones]).sum())


class _Candidate:
    """A file of which something is wanted. Owned by one thread."""

    def __init__(self, file: LakeFile, opened: OpenFile) -> None:
        self.file = file
        self.opened = opened
        self.keep = np.ones(opened.zones, dtype=bool)
        self.checked = np.zeros(opened.zones, dtype=bool)
        self.is_cut = False
        self.hidden = 0


def choose(pinned: Pinned, wanted: Wanted, facts: Facts) -> list[Chosen]:
    """The zones to read, file by file; tells ``facts`` what was ruled out, and how."""
    candidates = list(_candidates(pinned, wanted, facts))
    for each in candidates:
        _prune(each, wanted, facts)
        _bound(each, wanted)
    if wanted.top is not None:
        _best(candidates, wanted, wanted.top, facts)
    found = []
    for each in candidates:
        pinned.cache.recount(each.file.content)  # more of its indexes may have been read
        if each.keep.any():
            zones, checked = np.flatnonzero(each.keep), np.flatnonzero(each.keep & each.checked)
            schema = pinned.schema_of(each.file)
            found.append(Chosen(opened=each.opened, schema=schema, zones=zones, checked=checked))
            facts.files_kept += 1
            facts.zones_kept += len(zones)
    return found


def _candidates(pinned: Pinned, wanted: Wanted, facts: Facts) -> Iterator[_Candidate]:
    for file in pinned.files:
        if not file.rows:
            continue
        facts.files += 1
        if file.last_seq >= wanted.first_seq and file.first_seq <= wanted.last_seq:
            candidate = _Candidate(file, pinned.open(file))
            facts.zones += candidate.opened.zones
            yield candidate


def _prune(each: _Candidate, wanted: Wanted, facts: Facts) -> None:
    """Keep zones that may hold rows which fulfil the condition."""
    indexes = each.opened.indexes
    if wanted.where is None or indexes is None:
        return
    try:
        keep, used = indexes.prune(wanted.where, wanted.schema)
    except index_file.UNFIT as error:
        each.opened.give_up_indexes(error)
        return
    each.keep &= keep
    facts.indexes += [name for name in used if name not in facts.indexes]


def _bound(each: _Candidate, wanted: Wanted) -> None:
    """Keep zones with wanted seqs, and note those that have others, too."""
    file, first, last = each.file, wanted.first_seq, wanted.last_seq
    each.hidden = wanted.hidden.range_cardinality(file.first_seq, file.last_seq + 1)
    each.is_cut = file.first_seq < first or file.last_seq > last
    if not each.is_cut and not each.hidden:
        return
    lows, highs = each.opened.seq_bounds()
    each.keep &= (highs >= np.uint64(first)) & (lows <= np.uint64(last))
    each.checked |= (lows < np.uint64(first)) | (highs > np.uint64(last))
    if each.hidden:
        each.checked |= _meets(wanted.hidden, lows, highs)


def _meets(hidden: BitMap64, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
    """The zones in whose range of seqs there is a hidden one."""
    pairs = zip(lows.tolist(), highs.tolist(), strict=True)
    return np.array([hidden.range_cardinality(low, high + 1) > 0 for low, high in pairs], bool)


def _best(candidates: Sequence[_Candidate], wanted: Wanted, top: Top, facts: Facts) -> None:
    """Keep zones that may hold one of the first rows by a column."""
    asked = [
        (each, indexes)
        for each in candidates
        if (indexes := each.opened.indexes) is not None and not each.is_cut
    ]
    rows = top.rows + sum(each.hidden for each, _ in asked)
    try:
        found = _asked_top(asked, wanted, msgspec.structs.replace(top, rows=rows))
    except index_file.UNFIT as error:
        for each, _ in asked:
            each.opened.give_up_indexes(error)
        return
    for (each, _), keep in zip(asked, found, strict=True):
        if not (keep == each.keep).all() and f"{top.field}: ladder" not in facts.indexes:
            facts.indexes.append(f"{top.field}: ladder")
        each.keep &= keep


def _asked_top(
    asked: Sequence[tuple[_Candidate, Indexes]], wanted: Wanted, top: Top
) -> list[np.ndarray]:
    files = [(indexes, each.keep) for each, indexes in asked]
    return [*top_across(files, top, where=wanted.where, schema=wanted.schema)]
