"""A disk in memory that can lose power: the ``Disk`` of ``platform/disk.py`` for tests.

    disk = SimDisk()
    ...                                   # run the store on it
    for after in disk.crash_states():     # every possible state after a power loss now
        ...                               # open the store on ``after`` and check its guarantees

``sim_sectors.py`` defines what may happen to the bytes of a file, ``sim_tree.py`` to names,
``fault_injection.py`` how calls are observed and made to fail. The crashed disk is unchanged, so
that one time can give any number of crash states; a new disk has no locks, faults, hook or counts.

    crash(choices)   power loss: a new boot id, unsynced sectors and names by choice
    remount(choices) the file system failed and was mounted again: the same losses as at a power
                     loss, with the same boot id
    kill()           SIGKILL: the same boot id, all writes are present and still unsynced
    power_off()      every later call on this disk raises OSError. Call it first when threads are
                     running, or the new disk lacks writes that they see acknowledged

A failed ``sync_dir`` leaves the names pending; only a failed sync of a file loses its data.
"""

from __future__ import annotations

import errno as codes
import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence

from strandline.platform.disk import Buffer, DurableFile, Lock, LogFile, ReadFile
from strandline.testing.crash_choices import Choices, Uniform, all_choices, sample_choices
from strandline.testing.fault_injection import Fault, FaultInjector, Hook
from strandline.testing.sim_file import (
    SimDescriptor,
    SimDurableFile,
    SimLock,
    SimLogFile,
    SimReadFile,
    sync_parent,
)
from strandline.testing.sim_sectors import PAGE, SECTOR, Sectors
from strandline.testing.sim_tree import Folder, Volume, failure

FREE_BYTES_UNLIMITED = 1 << 50
STATES_MAX = 1 << 10


