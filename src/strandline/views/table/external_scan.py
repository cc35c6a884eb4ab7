"""Description of a read for an external engine that reads the files itself.

It has the names of files, with the schema that they were written in, and the rows that are not in a
file. When the engine reads a file that ``is_cut``, it must leave out rows outside the range of seqs
and hidden rows. Files are listed as a whole, also when few of their zones can match: engines skip
row groups in their own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyroaring import BitMap64

from strandline.schema import Schema

_SEQ_MAX = 2**64 - 1


class FileRows(NamedTuple):
    """One Parquet file with rows of the read."""

    lake: str
    """The folder or url of the object store."""
    key: str
    """The file's name there."""
    schema: Schema
    """The schema that it was written in."""
    first_seq: int
    last_seq: int
    """The file covers the seqs from first to last."""
    is_cut: bool
    """Whether some of its rows must be left out."""
    rows: int
    """How many rows may be read from it."""
    size: int
    """Bytes of the whole file."""


class ExternalScan(NamedTuple):
    """Files, and the rows that are not in files, in the schema of the snapshot."""

    files: Sequence[FileRows] = ()
    memory: Sequence[pa.Table] = ()
    first_seq: int = 0
    last_seq: int = _SEQ_MAX
    """Rows of files that are cut must be in this range of seqs, both ends included…"""
    hidden: BitMap64 = BitMap64()
    """… and not among these. Must not be changed."""
