"""State files of declared pipelines, in the store's folder.

    schedule/NAME.json      the time up to which it was run, its newest run, runs to add to the
                            history
    schedule/NAME.lock      the lease: held while it runs, by the scheduler and by the run's process
    schedule/NAME.outcome   the result that the process of a run has written
    schedule/NAME.log       the output of that process

The lease is a lock of the operating system on a descriptor that the run's process has, too: it is
released when both have ended, for any reason, and not before. So a pipeline never runs twice at the
same time, also when a scheduler dies and another one starts, and a lease never has to time out.

Only the holder of the lease writes; a file is replaced as a whole. A backup has none of these
files: after a restore every pipeline counts as declared for the first time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
from xxhash import xxh3_64_hexdigest

from strandline.api.pipelines import PipelineRun
from strandline.errors import Corrupt
from strandline.log.files.layout import Layout
from strandline.pipelines.schedule.registry import RunResult
from strandline.platform import process
from strandline.platform.disk import Disk, Lock

_STATE = ".json"
WAITING_MAX = 100
"""Most runs that wait for the history; beyond that the oldest are dropped."""


class PipelineState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a declared pipeline."""

    id: str
    """Random: its runs are numbered under this name in the history."""
    served_us: int
    """Due times up to this one need no run."""
    attempts: int = 0
    """Consecutive lost runs for the newest due time."""
    run: PipelineRun | None = None
    """The newest run."""
    last_success_us: int | None = None
    failures: int = 0
    waiting: tuple[PipelineRun, ...] = ()
    """Runs that have ended and are not in the history yet."""
    checksum: str = ""
    """xxh3-64 of the file with this field empty; empty in files of earlier versions."""

    @property
    def is_unfinished(self) -> bool:
        """Whether the newest run has started and its end is not recorded."""
        return self.run is not None and self.run.outcome is None


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    done: RunResult


class PipelineStateStore:
    """The files of a store's declared pipelines. Safe from many threads and processes."""

    def __init__(self, store: str, disk: Disk) -> None:
        self._folder = Layout(store).schedule
        self._disk = disk

    def log_path(self, name: str) -> str:
        return f"{self._folder}/{name}.log"

    def outcome_path(self, name: str) -> str:
        return f"{self._folder}/{name}.outcome"

    def try_lease(self, name: str) -> Lock | None:
        """The lease; None while another process holds it."""
        self._disk.make_dirs(self._folder)
        owner = f"{process.process_id()} {self._disk.boot_id()}\n".encode()
        return self._disk.lock(f"{self._folder}/{name}.lock", owner)

    def load(self, name: str) -> PipelineState | None:
        """The state of a pipeline; None for a new declaration."""
        path = f"{self._folder}/{name}{_STATE}"
        if not self._disk.exists(path):
            return None
        try:
            return _decode(self._disk.read(path))
        except (msgspec.MsgspecError, ValueError) as error:
            raise Corrupt(
                f"the state of pipeline {name!r} cannot be read ({error}): delete the file, "
                "and it counts as never run",
                path=path,
            ) from error

    def check(self) -> Iterator[Corrupt]:
        """Damage in the state files of all pipelines."""
        names = self._disk.list_dir(self._folder) if self._disk.exists(self._folder) else []
        for name in names:
            if name.endswith(_STATE):
                try:
                    self.load(name.removesuffix(_STATE))
                except Corrupt as error:
                    yield error

    def new_state(self, now_us: int) -> PipelineState:
        """The state of a new declaration: due times in the past need no run."""
        return PipelineState(id=self._disk.random_id().hex(), served_us=now_us)

    def save(self, name: str, state: PipelineState) -> None:
        """Write the state; the caller holds the lease."""
        state = msgspec.structs.replace(state, waiting=state.waiting[-WAITING_MAX:])
        self._disk.durable_replace(f"{self._folder}/{name}{_STATE}", _encode(state))

    def outcome_of(self, run: PipelineRun) -> RunResult | None:
        """The result that the process of a run has written; None if it did not finish."""
        path = self.outcome_path(run.name)
        if not self._disk.exists(path):
            return None
        with contextlib.suppress(msgspec.MsgspecError):  # killed while it wrote
            outcome = msgspec.json.decode(self._disk.read(path), type=_Outcome)
            if outcome.number == run.number:
                return outcome.done
        return None


def _encode(state: PipelineState) -> bytes:
    plain = msgspec.json.encode(msgspec.structs.replace(state, checksum=""))
    return msgspec.json.encode(msgspec.structs.replace(state, checksum=xxh3_64_hexdigest(plain)))


def _decode(data: bytes) -> PipelineState:
    """Decode a state; ValueError unless the bytes are exactly those that were written."""
    state = msgspec.json.decode(data, type=PipelineState)
    older = (
        msgspec.json.encode(state).replace(b',"checksum":""', b"") if not state.checksum else b""
    )
    if data not in (_encode(state), older):
        raise ValueError("it fails its checksum")
    return state


def write_outcome(disk: Disk, path: str, number: int, done: RunResult) -> None:
    """Write the result of a run."""
    disk.durable_replace(path, msgspec.json.encode(_Outcome(number=number, done=done)))
