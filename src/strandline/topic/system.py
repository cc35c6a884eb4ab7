"""The SYSTEM file: which store this is, and in which format. Written once, when the store is made.

JSON on one line, so that a person can read it; the last field is a checksum of the others.
"""

from __future__ import annotations

import msgspec
from xxhash import xxh3_64_hexdigest

from strandline.env.disk import Disk
from strandline.errors import Corrupt, NewerFormat, NotAStore

FORMAT_VERSION = 1
_OWN_NAMES = frozenset({"LOCK", "SYSTEM.tmp"})


class System(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a store."""

    format: int
    store_id: str
    created_us: int
    checksum: str = ""


def ensure(disk: Disk, directory: str, now_us: int) -> bytes:
    """The store's id, after making the store if the directory is empty."""
    path = f"{directory}/SYSTEM"
    if disk.exists(path):
        return read(disk, directory)
    foreign = [name for name in disk.list_dir(directory) if name not in _OWN_NAMES]
    if "wal" in foreign or "meta" in foreign:
        raise Corrupt("the SYSTEM file is missing: restore it from a backup", path=path)
    if foreign:
        raise NotAStore(
            f"{directory} is not a store and not empty (it has {foreign[0]!r}): name another "
            "directory"
        )
    store_id = disk.random_id()
    system = System(format=FORMAT_VERSION, store_id=store_id.hex(), created_us=now_us)
    sealed = msgspec.structs.replace(system, checksum=_checksum(system))
    disk.durable_replace(path, msgspec.json.encode(sealed) + b"\n")
    return store_id


def read(disk: Disk, directory: str) -> bytes:
    """The id of an existing store."""
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
    if system.format > FORMAT_VERSION:
        raise NewerFormat(
            f"{directory} has store format {system.format}, this version reads {FORMAT_VERSION}: "
            "upgrade Strandline"
        )
    if system.checksum != _checksum(system) or len(store_id) != 16:
        raise Corrupt("the SYSTEM file fails its checksum", path=path)
    return store_id


def _checksum(system: System) -> str:
    return xxh3_64_hexdigest(msgspec.json.encode(msgspec.structs.replace(system, checksum="")))
