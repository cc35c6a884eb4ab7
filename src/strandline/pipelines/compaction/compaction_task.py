"""One task of a compaction: reads a group of files, writes one in their place, commits nothing.

Rows pass through zone by zone, in order of seq, so memory is a few zones however large the files
are. Every zone is checked against its checksum before it is decoded; bits flip on the way too, so
only a second bad answer is believed. The new file is uploaded and read back, and written once more
when that fails. A task that dies, or runs twice, leaves an object that no manifest names.
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
from strandline.lake.file_upload import ScratchSpool, Uploads
from strandline.lake.files.file_reader import LakeFileReader, ZoneInfo
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.manifest.file_entry import LakeFile
from strandline.pipelines.compaction.compaction_planner import Group
from strandline.pipelines.compaction.table_compaction_task import lost_file, merged_table
from strandline.pipelines.lake_selection import LakePlace, objects_at
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.protocol import Objects

_WHOLE_MAX = 8 * MIB  # files up to this size are fetched in one request
_UPLOADS_MAX = 2  # of a file that reads back as other bytes
Result = TypeVar("Result")


class Merging(msgspec.Struct, frozen=True, kw_only=True):
    """What all tasks of a compaction share."""

    place: LakePlace
    zone_rows: int
    zone_bytes: int
    spool: str = ""
    """A folder for files that wait to be uploaded; empty is this machine's temporary folder."""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """What a task did: the new file, or why there is none."""

    file: LakeFile | None = None
    dropped: int = 0
    """Rows that were gone."""
    damage: str = ""
    missing: str = ""
    """The name of a file that is not there: it left the lake, or was lost."""


def merge(merging: Merging, group: Group, *, objects: Objects | None = None) -> Merged:
    """Write the file that takes the place of a group. ``objects`` as given, or as named."""
    with objects_at(merging.place, objects) as lake:
        if group.is_of_table:
            return _merge_table(lake, merging, group)
        uploads = Uploads(
            lake,
            ScratchSpool(merging.spool),
            store_id=merging.place.store_id,
            random_id=OsDisk().random_id,
            zone_rows=merging.zone_rows,
            zone_bytes=merging.zone_bytes,
        )
        return _merge(lake, uploads, group)


def _merge(lake: Objects, uploads: Uploads, group: Group) -> Merged:
    failure = ""
    for _ in range(_UPLOADS_MAX):
        reading = _Reading(lake, group)
        try:
            file = uploads.write(
                group.topic_id, reading.tables(), group.first_seq, group.last_seq, group.schema
            )
        except Corrupt as error:
            failure = str(error)
            if not reading.ended:
                break
        except NotFound:
            return Merged(missing=reading.at)
        else:
            assert file.rows + reading.dropped == group.rows, "every row was written or is gone"
            return Merged(file=file, dropped=reading.dropped)
    return Merged(damage=failure)


def _merge_table(lake: Objects, merging: Merging, group: Group) -> Merged:
    failure = ""
    for _ in range(_UPLOADS_MAX):
        try:
            file = merged_table(lake, merging.place.store_id, merging.spool, group)
        except Corrupt as error:
            failure = str(error)
        except NotFound:
            return Merged(missing=lost_file(lake, group))
        else:
            return Merged(file=file, dropped=group.rows - file.rows)
    return Merged(damage=failure)


class _Reading:
    """The live rows of a group, in order. Owned by one thread."""

    def __init__(self, objects: Objects, group: Group) -> None:
        self._objects = objects
        self._group = group
        self._hidden = group.hidden()
        self.dropped = 0
        self.at = ""
        """The file that is being read."""
        self.ended = False
        """Whether all rows were read: what fails then is what was written."""

    def tables(self) -> Iterator[pa.Table]:
        for file in self._group.files:
            self.at = file.name()
            source = _Source(self._objects, self._group.topic_id, file)
            rows = 0
            for place, zone in enumerate(source.zones()):
                if zone.rows:
                    table = source.rows(place)
                    rows += len(table)
                    yield self._live(table.select(SCHEMA.names))
            if rows != file.rows:
                raise source.damaged(f"a file of {file.rows} rows has {rows}")
        self.ended = True

    def _live(self, table: pa.Table) -> pa.Table:
        """The rows that are not gone."""
        seqs = table["seq"].to_numpy()
        low, high = int(seqs[0]), int(seqs[-1])
        if low >= self._group.floor and not self._hidden.range_cardinality(low, high + 1):
            return table
        keep = seqs >= np.uint64(self._group.floor)
        gone = self._hidden & BitMap64(range(low, high + 1))
        keep &= ~np.isin(seqs, np.fromiter(gone, dtype="<u8", count=len(gone)))
        self.dropped += len(table) - int(keep.sum())
        return table.filter(pa.array(keep))


class _Source:
    """One file to be merged. Owned by one thread."""

    def __init__(self, objects: Objects, topic_id: int, file: LakeFile) -> None:
        self._objects = objects
        self._topic_id = topic_id
        self._file = file
        self._key = object_keys.data_key(topic_id, file.name())
        self._path = f"{objects.name}/{self._key}"
        self._whole: bytes | None = None
        self._reader = LakeFileReader(self._fetch, file, topic_id, self._path)

    def zones(self) -> list[ZoneInfo]:
        return self._twice(lambda: self._reader.zones)

    def rows(self, place: int) -> pa.Table:
        return self._twice(lambda: self._reader.rows(place))

    def damaged(self, reason: str) -> Corrupt:
        return Corrupt(
            reason,
            path=self._path,
            topic_id=self._topic_id,
            first_seq=self._file.first_seq,
            last_seq=self._file.last_seq,
        )

    def _twice(self, read: Callable[[], Result]) -> Result:
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
        except Invalid as error:  # it ends too early
            raise self.damaged(str(error)) from error
        return self._whole[start : start + length]
