"""Writes a lake file and uploads it: to a spool, to the object store, and read back.

The name of a file holds the hash of its bytes, so it is known only at the end: hence a spool. Every
attempt writes a file with a name of its own, because a random id is part of its content.

An uploaded file is in the lake when a manifest lists it. A crash before that leaves an object that
no manifest names, which garbage collection finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from strandline.errors import Corrupt
from strandline.lake import object_keys
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.files.file_writer import LakeFileWriter
from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.disk import Buffer, Disk, DurableFile, ReadFile
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.temp_files import ScratchFile
from strandline.schema import NO_SCHEMA, Schema


class SpoolFile(Protocol):
    """A file that waits to be uploaded. Owned by one thread."""

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Append bytes; return the offset at which they begin."""
        ...

    def read(self) -> ReadFile:
        """The complete file, for reading."""
        ...

    def remove(self) -> None:
        """Delete the file. May be called at any time, and twice."""
        ...


class Spool(Protocol):
    """The files that wait for their upload. Safe from many threads."""

    def create(self, attempt: str) -> SpoolFile: ...


class FolderSpool:
    """A spool in a folder on the store's disk. Its owner empties it at the opening."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder

    def create(self, attempt: str) -> SpoolFile:
        self._disk.make_dirs(self._folder)
        path = f"{self._folder}/{attempt}.parquet"
        return _FolderSpooled(self._disk, path, self._disk.create(path))


class ScratchSpool:
    """A spool of files without a name, which end with their process: for pipelines."""

    def __init__(self, folder: str = "") -> None:
        """``folder`` must exist; empty is the folder for temporary files of the machine."""
        self._folder = folder

    def create(self, attempt: str) -> SpoolFile:
        del attempt
        return _ScratchSpooled(ScratchFile(self._folder))


class LakeUploader:
    """Writes files of one store's lake. Safe from many threads."""

    def __init__(
        self,
        objects: Objects,
        spool: Spool,
        *,
        store_id: bytes,
        random_id: Callable[[], bytes],
        zone_rows: int,
        zone_bytes: int,
    ) -> None:
        self._objects = objects
        self._spool = spool
        self._store_id = store_id
        self._random_id = random_id
        self._zone_rows = zone_rows
        self._zone_bytes = zone_bytes

    def write(
        self,
        topic_id: int,
        tables: Iterable[pa.Table],
        first_seq: int,
        last_seq: int,
        schema: Schema = NO_SCHEMA,
    ) -> LakeFile:
        """Write a file with these rows, which covers these seqs; it is uploaded and verified."""
        attempt = self._random_id().hex()
        spooled = self._spool.create(attempt)
        try:
            writer = self._writer(spooled, attempt, topic_id, schema)
            file = _write_all(writer, tables, first_seq, last_seq)
            source = spooled.read()
            try:
                self._objects.put_file(object_keys.data_key(topic_id, file.name()), source)
            finally:
                source.close()
        finally:
            spooled.remove()
        self._read_back(topic_id, file)
        return file

    def discard(self, topic_id: int, file: LakeFile) -> None:
        """Delete a file that no manifest will list: its commit was rejected."""
        self._objects.delete([object_keys.data_key(topic_id, file.name())])

    def _writer(
        self, spooled: SpoolFile, attempt: str, topic_id: int, schema: Schema
    ) -> LakeFileWriter:
        return LakeFileWriter(
            spooled,
            topic_id=topic_id,
            store_id=self._store_id,
            attempt=attempt,
            schema=schema,
            zone_rows=self._zone_rows,
            zone_bytes=self._zone_bytes,
        )

    def _read_back(self, topic_id: int, file: LakeFile) -> None:
        """Check that the object store returns the bytes that were written."""
        key = object_keys.data_key(topic_id, file.name())

        def fetch(start: int, length: int) -> bytes:
            return self._objects.get_range(key, start, length)

        if LakeFileReader(fetch, file, topic_id, key).content() != file.content:
            self._objects.delete([key])
            raise Corrupt(
                "an uploaded file reads back as other bytes: the records stay where they are, and "
                "the upload will be repeated",
                path=f"{self._objects.name}/{key}",
            )


def _write_all(
    writer: LakeFileWriter, tables: Iterable[pa.Table], first_seq: int, last_seq: int
) -> LakeFile:
    try:
        for table in tables:
            writer.add(table)
        return writer.finish(first_seq, last_seq)
    finally:
        writer.abandon()


class _FolderSpooled:
    def __init__(self, disk: Disk, path: str, sink: DurableFile) -> None:
        self._disk = disk
        self._path = path
        self._sink = sink
        self._committed = False

    def write(self, buffers: Sequence[Buffer]) -> int:
        return self._sink.write(buffers)

    def read(self) -> ReadFile:
        self._sink.commit()
        self._committed = True
        return self._disk.open_read(self._path)

    def remove(self) -> None:
        self._sink.abandon()
        if self._committed:
            self._committed = False
            self._disk.remove(self._path)


class _ScratchSpooled:
    def __init__(self, file: ScratchFile) -> None:
        self._file = file

    def write(self, buffers: Sequence[Buffer]) -> int:
        return self._file.write(buffers)

    def read(self) -> ReadFile:
        return self._file

    def remove(self) -> None:
        self._file.close()
