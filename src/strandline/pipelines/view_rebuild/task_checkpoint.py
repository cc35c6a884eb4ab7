"""What finished tasks of a rebuild have left, so that a run that was killed is gone on with.

For each task that has ended the driver puts a note into the lake: what it came to, and which
objects it left. The note's name is a hash of all that the result is made of: kind and options of
the view, the part of the log (files by their content, ranges, what is deleted in them), for a fold
also the runs it reads and what has left the log; and of the version of this package. So the next
run, at whatever position it is, plans its own tasks and takes over those that are the same: most
of them, since the log grows at its end. Before a note is believed its objects are asked for; what
they hold is checked by whoever reads it.

At the end of a run all notes of the view go, then all that they name. One run of a view keeps notes
at a time (a lock, which dies with its process); another one beside it works by itself, as if there
were none. What nobody goes on with is removed by the store after a week, as all that is staged.
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
from strandline.pipelines.view_rebuild.reduce_task import Folded, FoldTask
from strandline.pipelines.view_rebuild.shuffle_task import Gathered, GatherTask, Work
from strandline.pipelines.view_rebuild.table_verify_task import (
    Changes,
    ChangesTask,
    Compared,
    RangeTask,
)
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk, Lock
from strandline.platform.objectstore.protocol import Objects

FRESH_S = LEFTOVER_S / 2
"""Older notes are not gone on with: their objects might be removed meanwhile."""
_CHECKSUM_BYTES = 8
_VERSION = importlib.metadata.version("strandline")

AnyTask = GatherTask | FoldTask | ChangesTask | RangeTask
AnyResult = Gathered | Folded | Changes | Compared
Task = TypeVar("Task", GatherTask, FoldTask, ChangesTask, RangeTask)
Result = TypeVar("Result", Gathered, Folded, Changes, Compared)


class _Note(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    result: bytes
    objects: dict[str, int]
    """The objects that the task has left, each with the bytes that it must have at least."""


class Kept:
    """The notes of one view. Owned by one thread."""

    def __init__(self, lake: Objects, disk: Disk, clock: Clock, folder: str, view: str) -> None:
        """``folder`` is of the store, ``view`` names the view for good."""
        self.taken_over = 0
        self._lake = lake
        self._clock = clock
        self._prefix = f"{STAGED}/rebuilt-{view}-"
        self._lock: Lock | None = None
        self._left: set[str] = set()
        self._known: set[str] = set()
        with contextlib.suppress(OSError):  # a folder that may only be read: go without
            disk.make_dirs(folder)
            self._lock = disk.lock(f"{folder}/{view}.lock", b"")
        if self._lock is not None:
            due_us = clock.now_us() - round(FRESH_S * 1e6)
            there = [each for each in lake.list(STAGED) if each.key.startswith(self._prefix)]
            self._known = {each.key for each in there if each.modified_us > due_us}
            self._left = {each.key for each in there}

    def run(
        self,
        engine: Engine,
        act: Callable[[Task], Result],
        work: Work,
        tasks: Sequence[Task],
        kind: type[Result],
    ) -> Iterator[tuple[int, Result]]:
        """The place and result of each task: of those that are done already, then of the others."""
        names = [self._name(work, task) for task in tasks]
        rest = []
        for place, name in enumerate(names):
            found = self._find(name, kind)
            if found is None:
                rest.append(place)
            else:
                self.taken_over += 1
                yield place, found
        for at, result in engine.run(act, [tasks[place] for place in rest]):
            self._note(names[rest[at]], result)
            yield rest[at], result

    def finish(self, handed_over: set[str]) -> None:
        """Remove all but what was handed over: there is nothing to go on with."""
        left = self._left - handed_over
        notes = {key for key in left if key.startswith(self._prefix)}
        with contextlib.suppress(OSError):  # then the store removes it
            self._lake.delete(sorted(notes))
            self._lake.delete(sorted(left - notes))

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _name(self, work: Work, task: AnyTask) -> str:
        if not isinstance(task, FoldTask):
            # The number of the manifest rises with every change; the file is named by its content.
            parts = [
                msgspec.structs.replace(part, manifest=0) if isinstance(part, FilePart) else part
                for part in task.parts
            ]
            task = msgspec.structs.replace(task, parts=tuple(parts))
        given = (
            _VERSION,
            type(task).__name__,
            (work.kind, work.views, work.strangers, work.piece_rows),
            task,
        )
        return f"{self._prefix}{xxh3_128_hexdigest(msgspec.msgpack.encode(given))}"

    def _find(self, name: str, kind: type[Result]) -> Result | None:
        if name not in self._known:
            return None
        with contextlib.suppress(NotFound, msgspec.MsgspecError):
            data = self._lake.get(name)
            body = data[_CHECKSUM_BYTES:]
            if xxh3_64_digest(body) != data[:_CHECKSUM_BYTES]:
                return None
            note = msgspec.msgpack.decode(body, type=_Note)
            if all(self._lake.head(key).size >= size for key, size in note.objects.items()):
                self._left.update(note.objects)
                return msgspec.msgpack.decode(note.result, type=kind)
        return None

    def _note(self, name: str, result: AnyResult) -> None:
        objects = _objects_of(result)
        self._left.update(objects)
        if self._lock is None:
            return
        body = msgspec.msgpack.encode(_Note(result=msgspec.msgpack.encode(result), objects=objects))
        self._lake.put(name, xxh3_64_digest(body) + body)
        self._left.add(name)


def _objects_of(result: AnyResult) -> dict[str, int]:
    found: dict[str, int] = {}
    if isinstance(result, Changes | Compared):
        return found
    if isinstance(result, Gathered):
        for piece in result.pieces:
            found[piece.key] = max(found.get(piece.key, 0), piece.offset + piece.size)
        return found
    found = {file.key: file.size for file in result.files}
    if result.marks:
        found[result.marks] = 1
    return found
