"""Checkpoints of finished tasks of a rebuild, so that the next run can continue a killed one.

For each finished task the driver writes a note to the lake: its result, and the objects that it has
written. The note's name is a hash of everything that the result depends on: kind and options of the
view, the part of the log (files by their content, ranges, deletes in them), for a fold also the
runs it reads and the records that have left the log; and the version of this package. So the next
run, at any position, plans its own tasks and takes over the results of equal ones: most of them,
since the log grows at its end. Before a note is used its objects must exist; their content is
checked when it is read.

At the end of a run all notes of the view are deleted, then the objects that they name. One run of a
view keeps notes at a time (a lock, released when its process ends); a concurrent one works without
notes. The store removes unused notes and objects after a week, like all staged data.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
from xxhash import xxh3_64_digest, xxh3_128_hexdigest

from strandline.errors import NotFound
from strandline.ingest.delivery_codec import STAGED
from strandline.ingest.delivery_job import LEFTOVER_S
from strandline.pipelines.engine import Engine
from strandline.pipelines.splits.split_reader import FilePart
from strandline.pipelines.view_rebuild.reduce_task import FoldTask, ReduceResult
from strandline.pipelines.view_rebuild.shuffle_task import GatherTask, RebuildContext, ShuffleResult
from strandline.pipelines.view_rebuild.table_verify_task import (
    ChangesTask,
    RangeComparison,
    RangeTask,
    TableChanges,
)
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk, Lock
from strandline.platform.objectstore.protocol import Objects

FRESH_S = LEFTOVER_S / 2
"""Older notes are not used: their objects might be removed during the run."""
_CHECKSUM_BYTES = 8
_VERSION = importlib.metadata.version("strandline")

AnyTask = GatherTask | FoldTask | ChangesTask | RangeTask
AnyResult = ShuffleResult | ReduceResult | TableChanges | RangeComparison
Task = TypeVar("Task", GatherTask, FoldTask, ChangesTask, RangeTask)
Result = TypeVar("Result", ShuffleResult, ReduceResult, TableChanges, RangeComparison)


class _Note(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    result: bytes
    objects: dict[str, int]
    """The objects that the task has written, with the minimal size of each."""


class TaskCheckpoint:
    """The notes of one view. Owned by one thread."""

    def __init__(self, lake: Objects, disk: Disk, clock: Clock, folder: str, view: str) -> None:
        """``folder`` is in the store, ``view`` is a permanent name of the view."""
        self.taken_over = 0
        self._lake = lake
        self._clock = clock
        self._prefix = f"{STAGED}/rebuilt-{view}-"
        self._lock: Lock | None = None
        self._objects: set[str] = set()
        self._fresh_notes: set[str] = set()
        with contextlib.suppress(OSError):  # a read-only folder: work without notes
            disk.make_dirs(folder)
            self._lock = disk.lock(f"{folder}/{view}.lock", b"")
        if self._lock is not None:
            due_us = clock.now_us() - round(FRESH_S * 1e6)
            notes = [each for each in lake.list(STAGED) if each.key.startswith(self._prefix)]
            self._fresh_notes = {each.key for each in notes if each.modified_us > due_us}
            self._objects = {each.key for each in notes}

    def run(
        self,
        engine: Engine,
        act: Callable[[Task], Result],
        work: RebuildContext,
        tasks: Sequence[Task],
        kind: type[Result],
    ) -> Iterator[tuple[int, Result]]:
        """Yield the index and result of each task: first of the finished ones, then the others."""
        names = [self._name(work, task) for task in tasks]
        remaining = []
        for index, name in enumerate(names):
            finished = self._load(name, kind)
            if finished is None:
                remaining.append(index)
            else:
                self.taken_over += 1
                yield index, finished
        for number, result in engine.run(act, [tasks[index] for index in remaining]):
            self._save(names[remaining[number]], result)
            yield remaining[number], result

    def finish(self, handed_over: set[str]) -> None:
        """Remove all notes and objects except those that were handed over: the run is complete."""
        objects = self._objects - handed_over
        notes = {key for key in objects if key.startswith(self._prefix)}
        with contextlib.suppress(OSError):  # then the store removes them later
            self._lake.delete(sorted(notes))
            self._lake.delete(sorted(objects - notes))

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _name(self, work: RebuildContext, task: AnyTask) -> str:
        if not isinstance(task, FoldTask):
            # The number of the manifest rises with every change; the file is named by its content.
            parts = [
                msgspec.structs.replace(part, manifest=0) if isinstance(part, FilePart) else part
                for part in task.parts
            ]
            task = msgspec.structs.replace(task, parts=tuple(parts))
        inputs = (
            _VERSION,
            type(task).__name__,
            (work.kind, work.views, work.strangers, work.piece_rows),
            task,
        )
        return f"{self._prefix}{xxh3_128_hexdigest(msgspec.msgpack.encode(inputs))}"

    def _load(self, name: str, kind: type[Result]) -> Result | None:
        if name not in self._fresh_notes:
            return None
        with contextlib.suppress(NotFound, msgspec.MsgspecError):
            data = self._lake.get(name)
            body = data[_CHECKSUM_BYTES:]
            if xxh3_64_digest(body) != data[:_CHECKSUM_BYTES]:
                return None
            note = msgspec.msgpack.decode(body, type=_Note)
            if all(self._lake.head(key).size >= size for key, size in note.objects.items()):
                self._objects.update(note.objects)
                return msgspec.msgpack.decode(note.result, type=kind)
        return None

    def _save(self, name: str, result: AnyResult) -> None:
        objects = _objects_of(result)
        self._objects.update(objects)
        if self._lock is None:
            return
        body = msgspec.msgpack.encode(_Note(result=msgspec.msgpack.encode(result), objects=objects))
        self._lake.put(name, xxh3_64_digest(body) + body)
        self._objects.add(name)


def _objects_of(result: AnyResult) -> dict[str, int]:
    sizes: dict[str, int] = {}
    if isinstance(result, TableChanges | RangeComparison):
        return sizes
    if isinstance(result, ShuffleResult):
        for piece in result.pieces:
            sizes[piece.key] = max(sizes.get(piece.key, 0), piece.offset + piece.size)
        return sizes
    sizes = {file.key: file.size for file in result.files}
    if result.marks:
        sizes[result.marks] = 1
    return sizes
