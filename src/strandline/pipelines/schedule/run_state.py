"""What is known of each declared pipeline: files of the store's folder, for whoever runs it.

    schedule/NAME.json      up to which point it was run, its newest run, what the history lacks
    schedule/NAME.lock      the lease: held while it runs, by the scheduler and by the run's process
    schedule/NAME.outcome   what the process of a run has left behind
    schedule/NAME.log       what it printed

The lease is a lock of the operating system on a descriptor that the run's process has, too: it is
free when both are gone, however they went, and not before. So there are no two runs at once, also
when a scheduler dies and another begins, and no lease has to be waited for.

Only who holds the lease writes; a file is replaced as a whole. Nothing here is in a backup: after a
restore everything is as if it were declared for the first time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
from xxhash import xxh3_64_hexdigest

from strandline.api.pipelines import Run
from strandline.errors import Corrupt
from strandline.log.files.layout import Layout
from strandline.pipelines.schedule.registry import Done
from strandline.platform import process
from strandline.platform.disk import Disk, Lock

_STATE = ".json"
WAITING_MAX = 100
"""Runs that wait for the history; the oldest give way."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a declared pipeline."""

    id: str
    """Random: the name under which its runs are numbered in the history."""
    served_us: int
    """Points up to here need no run any more."""
    attempts: int = 0
    """Runs in a row for the newest point that were lost."""
    run: Run | None = None
    """The newest run."""
    last_success_us: int | None = None
    failures: int = 0
    waiting: tuple[Run, ...] = ()
    """Runs that have ended and are not in the history yet."""
    checksum: str = ""
    """xxh3-64 of the file in which it is empty; empty in files of earlier versions."""

    @property
    def is_unfinished(self) -> bool:
        """Whether the newest run has begun and nobody has noted its end."""
        return self.run is not None and self.run.outcome is None


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    done: Done


class Ledger:
    """The files of a store's declared pipelines. Safe from many threads and processes."""

    def __init__(self, store: str, disk: Disk) -> None:
        self._folder = Layout(store).schedule
        self._disk = disk

    def log_path(self, name: str) -> str:
        return f"{self._folder}/{name}.log"

    def outcome_path(self, name: str) -> str:
        return f"{self._folder}/{name}.outcome"

    def try_lease(self, name: str) -> Lock | None:
        """The lease, or None while somebody has it."""
        self._disk.make_dirs(self._folder)
        owner = f"{process.process_id()} {self._disk.boot_id()}\n".encode()
        return self._disk.lock(f"{self._folder}/{name}.lock", owner)

    def load(self, name: str) -> State | None:
        """What is known; None for a declaration that was never seen."""
        path = f"{self._folder}/{name}{_STATE}"
        if not self._disk.exists(path):
            return None
        try:
            return _decode(self._disk.read(path))
        except (msgspec.MsgspecError, ValueError) as error:
            raise Corrupt(
                f"what is known of pipeline {name!r} cannot be read ({error}): delete the file, "
                "and it counts as never run",
                path=path,
            ) from error

    def check(self) -> Iterator[Corrupt]:
        """What is wrong with the files of all pipelines."""
        names = self._disk.list_dir(self._folder) if self._disk.exists(self._folder) else []
        for name in names:
            if name.endswith(_STATE):
                try:
                    self.load(name.removesuffix(_STATE))
                except Corrupt as error:
                    yield error

    def first_seen(self, now_us: int) -> State:
        """What is known of one that was never seen: points in the past need no run."""
        return State(id=self._disk.random_id().hex(), served_us=now_us)

    def save(self, name: str, state: State) -> None:
        """Only with the lease."""
        state = msgspec.structs.replace(state, waiting=state.waiting[-WAITING_MAX:])
        self._disk.durable_replace(f"{self._folder}/{name}{_STATE}", _encode(state))

    def outcome_of(self, run: Run) -> Done | None:
        """What the process of a run has left behind, if it came to its end."""
        path = self.outcome_path(run.name)
        if not self._disk.exists(path):
            return None
        with contextlib.suppress(msgspec.MsgspecError):  # killed while it wrote
            found = msgspec.json.decode(self._disk.read(path), type=_Outcome)
            if found.number == run.number:
                return found.done
        return None


def _encode(state: State) -> bytes:
    plain = msgspec.json.encode(msgspec.structs.replace(state, checksum=""))
    return msgspec.json.encode(msgspec.structs.replace(state, checksum=xxh3_64_hexdigest(plain)))


def _decode(data: bytes) -> State:
    """A state, which is the very bytes that were written."""
    state = msgspec.json.decode(data, type=State)
    older = (
        msgspec.json.encode(state).replace(b',"checksum":""', b"") if not state.checksum else b""
    )
    if data not in (_encode(state), older):
        raise ValueError("it fails its checksum")
    return state


def write_outcome(disk: Disk, path: str, number: int, done: Done) -> None:
    """Leave behind what a run has done."""
    disk.durable_replace(path, msgspec.json.encode(_Outcome(number=number, done=done)))
