"""Writes to a topic through ``format("strandline")``, batch and stream, exactly once.

Each task stages its rows as files in the object store of the lake. The commit delivers the files of
all tasks as one numbered batch (``pipelines/delivery_client.py``). Repetitions by Spark are safe:

    a task runs again, or twice at once      each run has its own files; Spark commits one run
    a batch runs again after a crash         its number is already delivered or appended: a no-op
    a driver that was presumed dead commits  the same
    there is no commit                       nothing is visible; the files are deleted later

The producer of a stream is the id of its query, which is in the checkpoint, and the number is that
of the micro-batch. A batch write is its own producer; with the option ``writeId`` a repeated job
has the same producer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from strandline.errors import Invalid
from strandline.ingest import delivery_codec, staged_files
from strandline.ingest.delivery_codec import StagedFile
from strandline.ingest.staged_files import COLUMNS
from strandline.log.state import producer_seq
from strandline.pipelines.delivery_client import deliver, discard, lake_of
from strandline.pipelines.splits.snapshot_position import check_lake, matching, open_readonly
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.records import BatchNumber
from strandline.spark.errors import short_errors
from strandline.spark.read.options import WriteOptions
from strandline.spark.source.lazy import validator_of

if TYPE_CHECKING:
    from strandline.spark.row_mappers.row_encoder import Encoder

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
_ASSIGNED = ("seq", "ts", "topic", "lost")
_TEXT_OR_BINARY = (BinaryType, StringType)
_LOG = logging.getLogger("strandline.spark")


class StagedRows(WriterCommitMessage):
    """The staged files of one task."""

    def __init__(
        self,
        files: tuple[StagedFile, ...],
        query: str = "",
        rejected: tuple[StagedFile, ...] = (),
    ) -> None:
        self.files = files
        self.query = query
        self.misfits = rejected
        """Rows that the view rejected, for the topic of ``onInvalid``."""


class BatchWriter(DataSourceArrowWriter):
    """One batch write. Owned by the driver, copied to executors."""

    def __init__(self, options: WriteOptions, encoder: Encoder | None = None) -> None:
        """``encoder`` encodes rows of a view, None for records."""
        self.options = options
        self.encoder = encoder
        self.producer = producer_of(options.write_id or OsDisk().random_id().hex())
        producer_seq.encode(BatchNumber(self.producer, 0))  # checks the length

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with short_errors():
            files, misfits = _stage(self.options, self.encoder, self.producer, 0, iterator)
            return StagedRows(files, rejected=misfits)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with short_errors():
            _deliver(self.options, self.producer, 0, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with short_errors():
            _discard(self.options, self.producer, 0, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a stream. Owned by the driver, copied to executors."""

    def __init__(self, options: WriteOptions, encoder: Encoder | None = None) -> None:
        self.options = options
        self.encoder = encoder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with short_errors():
            query, batch = _property(_QUERY), int(_property(_BATCH))
            producer = _producer(query)
            files, misfits = _stage(self.options, self.encoder, producer, batch, iterator)
            return StagedRows(files, query, misfits)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        with short_errors():
            query = _query_of(messages)
            if query:
                _deliver(self.options, _producer(query), batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        with short_errors():
            query = _query_of(messages)
            if query:
                _discard(self.options, _producer(query), batchId, messages)


def producer_of(write_id: str) -> str:
    """The producer of a batch write."""
    return f"spark-write/{write_id}"


def check_columns(schema: StructType) -> None:
    """Raise, before anything is written, if rows of this schema cannot become records."""
    names = [field.name for field in schema.fields]
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name in _ASSIGNED:
            raise Invalid(f"column {field.name!r} is assigned by the store: .drop({field.name!r})")
        if field.name not in COLUMNS.names:
            raise Invalid(
                f"column {field.name!r} ({kind}) is not one of {', '.join(COLUMNS.names)}: drop "
                f"it, or make it part of data, for example to_json(struct({field.name!r})) as data"
            )
        if not isinstance(field.dataType, _TEXT_OR_BINARY):
            raise Invalid(f"column {field.name!r} is {kind}: cast it to binary or string")
        if names.count(field.name) > 1:
            raise Invalid(f"column {field.name!r} exists twice: drop one")
    if "data" not in names:
        raise Invalid("column 'data' is missing: it holds the record itself")


@lru_cache(maxsize=64)
def check_topic(store: str, lake: str, topic: str) -> None:
    """Raise if there is no such topic, or the lake is of another store. Once per process."""
    with open_readonly(store, lake) as opened:
        matching(opened, [topic] if topic else [])
        check_lake(opened)


def _stage(
    options: WriteOptions,
    encoder: Encoder | None,
    producer: str,
    number: int,
    rows: Iterator[pa.RecordBatch],
) -> tuple[tuple[StagedFile, ...], tuple[StagedFile, ...]]:
    """Stage rows as files, and rows that the view rejects as other files."""
    objects = open_objects(lake_of(options.store, options.lake))
    key_of_run = partial(delivery_codec.staged_key, producer, number)
    record_key, misfit_key = (partial(key_of_run, OsDisk().random_id().hex()) for _ in range(2))
    try:
        if encoder is None:
            return staged_files.stage(objects, record_key, map(_record, rows)), ()
        fitting = validator_of(options, encoder)
        files = staged_files.stage(objects, record_key, fitting.records(rows))
        return files, staged_files.stage(objects, misfit_key, fitting.rejected_rows())
    finally:
        objects.close()


def _record(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows cast to the column types of a record."""
    if batch.column("data").null_count:
        raise Invalid("column 'data' is null in some row: filter those rows out, or fill it")
    fields = [field for field in COLUMNS if field.name in batch.schema.names]
    try:
        columns = [batch.column(field.name).cast(field.type) for field in fields]
    except pa.ArrowInvalid as error:
        raise Invalid(f"tag and node are text: {error}") from error
    return pa.record_batch(columns, schema=pa.schema(fields))


def _deliver(
    options: WriteOptions,
    producer: str,
    number: int,
    messages: Sequence[WriterCommitMessage | None],
) -> None:
    misfits = _misfits(messages)
    for topic, files in ((options.on_invalid, misfits), (options.topic, _files(messages))):
        if files:
            deliver(
                options.store,
                topic,
                files,
                producer=producer,
                number=number,
                attempt=OsDisk().random_id().hex(),
                lake=options.lake,
                create=options.create,
                wait_s_max=options.wait_s_max,
            )
    if misfits:
        _LOG.warning(
            "%d rows did not fit view=%s of topic %r: they are in topic %r",
            sum(file.rows for file in misfits),
            options.view,
            options.topic,
            options.on_invalid,
        )


def _discard(
    options: WriteOptions,
    producer: str,
    number: int,
    messages: Sequence[WriterCommitMessage | None],
) -> None:
    for topic, files in (
        (options.on_invalid, _misfits(messages)),
        (options.topic, _files(messages)),
    ):
        if files:
            discard(
                options.store, topic, files, producer=producer, number=number, lake=options.lake
            )


def _misfits(messages: Sequence[WriterCommitMessage | None]) -> list[StagedFile]:
    return [file for rows in messages if isinstance(rows, StagedRows) for file in rows.misfits]


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[StagedFile]:
    return [file for rows in messages if isinstance(rows, StagedRows) for file in rows.files]


def _query_of(messages: Sequence[WriterCommitMessage | None]) -> str:
    return next((rows.query for rows in messages if isinstance(rows, StagedRows)), "")


def _producer(query: str) -> str:
    return f"spark-query/{query}"


def _property(name: str) -> str:
    context = TaskContext.get()
    value = context.getLocalProperty(name) if context is not None else None
    if not value:
        raise Invalid(f"Spark did not set {name}: a stream writes with writeStream, not write")
    return value
