"""The SYSTEM file: the identity of a store, its format, and the number of its shards.

JSON on one line, readable as text; the last field is a checksum of the line without it, so a newer
format can be distinguished from a damaged one. Format, id and creation never change. The number of
shards is that of the last opening for writing: it may change from one opening to the next, and
nothing depends on it, because the header of every log file has its shard.
"""

from __future__ import annotations

import errno

import msgspec
from xxhash import xxh3_64_hexdigest

from strandline.errors import Corrupt, Locked, NotAStore, Unavailable, UnsupportedFormat
from strandline.platform.disk import Disk, Lock
from strandline.platform.system_errors import advice

FORMAT_VERSION = 1
RESTORING = "RESTORING"
"""Exists in a directory until a restore into it is complete."""
_OWN_NAMES = frozenset({"LOCK", "SYSTEM.tmp"})


class System(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a store."""

    format: int
    store_id: str
    created_us: int
    shards: int = 0
    """Of the last opening for writing; 0 when the file is older than this field, or new."""
    checksum: str = ""


def acquire_lock(disk: Disk, directory: str, owner: bytes) -> Lock:
    """Lock a store for its writer; creates the directory if there is none."""
    try:
        disk.make_dirs(directory)
        check_directory(disk, directory)
        lock = disk.lock(f"{directory}/LOCK", owner)
    except OSError as error:
        remedy = advice(error, "check the path and its rights, or open it with readonly=True")
        raise Unavailable(f"cannot open {directory} for writing ({error}): {remedy}") from error
    if lock is None:
        raise Locked(
            f"another process has {directory} open: close it there, or open with readonly=True"
        )
    return lock


def ensure(disk: Disk, directory: str, now_us: int, *, shards: int = 0) -> bytes:
    """The id of the store; creates a store if the directory is empty."""
    if disk.exists(f"{directory}/SYSTEM"):
        return read(disk, directory)
    check_directory(disk, directory)
    store_id = disk.random_id()
    write(disk, directory, store_id, now_us, shards=shards)
    return store_id


def note_shards(disk: Disk, directory: str, shards: int) -> None:
    """Store the number of shards that the store is written over. Call it once the store is open."""
    system = describe(disk, directory)
    if system.shards == shards:
        return
    store_id = bytes.fromhex(system.store_id)
    try:
        write(disk, directory, store_id, system.created_us, shards=shards)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # A store on a full disk must open, for reads and deletes: the next opening stores it.


def check_directory(disk: Disk, directory: str) -> None:
    """Raise when a directory is not a store and not empty. Call it before any change there."""
    names = disk.list_dir(directory)
    if "SYSTEM" in names:
        return
    if RESTORING in names:
        raise NotAStore(
            f"a restore into {directory} did not finish: remove the directory, then restore again"
        )
    foreign = [name for name in names if name not in _OWN_NAMES]
    if "wal" in foreign or "meta" in foreign:
        reason = "the SYSTEM file is missing: restore it from a backup"
        raise Corrupt(reason, path=f"{directory}/SYSTEM")
    if foreign:
        raise NotAStore(
            f"{directory} is not a store and not empty (it has {foreign[0]!r}): name another "
            "directory"
        )


def write(disk: Disk, directory: str, store_id: bytes, created_us: int, *, shards: int = 0) -> None:
    """Write the identity of the store; only the number of shards may change later."""
    system = System(
        format=FORMAT_VERSION, store_id=store_id.hex(), created_us=created_us, shards=shards
    )
    checksum = xxh3_64_hexdigest(msgspec.json.encode(system))
    sealed = msgspec.structs.replace(system, checksum=checksum)
    disk.durable_replace(f"{directory}/SYSTEM", msgspec.json.encode(sealed) + b"\n")


def read(disk: Disk, directory: str) -> bytes:
    """The id of an existing store."""
    return bytes.fromhex(describe(disk, directory).store_id)


def describe(disk: Disk, directory: str) -> System:
    """The content of an existing store's SYSTEM file."""
    path = f"{directory}/SYSTEM"
    try:
        content = disk.read(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotAStore(f"{directory} is not a store: it has no SYSTEM file") from error
    try:
        system = msgspec.json.decode(content, type=System)
        store_id = bytes.fromhex(system.store_id)
    except (msgspec.DecodeError, ValueError) as error:
        raise Corrupt(f"the SYSTEM file cannot be read ({error})", path=path) from error
    line = content.replace(f'"{system.checksum}"'.encode(), b'""')
    intact = line.endswith(b"\n") and system.checksum == xxh3_64_hexdigest(line[:-1])
    if not intact or len(store_id) != 16:
        raise Corrupt("the SYSTEM file fails its checksum", path=path)
    if system.format > FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{path} has store format {system.format}, this version reads {FORMAT_VERSION}: "
            "upgrade Strandline"
        )
    return system