class SimDisk:
    """A simulated machine's file system. Safe from many threads."""

    def __init__(self, *, seed: int = 0, capacity: int | None = None) -> None:
        self._seed = seed
        self._ids = 0
        self._boot = 1
        self._mount = 1
        self._volume = Volume(capacity)
        self._calls = FaultInjector()
        self._locked: set[Sectors] = set()

    @property
    def on_call(self) -> Hook | None:
        """Called before every call with the operation and the path, but not inside itself."""
        return self._calls.on_call

    @on_call.setter
    def on_call(self, hook: Hook | None) -> None:
        self._calls.on_call = hook

    @property
    def calls(self) -> Counter[str]:
        return self._calls.counts

    @property
    def calls_total(self) -> int:
        """The number of calls; inside ``on_call`` this call is included."""
        return self._calls.total

    @property
    def capacity(self) -> int | None:
        """Most bytes of all files together; None is no limit."""
        return self._volume.capacity

    @capacity.setter
    def capacity(self, capacity: int | None) -> None:
        self._volume.capacity = capacity

    def heal(self) -> None:
        """Remove all planned failures."""
        self._calls.heal()

    def fail(
        self,
        operation: str,
        nth: int = 1,
        *,
        errno: int = codes.ENOSPC,
        once: bool = True,
        path_contains: str = "",
        short: int | None = None,
    ) -> Fault:
        """Make the nth matching call from now raise OSError, once or always.

        ``"*"`` is any operation. With ``short`` this many bytes are written before the error.
        """
        if short is not None and operation in ("prepare", "durable_replace"):
            operation += ".write"
        fault = Fault(
            operation, nth=nth, errno=errno, once=once, path_contains=path_contains, short=short
        )
        self._calls.fail(fault)
        return fault

    def power_off(self) -> None:
        """Make every later call raise, for threads that outlive a simulated crash."""
        self._calls.power_off()

    def crash(
        self,
        choices: random.Random | Choices,
        *,
        sector: int = SECTOR,
        reorder_names: bool = False,
    ) -> SimDisk:
        """A new disk in a possible state after a power loss now."""
        volume = self._volume_after_loss(choices, sector=sector, reorder_names=reorder_names)
        return self._new_disk(volume, boot=self._boot + 1, mount=1)

    def remount(
        self,
        choices: random.Random | Choices,
        *,
        sector: int = SECTOR,
        reorder_names: bool = False,
    ) -> SimDisk:
        """The same for a file system that failed and was mounted again without a restart."""
        volume = self._volume_after_loss(choices, sector=sector, reorder_names=reorder_names)
        return self._new_disk(volume, boot=self._boot, mount=self._mount + 1)

    def kill(self) -> SimDisk:
        """A new disk in the state after SIGKILL."""
        with self._calls.lock:
            volume = self._volume.fork()
        return self._new_disk(volume, boot=self._boot, mount=self._mount)

    def crash_states(
        self,
        limit: int = STATES_MAX,
        rng: random.Random | None = None,
        *,
        sector: int = SECTOR,
        reorder_names: bool = False,
    ) -> Iterator[SimDisk]:
        """Disks after a power loss now: in all states, if there are at most ``limit``.

        Otherwise ``limit`` samples, of which the first two lose and keep everything unsynced.
        """
        frozen = self.kill()
        ways = frozen._volume.combinations(page=sector == PAGE, reorder_names=reorder_names)
        chance = random.Random(self._seed) if rng is None else rng
        choosers = all_choices() if ways <= limit else sample_choices(limit, chance, ways)
        return (
            frozen.crash(chooser, sector=sector, reorder_names=reorder_names)
            for chooser in choosers
        )

    def boot_id(self) -> str:
        self._calls.enter("boot_id", "")
        return f"00000000-0000-4000-8000-{self._boot:012x}"

    def page_cache_id(self, path: str) -> str:
        self._calls.enter("page_cache_id", path)
        return f"boot {self._boot} mount {self._mount}"

    def random_id(self) -> bytes:
        """Sixteen bytes, determined by the seed, and never repeated by a disk or its successors."""
        self._calls.enter("random_id", "")
        with self._calls.lock:
            self._ids += 1
            return hashlib.blake2b(b"%d:%d" % (self._seed, self._ids), digest_size=16).digest()

    def free_bytes(self, path: str) -> int:
        self._calls.enter("free_bytes", path)
        with self._calls.lock:
            if self._volume.find(path) is None:
                raise failure(codes.ENOENT, path)
            if self._volume.capacity is None:
                return FREE_BYTES_UNLIMITED
            return max(0, self._volume.capacity - self._volume.used())

    def make_dirs(self, path: str) -> None:
        self._calls.enter("make_dirs", path)
        names = path.strip("/").split("/")
        paths = ["/".join(names[:count]) for count in range(1, len(names) + 1)]
        missing = [path for path in paths if self._find(path) is None]
        # The last existing one may have been created by a process that was killed before the sync.
        for each in paths[max(0, len(paths) - len(missing) - 1) :]:
            with self._calls.lock:
                node = self._volume.find(each)
                if isinstance(node, Sectors):
                    raise failure(codes.EEXIST, each)
                if node is None:
                    self._volume.link(each, Folder())
            sync_parent(self._volume, self._calls, "make_dirs.sync_dir", each)

    def list_dir(self, path: str) -> list[str]:
        self._calls.enter("list_dir", path)
        with self._calls.lock:
            if self._volume.find(path) is None:
                return []
            return sorted(self._volume.folder(path).entries)

    def exists(self, path: str) -> bool:
        self._calls.enter("exists", path)
        with self._calls.lock:
            return self._volume.find(path) is not None

    def is_dir(self, path: str) -> bool:
        self._calls.enter("is_dir", path)
        with self._calls.lock:
            return isinstance(self._volume.find(path), Folder)

    def read(self, path: str) -> bytes:
        self._calls.enter("read", path)
        with self._calls.lock:
            file = self._volume.file(path)
            return file.read(file.size, 0)

    def open_read(self, path: str) -> ReadFile:
        self._calls.enter("open_read", path)
        return SimReadFile(self._descriptor(path))

    def open_direct(self, path: str) -> ReadFile:
        self._calls.enter("open_direct", path)
        return SimReadFile(self._descriptor(path))

    def write_direct(self, path: str, offset: int, buffers: Sequence[Buffer]) -> None:
        self._descriptor(path).write("write_direct", offset, buffers)

    def prepare(self, path: str, size: int) -> None:
        self._calls.enter("prepare", path)
        descriptor = SimDescriptor(path, Sectors(), self._volume, self._calls)
        with self._calls.lock:
            if self._volume.find(path) is not None:
                raise failure(codes.EEXIST, path)
            self._volume.link(path, descriptor.file)
        try:
            descriptor.fill("prepare.write", size)
            descriptor.sync("prepare.sync")
            sync_parent(self._volume, self._calls, "prepare.sync_dir", path)
        except OSError:
            descriptor.discard()
            raise

    def reserve(self, path: str, size: int) -> None:
        self._calls.enter("reserve", path)
        descriptor = SimDescriptor(path, Sectors(), self._volume, self._calls)
        with self._calls.lock:
            if self._volume.find(path) is not None:
                raise failure(codes.EEXIST, path)
            self._volume.link(path, descriptor.file)
        try:
            descriptor.fill("reserve.write", size)
        except OSError:
            descriptor.discard()
            raise

    def open_log(self, path: str) -> LogFile:
        self._calls.enter("open_log", path)
        return SimLogFile(self._descriptor(path))

    def create(self, path: str, *, aside: str | None = None) -> DurableFile:
        self._calls.enter("create", path)
        return SimDurableFile(path, self._volume, self._calls, aside=aside)

    def durable_replace(self, path: str, content: Buffer) -> None:
        self._calls.enter("durable_replace", path)
        file = SimDurableFile(path, self._volume, self._calls, within="durable_replace")
        try:
            file.write([content])
            file.commit()
        except OSError:
            file.abandon()
            raise

    def modified_us(self, path: str) -> int:
        """Always 1970: this disk has no clock."""
        self._calls.enter("modified_us", path)
        with self._calls.lock:
            if self._volume.find(path) is None:
                raise failure(codes.ENOENT, path)
        return 0

    def rename(self, old: str, new: str) -> None:
        self._calls.enter("rename", old)
        with self._calls.effect:
            self._volume.move(old, new)

    def sync_dir(self, path: str) -> None:
        self._calls.enter("sync_dir", path)
        with self._calls.effect:
            self._volume.sync(self._volume.folder(path))

    def remove(self, path: str) -> None:
        self._calls.enter("remove", path)
        with self._calls.effect:
            self._volume.unlink(path)

    def lock(self, path: str, content: bytes) -> Lock | None:
        self._calls.enter("lock", path)
        with self._calls.lock:
            if self._volume.find(path) is None:
                self._volume.link(path, Sectors())
            file = self._volume.file(path)
            if file in self._locked:
                return None
            self._locked.add(file)
            file.resize(0)
            if self._volume.fitting_size(file, len(content)) == len(content):
                file.store(0, content)
        return SimLock(lambda: self._locked.discard(file))

    def _descriptor(self, path: str) -> SimDescriptor:
        with self._calls.lock:
            return SimDescriptor(path, self._volume.file(path), self._volume, self._calls)

    def _find(self, path: str) -> Folder | Sectors | None:
        with self._calls.lock:
            return self._volume.find(path)

    def _volume_after_loss(
        self, choices: random.Random | Choices, *, sector: int, reorder_names: bool
    ) -> Volume:
        if sector not in (SECTOR, PAGE):
            raise ValueError(f"torn at {SECTOR} or {PAGE} bytes, not {sector}")
        chooser = Uniform(choices) if isinstance(choices, random.Random) else choices
        with self._calls.lock:
            return self._volume.after_power_loss(
                chooser, page=sector == PAGE, reorder_names=reorder_names
            )

    def _new_disk(self, volume: Volume, *, boot: int, mount: int) -> SimDisk:
        disk = SimDisk(seed=self._seed)
        disk._volume = volume
        disk._boot = boot
        disk._mount = mount
        disk._ids = self._ids
        return disk
