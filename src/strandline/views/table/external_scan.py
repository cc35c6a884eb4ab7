"""What a reading is made of, for an engine that reads files by itself.

Files are named, with the schema they were written in; rows that are in no file are handed over.
Whoever reads a file that ``is_cut`` leaves out the rows that are not wanted: those outside of the
range of seqs, and hidden ones. All of a file is given, also when few of its zones may matter:
engines have their own way to skip row groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyroaring import BitMap64

from strandline.schema import Schema

_EVER = 2**64 - 1


class FileRows(NamedTuple):
    """One Parquet file of which rows are wanted."""

    lake: str
    """The folder or url of the object store."""
    key: str
    """The file's name there."""
    schema: Schema
    """In which it was written."""
    first_seq: int
    last_seq: int
    """The file answers for these."""
    is_cut: bool
    """Whether some of its rows are not wanted."""
    rows: int
    """How many may be wanted."""
    size: int
    """Bytes of the whole file."""


class Apart(NamedTuple):
    """Files, and the rows besides them in the schema of the snapshot."""

    files: Sequence[FileRows] = ()
    memory: Sequence[pa.Table] = ()
    first_seq: int = 0
    last_seq: int = _EVER
    """Rows of files that are cut must be from here to there, both included…"""
    hidden: BitMap64 = BitMap64()
    """… and not among these. Not to be changed."""
