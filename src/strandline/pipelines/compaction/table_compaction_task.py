"""One task of a compaction of an event table: merges files, with the rows of a context together.

The merge is the store's own (``views/table/files/compaction.py``): rows in the order of context,
time and seq, in the newest schema, with new zones and indexes. So a table that has many small
files, because it was flushed often or its store was never idle, is clustered without its store. As
with topics nothing is committed here, and a task that dies or runs twice leaves objects that are in
no manifest.
"""

from __future__ import annotations

from strandline.config.memory_budget import MemoryShare
from strandline.config.settings import MIB
from strandline.config.view_config import TableConfig
from strandline.errors import NotFound
from strandline.lake import object_keys
from strandline.lake.file_upload import ScratchSpool
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.pipelines.compaction.compaction_planner import FileGroup
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.protocol import Objects
from strandline.views.table.files.cache import ColumnCache
from strandline.views.table.files.compaction import FileMerge
from strandline.views.table.files.file_set import STEP_ROWS
from strandline.views.table.files.file_snapshot import PinnedFiles
from strandline.views.table.files.writer import FileTarget

_OPEN_BYTES = 64 * MIB
"""Memory for footers and indexes of the files that are merged."""


def merged_table(objects: Objects, store_id: bytes, spool: str, group: FileGroup) -> LakeFile:
    """Write the file that replaces a group; Corrupt or NotFound when one of its files is."""
    cache = ColumnCache(MemoryShare(_OPEN_BYTES))
    pinned = PinnedFiles(objects, _manifest(group), cache, lambda: None)
    writing = FileTarget(
        objects=objects,
        spool=ScratchSpool(spool),
        store_id=store_id,
        table_id=group.topic_id,
        zone_rows=_zone_rows(pinned),
    )
    merging = FileMerge(writing, pinned, group.files, group.schema, OsDisk().random_id().hex())
    try:
        while merging.step(STEP_ROWS):
            pass
        return merging.finish()
    finally:
        merging.close()
        cache.close()


def lost_file(objects: Objects, group: FileGroup) -> str:
    """The name of the first file of a group that does not exist."""
    for file in group.files:
        try:
            objects.head(object_keys.data_key(group.topic_id, file.name()))
        except NotFound:
            return file.name()
    return group.files[0].name()


def _manifest(group: FileGroup) -> Manifest:
    """The part of the table's manifest that concerns these files."""
    return Manifest(
        number=1,
        topic_id=group.topic_id,
        name=group.topic,
        epoch=0,
        created_us=0,
        floor=group.floor,
        files=group.files,
        deleted=group.hidden(),
        schemas=group.schemas,
    )


def _zone_rows(pinned: PinnedFiles) -> int:
    """The rows of the table's zones: in a file all zones but the last have the same size."""
    for file in pinned.files:
        reader = pinned.open(file)
        if reader.zones > 1:
            return int(reader.starts[1])
    return TableConfig().zone_rows
