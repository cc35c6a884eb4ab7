"""The files of one version of a table, which are not deleted until the pin is closed."""

from __future__ import annotations

from collections.abc import Callable

from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import NO_SCHEMA, Schema
from strandline.views.table.files.cache import ColumnCache
from strandline.views.table.files.table_file import TableFile


class PinnedFiles:
    """One version of a table's files. Safe to use from many threads.

    Released by ``close``, or with the last reference to it.
    """

    def __init__(
        self,
        objects: Objects,
        manifest: Manifest | None,
        cache: ColumnCache,
        release: Callable[[], None],
    ) -> None:
        self.files: tuple[LakeFile, ...] = manifest.files if manifest is not None else ()
        self.floor = manifest.floor if manifest is not None else 1
        """Rows below this seq are hidden."""
        self.flushed = manifest.last_seq if manifest is not None else 0
        """The files cover the seqs up to this one: rows in memory up to it are the same rows."""
        hidden = manifest.deleted if manifest is not None else None
        self.hidden = BitMap64() if hidden is None else hidden
        """Seqs of deleted rows that a file may still have. Must not be changed."""
        self.cache = cache
        self._table_id = manifest.topic_id if manifest is not None else 0
        self._schemas = {each.version: each for each in manifest.schemas} if manifest else {}
        self._objects = objects
        self._release: Callable[[], None] | None = release

    def close(self) -> None:
        """Release the files. May be called twice."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        self.close()

    def schema_of(self, file: LakeFile) -> Schema:
        """The version of the schema that a file was written in."""
        return self._schemas.get(file.schema_version, NO_SCHEMA)

    def open(self, file: LakeFile) -> TableFile:
        """An open file, from the cache if possible."""
        return self.cache.file(file.content, lambda: TableFile(self._objects, self._table_id, file))
