"""The history of runs: records of the topic ``strandline.runs``, the newest ``RUNS_KEPT``.

    key    name of the declaration
    tag    outcome
    data   the ``Run`` as JSON

A scheduler may run beside the process that has the store open, so runs are delivered like the rows
of an import (``pipelines/delivery_client.py``): the process that has the store open appends them,
or else the scheduler opens it briefly. A run has a number, which the topic accepts once: however
often its delivery is repeated, it is in the history once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec
import pyarrow as pa

from strandline.api.pipelines import PipelineRun, RunLine
from strandline.assembly import RUNS_TOPIC
from strandline.errors import Corrupt
from strandline.ingest import delivery_codec, staged_files
from strandline.log.topic.topic import Topic
from strandline.pipelines.delivery_client import deliver, lake_of
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects

WAIT_S_MAX = 5.0
_PAGE_SIZE = 500


class RunHistory:
    """Adds runs to the history. Safe from many threads."""

    def __init__(self, store: str, lake: str = "", *, clock: Clock | None = None) -> None:
        """The clock limits the time of a delivery: it is real time, like that of the disk."""
        self._store = store
        self._lake = lake
        self._clock = clock or SystemClock()

    def add(self, producer: str, run: PipelineRun) -> None:
        """Add a run; returns when it is in the topic. After Unavailable, add it again."""
        attempt = OsDisk().random_id().hex()
        row = {
            "key": pa.array([run.name.encode()], pa.binary()),
            "tag": pa.array([run.outcome], pa.string()),
            "data": pa.array([msgspec.json.encode(run)], pa.binary()),
        }
        objects = open_objects(lake_of(self._store, self._lake))
        try:
            key_of = partial(delivery_codec.staged_key, producer, run.number, attempt)
            files = staged_files.stage(objects, key_of, [pa.RecordBatch.from_pydict(row)])
        finally:
            objects.close()
        deliver(
            self._store,
            RUNS_TOPIC,
            files,
            producer=producer,
            number=run.number,
            attempt=attempt,
            lake=self._lake,
            create=True,
            wait_s_max=WAIT_S_MAX,
            clock=self._clock,
        )


def runs_in(
    topic: Topic, *, name: str | None = None, limit: int = 100, before: int | None = None
) -> list[RunLine]:
    """Runs of one declaration, or of all, the newest first."""
    lines: list[RunLine] = []
    for line in _backwards(topic, before):
        if name is None or line.run.name == name:
            lines.append(line)
            if len(lines) == limit:
                break
    return lines


def _backwards(topic: Topic, before: int | None) -> Iterator[RunLine]:
    end = topic.head_seq + 1 if before is None else min(before, topic.head_seq + 1)
    earliest = topic.statistics().earliest_seq
    while end > earliest:
        first = max(earliest, end - _PAGE_SIZE)
        page = topic.read(first - 1, end - first)
        for record in reversed(page.records):
            if record.seq < end:
                yield RunLine(seq=record.seq, run=_run_of(record.data, record.seq))
        end = first


def _run_of(data: bytes, seq: int) -> PipelineRun:
    try:
        return msgspec.json.decode(data, type=PipelineRun)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"run {seq} cannot be read ({error})", path=f"topic {RUNS_TOPIC}") from error
