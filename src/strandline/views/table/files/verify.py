"""Verifies the files of tables in a lake: reads them and reports damage.

Manifests and rows are checked as those of topics are (``lake/verify.py``). Indexes are read as a
whole: header, catalogue, every section, the zeros between them, and the file of rows that they
belong to. The steps are those of ``lake/verify.py``: a number of bytes that were read, or a
problem. A problem is reported only when a second read fails, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline.errors import Corrupt, Invalid, NotFound, UnsupportedFormat
from strandline.lake import object_keys, verify
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.verify import VerifyStep
from strandline.platform.objectstore.protocol import Objects
from strandline.views.table.files import index_file, layout
from strandline.views.table.index import codec

_TRIES = 2


def check_tables(objects: Objects, store_id: bytes) -> Iterator[VerifyStep]:
    """Verify all manifests, rows and indexes of the tables of a lake."""
    for table_id in filter(layout.is_table, verify.topics_in(objects)):
        yield from verify.check_versions(objects, store_id, table_id)
        for file in _files(objects, store_id, table_id):
            for step in _check_file(objects, table_id, file):
                # A file that was merged in the meantime may be deleted: not a problem.
                if isinstance(step, int) or file in _files(objects, store_id, table_id):
                    yield step


def check_indexes(objects: Objects, store_id: bytes) -> Iterator[VerifyStep]:
    """Verify only the indexes of all tables."""
    for table_id in filter(layout.is_table, verify.topics_in(objects)):
        for file in _files(objects, store_id, table_id):
            yield from check_indexes_of(objects, table_id, file)


def check_indexes_of(objects: Objects, table_id: int, file: LakeFile) -> Iterator[VerifyStep]:
    """Verify the indexes of one file of rows."""
    path = f"{objects.name}/{layout.index_key(table_id, file.name())}"
    problem = Corrupt("indexes of a table are missing: all zones are read", path=path)
    for _ in range(_TRIES):
        try:
            data = objects.get(layout.index_key(table_id, file.name()))
            _check(data, table_id, file, path)
        except NotFound:
            continue
        except UnsupportedFormat as error:
            problem = Corrupt(str(error), path=path)
        except Corrupt as error:
            problem = error
        else:
            yield len(data)
            return
    yield problem


def _check_file(objects: Objects, table_id: int, file: LakeFile) -> Iterator[VerifyStep]:
    yield from verify.check_file(_reader(objects, table_id, file), file)
    yield from check_indexes_of(objects, table_id, file)


def _check(data: bytes, table_id: int, file: LakeFile, path: str) -> None:
    header = codec.decode_header(data[: codec.HEADER_SIZE], size=len(data), name=path)
    end = codec.HEADER_SIZE + header.catalogue_size
    catalogue = codec.decode_catalogue(data[codec.HEADER_SIZE : end], header, path)
    if header.rows != file.rows or (
        catalogue.origin is not None and catalogue.origin != index_file.origin_of(table_id, file)
    ):
        raise Corrupt("these are the indexes of other rows", path=path)
    for entry in catalogue.entries:
        codec.check_section(data[entry.offset : entry.offset + entry.size], entry, path)
        if any(data[end : entry.offset]):
            raise Corrupt("there are bytes between the indexes of zones", path=path, offset=end)
        end = entry.offset + entry.size
    if any(data[end:]):
        raise Corrupt("there are bytes after the indexes of zones", path=path, offset=end)


def _files(objects: Objects, store_id: bytes, table_id: int) -> tuple[LakeFile, ...]:
    newest, _ = verify.newest_or_error(objects, store_id, table_id)
    return newest.files if newest is not None else ()


def _reader(objects: Objects, table_id: int, file: LakeFile) -> LakeFileReader:
    key = object_keys.data_key(table_id, file.name())
    path = f"{objects.name}/{key}"

    def fetch(start: int, length: int) -> bytes:
        try:
            return objects.get_range(key, start, length)
        except NotFound as error:
            raise Corrupt("a file of a table is missing", path=path) from error
        except Invalid as error:
            raise Corrupt(str(error), path=path) from error

    return LakeFileReader(fetch, file, table_id, path)
