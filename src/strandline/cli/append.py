"""``strandline append``: records from the command line, or one per line from stdin.

Lines are appended in batches of ``--batch``, or of what is there (feed.py). What was acknowledged
before a failure is still reported.
"""

from __future__ import annotations

import os

import msgspec

from strandline.cli.cells import Made
from strandline.cli.feed import batches_of
from strandline.cli.opening import open_to_write
from strandline.cli.options import NO_FIELDS, TARGET, Fields, Flag, Target
from strandline.cli.output import JsonLinesOutput, Output, output
from strandline.errors import Invalid
from strandline.record import Appended
from strandline.settings import Durability
from strandline.topic.topic import Topic


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What one run, or one batch of it, has appended."""

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
    batch: int | None = None,
    durability: Durability | None = None,
    idempotency_key: str | None = None,
    expected_head: int | None = None,
    fields: Fields = NO_FIELDS,
    target: Target = TARGET,
) -> None:
    """Append records, and make the store and the topic if there are none.

    Prints the seqs. Data that begins with a dash goes behind `--`.

    Parameters
    ----------
    topic
        Name of the topic.
    data
        One record each. Without any, the lines of a piped stdin are taken.
    stdin
        Take records from stdin, one per line.
    batch
        Records that become durable together, or not at all. Default: all DATA, 1000 lines.
    durability
        For a topic that is new: ephemeral, memory, disk (the default) or fsync.
    idempotency_key
        Append only once: a second run with the same key answers with the first one's seqs.
    expected_head
        Append only if this is the newest seq of the topic, 0 for none.
    """
    once = idempotency_key is not None or expected_head is not None
    if batch is not None and (batch < 1 or once):
        reason = (
            "is one batch with --idempotency-key and --expected-head" if once else "is 1 or more"
        )
        raise Invalid(f"--batch {batch} cannot be: an append {reason}")
    batches = batches_of(data, batch, stdin=stdin, once=once)
    options: dict[str, object] = {} if durability is None else {"durability": durability}
    with open_to_write(target.store, create=True, lake_url=target.lake_url) as store:
        appender = _Appender(store.topic(topic, **options), output(target.output))
        try:
            for records in batches:
                appended = appender.topic.append(
                    records,
                    key=_bytes(fields.key),
                    tag=fields.tag,
                    node=fields.node,
                    meta=_bytes(fields.meta),
                    expected_head=expected_head,
                    idempotency_key=_bytes(idempotency_key),
                )
                appender.add(appended)
        except BaseException:
            if appender.records:
                appender.end()
            raise
        appender.end()


class _Appender:
    """Adds up what was acknowledged and prints it: per batch as jsonl, else once at the end."""

    def __init__(self, topic: Topic, out: Output) -> None:
        self.topic = topic
        self._out = out
        self._per_batch = isinstance(out, JsonLinesOutput)
        self.records = 0
        self._first: int | None = None
        self._last: int | None = None
        self._deduped = False

    def add(self, appended: Appended) -> None:
        self.records += appended.last_seq - appended.first_seq + 1
        self._first = self._first or appended.first_seq
        self._last = appended.last_seq
        self._deduped = appended.deduped
        if self._per_batch:
            self._print()
            self.records, self._first = 0, None

    def end(self) -> None:
        if not self._per_batch:
            self._print()

    def _print(self) -> None:
        summary = Summary(
            topic=self.topic.name,
            records=self.records,
            first_seq=self._first,
            last_seq=self._last,
            head_seq=self.topic.head_seq,
            deduped=self._deduped,
        )
        self._out.one(Made(msgspec.to_builtins(summary), _cells(summary)))


def _cells(summary: Summary) -> dict[str, str]:
    cells = {"topic": summary.topic, "records": str(summary.records)}
    if summary.first_seq is not None:
        one = summary.first_seq == summary.last_seq
        seqs = f"{summary.first_seq}" if one else f"{summary.first_seq} to {summary.last_seq}"
        cells["seqs"] = seqs + (" (appended before)" if summary.deduped else "")
    return cells


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)
