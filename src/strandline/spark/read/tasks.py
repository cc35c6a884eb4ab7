"""What one task of Spark reads: parts, and the shape that their rows are given.

Parts of ``strandline.pipelines`` are pieces of lake files and of the store itself, or rows that
came along. Here are those that only Spark has: records of a server, pieces of a view's state, and
pieces of an event table's files.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql.datasource import InputPartition

from strandline.lake.manifest.file_entry import LakeFile
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.split_reader import Carried, FilePart, HotPart
from strandline.schema import Schema
from strandline.spark.read.options import Secret
from strandline.spark.row_mappers.mapper import Shape


class ServedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a server's topic."""

    url: str
    token: Secret
    snapshot: Snapshot
    first_seq: int
    last_seq: int

    @property
    def topic(self) -> str:
        return self.snapshot.name


class StatePart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of what a view has at a position: an executor folds the view, and reads that."""

    store: str
    """The folder of its store, or the url of the lake when the view is in a reservoir alone."""
    lake: str
    reservoir: str
    view: str
    topic: str
    head_seq: int
    moment_us: int | None
    first_key: bytes | None = None
    next_key: bytes | None = None
    """Of a map: keys from the first on and before the next."""
    sources: tuple[bytes, ...] = ()
    """Of a series: these."""


class TablePart(msgspec.Struct, frozen=True, kw_only=True):
    """Zones of one file of an event table."""

    lake: str
    table: str
    table_id: int
    file: LakeFile
    written: Schema
    """The version that the file was written in."""
    told: Schema
    """The version that rows are told in."""
    first_seq: int
    last_seq: int
    hidden: bytes
    share: int = 0
    shares: int = 1
    """Which part of its zones, of how many."""


AnyPart = FilePart | HotPart | Carried | ServedPart | StatePart | TablePart


class Task(InputPartition):
    """Parts that one task reads, as records or as what a view makes of them."""

    def __init__(self, parts: Sequence[AnyPart], shape: Shape | None = None) -> None:
        super().__init__(None)
        self.parts = parts
        self.shape = shape


def in_tasks(parts: Sequence[AnyPart], shape: Shape | None = None) -> list[Task]:
    """Parts in tasks: small ones of files and stores go together."""
    small = [part for part in parts if isinstance(part, FilePart | HotPart | Carried)]
    large = [part for part in parts if not isinstance(part, FilePart | HotPart | Carried)]
    return [
        *(Task(group, shape) for group in split_planner.in_tasks(small)),
        *(Task([part], shape) for part in large),
    ]
