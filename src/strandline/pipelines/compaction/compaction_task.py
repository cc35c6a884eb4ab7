"""One task of a compaction: reads a group of files and writes one file, without committing it.

Rows are copied zone by zone, in order of seq, so memory is a few zones whatever the size of the
files. Every zone is verified with its checksum before it is decoded; bits can flip in transit, so a
zone counts as damaged only after a second read. The new file is uploaded and read back, and written
once more if that fails. A task that dies, or runs twice, leaves an object that is in no manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.config.settings import MIB
from strandline.errors import Corrupt, Invalid, NotFound
from strandline.lake import object_keys
from strandline.lake.file_upload import LakeUploader, ScratchSpool
from strandline.lake.files.file_reader import LakeFileReader, ZoneInfo
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.manifest.file_entry import LakeFile
from strandline.pipelines.compaction.compaction_planner import FileGroup
from strandline.pipelines.compaction.table_compaction_task import lost_file, merged_table
from strandline.pipelines.lake_selection import LakeLocation, objects_at
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.protocol import Objects

_WHOLE_MAX = 8 * MIB  # files up to this size are fetched in one request
_UPLOADS_MAX = 2  # of a file that is read back with other bytes
Result = TypeVar("Result")


class MergeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Common parameters of the tasks of a compaction."""

    place: LakeLocation
    zone_rows: int
    zone_bytes: int
    spool: str = ""
    """A folder for files that wait to be uploaded; empty: the machine's temporary folder."""


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task: the new file, or why there is none."""

    file: LakeFile | None = None
    dropped: int = 0
    """Removed rows that are not in the new file."""
    damage: str = ""
    missing: str = ""
    """The name of a file that does not exist: it left the lake, or was lost."""


def merge(
    merging: MergeSettings, group: FileGroup, *, objects: Objects | None = None
) -> MergeResult:
    """Write the file that replaces a group. Without ``objects`` the lake is opened by location."""
    with objects_at(merging.place, objects) as lake:
        if group.is_of_table:
            return _merge_table(lake, merging, group)
        uploads = LakeUploader(
            lake,
            ScratchSpool(merging.spool),
            store_id=merging.place.store_id,
            random_id=OsDisk().random_id,
            zone_rows=merging.zone_rows,
            zone_bytes=merging.zone_bytes,
        )
        return _merge(lake, uploads, group)


def _merge(lake: Objects, uploads: LakeUploader, group: FileGroup) -> MergeResult:
    failure = ""
    for _ in range(_UPLOADS_MAX):
        reader = _GroupReader(lake, group)
        try:
            file = uploads.write(
                group.topic_id, reader.tables(), group.first_seq, group.last_seq, group.schema
            )
        except Corrupt as error:
            failure = str(error)
            if not reader.ended:
                break
        except NotFound:
            return MergeResult(missing=reader.at)
        else:
            assert file.rows + reader.dropped == group.rows, "every row was written or is removed"
            return MergeResult(file=file, dropped=reader.dropped)
    return MergeResult(damage=failure)


def _merge_table(lake: Objects, merging: MergeSettings, group: FileGroup) -> MergeResult:
    failure = ""
    for _ in range(_UPLOADS_MAX):
        try:
            file = merged_table(lake, merging.place.store_id, merging.spool, group)
        except Corrupt as error:
            failure = str(error)
        except NotFound:
            return MergeResult(missing=lost_file(lake, group))
        else:
            return MergeResult(file=file, dropped=group.rows - file.rows)
    return MergeResult(damage=failure)


class _GroupReader:
    """The live rows of a group, in order. Owned by one thread."""

    def __init__(self, objects: Objects, group: FileGroup) -> None:
        self._objects = objects
        self._group = group
        self._hidden = group.hidden()
        self.dropped = 0
        self.at = ""
        """The file that is being read."""
        self.ended = False
        """Whether all rows were read: a failure after that concerns the written file."""

    def tables(self) -> Iterator[pa.Table]:
        for file in self._group.files:
            self.at = file.name()
            source = _FileReader(self._objects, self._group.topic_id, file)
            rows = 0
            for index, zone in enumerate(source.zones()):
                if zone.rows:
                    table = source.rows(index)
                    rows += len(table)
                    yield self._live(table.select(SCHEMA.names))
            if rows != file.rows:
                raise source.damaged(f"a file of {file.rows} rows has {rows}")
        self.ended = True

    def _live(self, table: pa.Table) -> pa.Table:
        """The rows that are not removed."""
        seqs = table["seq"].to_numpy()
        low, high = int(seqs[0]), int(seqs[-1])
        if low >= self._group.floor and not self._hidden.range_cardinality(low, high + 1):
            return table
        is_live = seqs >= np.uint64(self._group.floor)
        deleted = self._hidden & BitMap64(range(low, high + 1))
        is_live &= ~np.isin(seqs, np.fromiter(deleted, dtype="<u8", count=len(deleted)))
        self.dropped += len(table) - int(is_live.sum())
        return table.filter(pa.array(is_live))


class _FileReader:
    """One file to merge. Owned by one thread."""

    def __init__(self, objects: Objects, topic_id: int, file: LakeFile) -> None:
        self._objects = objects
        self._topic_id = topic_id
        self._file = file
        self._key = object_keys.data_key(topic_id, file.name())
        self._path = f"{objects.name}/{self._key}"
        self._whole: bytes | None = None
        self._reader = LakeFileReader(self._fetch, file, topic_id, self._path)

    def zones(self) -> list[ZoneInfo]:
        return self._retry_once(lambda: self._reader.zones)

    def rows(self, index: int) -> pa.Table:
        return self._retry_once(lambda: self._reader.rows(index))

    def damaged(self, reason: str) -> Corrupt:
        return Corrupt(
            reason,
            path=self._path,
            topic_id=self._topic_id,
            first_seq=self._file.first_seq,
            last_seq=self._file.last_seq,
        )

    def _retry_once(self, read: Callable[[], Result]) -> Result:
        try:
            return read()
        except Corrupt:
            self._whole = None
            return read()

    def _fetch(self, start: int, length: int) -> bytes:
        size = self._file.size
        try:
            if size > _WHOLE_MAX:
                return self._objects.get_range(self._key, start, length)
            if self._whole is None:
                self._whole = self._objects.get_range(self._key, 0, size)
        except Invalid as error:  # the file is too short
            raise self.damaged(str(error)) from error
        return self._whole[start : start + length]
