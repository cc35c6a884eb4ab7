"""A task of Spark: the parts that it reads, and the mapper of their rows.

Parts of ``strandline.pipelines`` are ranges of lake files and of the store, or rows that are sent
with the task. The parts of this module exist only in Spark: records of a server, ranges of the
state of a view, and zones of the files of an event table.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql.datasource import InputPartition

from strandline.lake.manifest.file_entry import LakeFile
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.split_reader import FilePart, HotPart, SentRows
from strandline.schema import Schema
from strandline.spark.read.options import Secret
from strandline.spark.row_mappers.mapper import RowMapper


class ServerPart(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a topic of a server."""

    url: str
    token: Secret
    snapshot: TopicSnapshot
    first_seq: int
    last_seq: int

    @property
    def topic(self) -> str:
        return self.snapshot.name


class StatePart(msgspec.Struct, frozen=True, kw_only=True):
    """A range of a view at a position: an executor builds the view and reads the range."""

    store: str
    """The folder of its store, or the URL of the lake if the view is in a reservoir."""
    lake: str
    reservoir: str
    view: str
    topic: str
    head_seq: int
    moment_us: int | None
    first_key: bytes | None = None
    next_key: bytes | None = None
    """Of a map: the range of keys, without ``next_key``."""
    sources: tuple[bytes, ...] = ()
    """Of a series: its sources."""


class TablePart(msgspec.Struct, frozen=True, kw_only=True):
    """Zones of one file of an event table."""

    lake: str
    table: str
    table_id: int
    file: LakeFile
    written: Schema
    """The schema version that the file was written in."""
    schema: Schema
    """The schema version of the rows."""
    first_seq: int
    last_seq: int
    hidden: bytes
    share: int = 0
    shares: int = 1
    """This share of its zones, and the number of shares."""


AnyPart = FilePart | HotPart | SentRows | ServerPart | StatePart | TablePart


class Task(InputPartition):
    """Parts that one task reads, as records or as rows of a view."""

    def __init__(self, parts: Sequence[AnyPart], shape: RowMapper | None = None) -> None:
        super().__init__(None)
        self.parts = parts
        self.shape = shape


def in_tasks(parts: Sequence[AnyPart], shape: RowMapper | None = None) -> list[Task]:
    """Parts as tasks: small parts of files and stores share a task."""
    small = [part for part in parts if isinstance(part, FilePart | HotPart | SentRows)]
    large = [part for part in parts if not isinstance(part, FilePart | HotPart | SentRows)]
    return [
        *(Task(group, shape) for group in split_planner.group_into_tasks(small)),
        *(Task([part], shape) for part in large),
    ]
