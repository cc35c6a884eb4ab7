"""Reads a topic's files and rows in the lake without opening its store.

It only reads from the object store, so it works beside the process that writes, and on a machine
without the store. The result is one version of the lake, as its manifest describes it; the newest
records of a topic are not in the lake yet.

A file may hold rows that are removed: below the floor, or deleted since it was written. A dataset
omits them. A program that reads the files itself must omit ``seq < floor`` and the seqs in
``deleted``.

The files of a version stay for ``lake.grace_s`` after a newer version no longer lists them. A
longer read must open the dataset again.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from strandline.errors import Invalid, NotFound, UnknownTopic
from strandline.lake import object_keys, topic_names
from strandline.lake.files.column_stats import FileGuarantees
from strandline.lake.files.record_columns import TABLE_ID_FIRST, own_columns
from strandline.lake.files.typed_columns import typed_columns_of
from strandline.lake.manifest import fencing
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.platform.objectstore.arrow_fs import file_system
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_NAMED_MAX = 20  # topics that an error reads, to name the ones that exist


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One live Parquet file."""

    url: str
    """Complete address: a path for a folder, else a url of the object store."""
    first_seq: int
    last_seq: int
    rows: int
    size: int
    """Bytes of the file."""
    ts_min: int
    ts_max: int
    content: str
    """xxh3-128 of all its bytes, in hex."""
    schema_version: int
    """Version of the schema of its typed columns, 0 for none."""


