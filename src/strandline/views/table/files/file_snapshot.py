"""The files of a table at one moment, which stay as long as somebody holds them."""

from __future__ import annotations

from collections.abc import Callable

from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import NO_SCHEMA, Schema
from strandline.views.table.files.cache import ColumnCache
from strandline.views.table.files.table_file import OpenFile


class Pinned:
    """One version of a table's files. Safe from many threads.

    Let go by ``close``, or with the last reference to it.
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
        """Rows below are gone."""
        self.flushed = manifest.last_seq if manifest is not None else 0
        """The files answer for the seqs up to here: rows elsewhere up to here are the same ones."""
        hidden = manifest.deleted if manifest is not None else None
        self.hidden = BitMap64() if hidden is None else hidden
        """Seqs that are gone though a file may hold them. Not to be changed."""
        self.cache = cache
        self._table_id = manifest.topic_id if manifest is not None else 0
        self._schemas = {each.version: each for each in manifest.schemas} if manifest else {}
        self._objects = objects
        self._release: Callable[[], None] | None = release

    def close(self) -> None:
        """The files may go. Closing twice is fine."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        self.close()

    def schema_of(self, file: LakeFile) -> Schema:
        """The version of the schema that a file was written in."""
        return self._schemas.get(file.schema_version, NO_SCHEMA)

    def open(self, file: LakeFile) -> OpenFile:
        """A file, from the cache if it is open already."""
        return self.cache.file(file.content, lambda: OpenFile(self._objects, self._table_id, file))
