"""``strandline append``: records from the command line, or one per line from stdin or a file.

Lines are appended in batches of ``--batch``, or of the lines that are available
(``cli/input/input.py``). Records that were acknowledged before a failure are still reported.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from cyclopts import Parameter

from strandline.cli.input.input import batches_of, open_input
from strandline.cli.open_store import open_target_to_write
from strandline.cli.options import NO_FIELDS, TARGET, Flag, RecordFieldOptions, Target
from strandline.cli.output.formatting import PreparedRow
from strandline.cli.output.jsonl import RecordLineColumns, columns_of
from strandline.cli.output.output import JsonLinesOutput, RowPrinter, output
from strandline.config.settings import Durability
from strandline.errors import Invalid
from strandline.log.topic.topic import Topic
from strandline.records import AppendResult


class _AppendResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command, or of one of its batches."""

    topic: str
    records: int
    first_seq: int | None
    last_seq: int | None
    head_seq: int
    deduped: bool


def append(
    topic: str,
    /,
    *data: str,
    stdin: Flag = False,
    file: Annotated[str | None, Parameter(name=["--file", "-f"])] = None,
    ndjson: Flag = False,
    batch: int | None = None,
    durability: Durability | None = None,
    idempotency_key: str | None = None,
    expected_head: int | None = None,
    fields: RecordFieldOptions = NO_FIELDS,
    target: Target = TARGET,
) -> None:
    """Append records to a topic.

    The store and the topic are created if they do not exist.

    Prints the seqs. Data that begins with a dash goes after `--`.

    Parameters
    ----------
    topic
        Name of the topic.
    data
        One record each. Without any, the lines of a piped stdin are read.
    stdin
        Read records from stdin, one per line.
    file
        Read records from this file, one per line.
    ndjson
        Lines are records as `read --output jsonl` prints them, with key, tag, node and meta.
    batch
        Records that become durable together, or not at all. Default: all DATA, 1000 lines.
    durability
        Of a new topic: ephemeral, memory, disk (the default) or fsync.
    idempotency_key
        Append only once: a repeated run with the same key returns the seqs of the first.
    expected_head
        Append only if this is the newest seq of the topic, 0 for none.
    """
    once = idempotency_key is not None or expected_head is not None
    _check(data, file, batch, ndjson=ndjson, once=once)
    options: dict[str, object] = {} if durability is None else {"durability": durability}
    with contextlib.ExitStack() as stack:
        descriptor = None if file is None else stack.enter_context(open_input(file))
        batches = batches_of(data, batch, stdin=stdin, once=once, descriptor=descriptor)
        columns = _read(batches, fields) if ndjson else (_columns(each, fields) for each in batches)
        store = stack.enter_context(open_target_to_write(target, create=True))
        appender = _Appender(store.topic(topic, **options), output(target.output))
        appender.add_all(columns, expected_head, _bytes(idempotency_key))


def _check(
    data: tuple[str, ...], file: str | None, batch: int | None, *, ndjson: bool, once: bool
) -> None:
    if batch is not None and (batch < 1 or once):
        reason = (
            "is one batch with --idempotency-key and --expected-head" if once else "is 1 or more"
        )
        raise Invalid(f"--batch {batch} is not possible: an append {reason}")
    if data and (file is not None or ndjson):
        raise Invalid("records come from the command line or from --file, not from both")


class _Appender:
    """Counts acknowledged records and prints the result: per batch as jsonl, else at the end."""

    def __init__(self, topic: Topic, out: RowPrinter) -> None:
        self.topic = topic
        self._out = out
        self._per_batch = isinstance(out, JsonLinesOutput)
        self.records = 0
        self._first: int | None = None
        self._last: int | None = None
        self._head: int | None = None
        self._deduped = False

    def add_all(
        self, batches: Iterable[RecordLineColumns], expected_head: int | None, once: bytes | None
    ) -> None:
        """Append batch by batch; records acknowledged before a failure are still reported."""
        try:
            for batch in batches:
                if batch.data:
                    columns = {
                        name: values
                        for name, values in batch._asdict().items()
                        if name == "data" or any(value is not None for value in values or ())
                    }
                    appended = self.topic.append_many(
                        **columns, expected_head=expected_head, idempotency_key=once
                    )
                    self.add(appended)
        except BaseException:
            if self.records:
                self.end()
            raise
        self.end()

    def add(self, appended: AppendResult) -> None:
        self.records += appended.last_seq - appended.first_seq + 1
        self._first = self._first or appended.first_seq
        self._last = appended.last_seq
        self._head = appended.head_seq
        self._deduped = appended.deduped
        if self._per_batch:
            self._print()
            self.records, self._first = 0, None

    def end(self) -> None:
        if not self._per_batch:
            self._print()

    def _print(self) -> None:
        summary = _AppendResult(
            topic=self.topic.name,
            records=self.records,
            first_seq=self._first,
            last_seq=self._last,
            head_seq=self.topic.head_seq if self._head is None else self._head,
            deduped=self._deduped,
        )
        self._out.one(PreparedRow(msgspec.to_builtins(summary), _cells(summary)))


def _read(
    batches: Iterable[list[bytes]], fields: RecordFieldOptions
) -> Iterator[RecordLineColumns]:
    lines = 0
    for batch in batches:
        yield columns_of(batch, lines, fields)
        lines += len(batch)


def _columns(records: list[bytes], fields: RecordFieldOptions) -> RecordLineColumns:
    count = len(records)
    return RecordLineColumns(
        records,
        [_bytes(fields.key)] * count,
        [fields.tag] * count,
        [fields.node] * count,
        [_bytes(fields.meta)] * count,
    )


def _cells(summary: _AppendResult) -> dict[str, str]:
    cells = {"topic": summary.topic, "records": str(summary.records)}
    if summary.first_seq is not None:
        one = summary.first_seq == summary.last_seq
        seqs = f"{summary.first_seq}" if one else f"{summary.first_seq} to {summary.last_seq}"
        cells["seqs"] = seqs + (" (appended before)" if summary.deduped else "")
    return cells


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)