class TopicFiles(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a topic in the lake."""

    topic: str
    topic_id: int
    version: int
    created_us: int
    floor: int
    """Rows with a lower seq are removed, although a file may hold them."""
    deleted: pa.Array
    """uint64: seqs of rows that are removed, although a file may hold them."""
    files: list[FileFacts]
    """In order of seq."""
    schema: dict[str, str]
    """The newest schema, by field: the typed columns of new files."""
    schema_version: int

    @property
    def rows(self) -> int:
        """Rows in the files, removed ones included."""
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def dataset(
    url: str,
    topic: str,
    *,
    version: int | None = None,
    options: Mapping[str, str] | None = None,
) -> ds.Dataset:
    """The topic's rows in the lake at this url as a pyarrow dataset, without removed rows.

    Typed columns are those of the newest schema; files with an older one have null where they lack
    a column, or have it with a type that cannot be read as the newest
    (``lake/files/column_stats.py``).

    ``options`` are those of the object store: docs/guide/object-stores.md. Files that a filter on
    seq, ts or typed columns excludes are not opened.
    """
    import pyarrow.dataset as ds  # noqa: PLC0415 - imports pandas, and is seldom needed

    objects = open_objects(url, options=options)
    manifest = _find(objects, topic, version)
    system, prefix = file_system(objects)
    is_table = manifest.topic_id >= TABLE_ID_FIRST
    newest = typed_columns_of(manifest.schema, is_table=is_table)
    typed_columns = [newest.columns.field(name) for name in newest.kinds]
    unknown = FileGuarantees(None, newest)
    typed = {
        each.version: FileGuarantees(typed_columns_of(each, is_table=is_table), newest)
        for each in manifest.schemas
    }
    rows = ds.FileSystemDataset.from_paths(
        [prefix + object_keys.data_key(manifest.topic_id, file.name()) for file in manifest.files],
        schema=pa.schema([*own_columns(manifest.topic_id), *typed_columns]),
        format=ds.ParquetFileFormat(),
        filesystem=system,
        partitions=[
            _row_guarantees(file, typed.get(file.schema_version, unknown))
            for file in manifest.files
        ],
    )
    removed = _removed_rows(manifest)
    return rows if removed is None else rows.filter(~removed)


def files(
    url: str,
    topic: str,
    *,
    version: int | None = None,
    options: Mapping[str, str] | None = None,
) -> TopicFiles:
    """The live files of a topic in the lake at this url, of its newest version or another one."""
    objects = open_objects(url, options=options)
    return _facts(objects, _find(objects, topic, version))


def topics(url: str, *, options: Mapping[str, str] | None = None) -> list[TopicFiles]:
    """Every topic in the lake at this url, by name."""
    objects = open_objects(url, options=options)
    store_id = owner_of(objects)
    manifests = (
        newest_of(objects, store_id, each.topic_id) for each in topic_names.every_topic(objects)
    )
    live = (_facts(objects, manifest) for manifest in manifests if manifest is not None)
    return sorted(live, key=lambda each: (each.topic, each.topic_id))


def _find(objects: Objects, topic: str, version: int | None) -> Manifest:
    store_id = owner_of(objects)
    for topic_id in reversed(topic_names.topics_named(objects, topic)):
        newest = newest_of(objects, store_id, topic_id)
        if newest is None:
            continue
        if version is None or version == newest.number:
            return newest
        try:
            return ManifestHistory(objects, store_id, topic_id).read(version).manifest
        except NotFound:
            raise NotFound(
                f"version {version} of topic {topic!r} in {objects.name} does not exist: versions "
                f"{newest.oldest} to {newest.number} are kept"
            ) from None
    raise _unknown(objects, topic)


def owner_of(objects: Objects) -> bytes:
    """The id of the store that the lake belongs to."""
    store_id = fencing.identity_of(objects)
    if store_id is None:
        raise Invalid(
            f"there is no lake in {objects.name}: it is created when the first records are moved"
        )
    return store_id


def newest_of(objects: Objects, store_id: bytes, topic_id: int) -> Manifest | None:
    """The newest version, None for a topic that was deleted."""
    manifest = ManifestHistory(objects, store_id, topic_id).newest().manifest
    return None if manifest.dropped else manifest


def _unknown(objects: Objects, topic: str) -> UnknownTopic:
    some = itertools.islice(topic_names.every_topic(objects), _NAMED_MAX)
    known = sorted({marker.name for marker in some})
    hint = f": it has {', '.join(map(repr, known))}" if len(known) < _NAMED_MAX and known else ""
    return UnknownTopic(f"there is no topic {topic!r} in the lake {objects.name}{hint}")


def _facts(objects: Objects, manifest: Manifest) -> TopicFiles:
    return TopicFiles(
        topic=manifest.name,
        topic_id=manifest.topic_id,
        version=manifest.number,
        created_us=manifest.created_us,
        floor=manifest.floor,
        deleted=_seqs(manifest.deleted),
        files=[
            FileFacts(
                url="/".join(
                    (
                        objects.name.rstrip("/"),
                        object_keys.data_key(manifest.topic_id, file.name()),
                    )
                ),
                first_seq=file.first_seq,
                last_seq=file.last_seq,
                rows=file.rows,
                size=file.size,
                ts_min=file.ts_min,
                ts_max=file.ts_max,
                content=file.content,
                schema_version=file.schema_version,
            )
            for file in manifest.files
        ],
        schema=manifest.schema.fields,
        schema_version=manifest.schema.version,
    )


def _row_guarantees(file: LakeFile, typed: FileGuarantees) -> Any:
    """An expression that holds for every row of a file: a filter can exclude it unopened."""
    stamp = pa.timestamp("us", tz="UTC")
    seq, ts = pc.field("seq"), pc.field("ts")
    known = [
        seq >= pa.scalar(file.first_seq, pa.uint64()),
        seq <= pa.scalar(file.last_seq, pa.uint64()),
        ts >= pa.scalar(file.ts_min, stamp),
        ts <= pa.scalar(file.ts_max, stamp),
        *typed.of(file),
    ]
    return functools.reduce(operator.and_, known)


def _removed_rows(manifest: Manifest) -> Any:
    """An expression that selects the removed rows, None when there are none."""
    seq = pc.field("seq")
    below = None
    if manifest.files and manifest.files[0].first_seq < manifest.floor:
        below = seq < pa.scalar(manifest.floor, pa.uint64())
    if not manifest.deleted:
        return below
    deleted = seq.isin(_seqs(manifest.deleted))
    return deleted if below is None else below | deleted


def _seqs(bitmap: BitMap64 | None) -> pa.Array:
    if not bitmap:
        return pa.array([], pa.uint64())
    return pa.array(np.fromiter(bitmap, dtype="<u8", count=len(bitmap)))
