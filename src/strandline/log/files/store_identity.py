"""Which store these files belong to, when its SYSTEM file cannot say, or says something else."""

from __future__ import annotations

from strandline.errors import Corrupt
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files.layout import Layout
from strandline.log.segments import codec as segment_codec
from strandline.log.wal import codec as wal_codec
from strandline.log.wal.log_files import first_lsn_of
from strandline.platform.disk import Disk


def ids_in(disk: Disk, layout: Layout) -> dict[bytes, str]:
    """Every store id that an undamaged header tells, and a file that tells it."""
    found: dict[bytes, str] = {}
    for path, store_id in [*_in_wal(disk, layout), *_in_roots(disk, layout)]:
        found.setdefault(store_id, path)
    for path, store_id in [] if found else _in_segments(disk, layout):
        found.setdefault(store_id, path)
    return found


def check(disk: Disk, layout: Layout, store_id: bytes) -> None:
    """Raise when SYSTEM is the stranger here: others tell who they are, and none agrees with it.

    Asked when something else is wrong: each of the others would look like a stranger then.
    """
    found = ids_in(disk, layout)
    if not found or store_id in found:
        return
    others = ", ".join(told.hex() for told in found)
    raise Corrupt(
        f"another store's SYSTEM file (of store {store_id.hex()}, and every other file is of store "
        f"{others}: put the right one back, or let `strandline repair` make it from the others)",
        path=f"{layout.directory}/SYSTEM",
    )


def told_by_others(disk: Disk, layout: Layout) -> bytes:
    """The id that all other files agree on; Corrupt when they do not, or tell none."""
    found = ids_in(disk, layout)
    if len(found) == 1:
        return next(iter(found))
    path = f"{layout.directory}/SYSTEM"
    if not found:
        raise Corrupt("no other file tells which store this is", path=path)
    raise Corrupt(f"files of different stores are here: {', '.join(found.values())}", path=path)


def _in_wal(disk: Disk, layout: Layout) -> list[tuple[str, bytes]]:
    found = []
    for shard in layout.shards_on(disk):
        for name in disk.list_dir(layout.shard(shard)):
            if first_lsn_of(name) is not None:
                path = f"{layout.shard(shard)}/{name}"
                start = _start(disk, path, wal_codec.FILE_HEADER_SIZE)
                header = wal_codec.decode_file_header(start)
                if isinstance(header, wal_codec.FileHeader):
                    found.append((path, header.store_id))
    return found


def _in_roots(disk: Disk, layout: Layout) -> list[tuple[str, bytes]]:
    found = []
    for number in root_file.numbers_in(disk, layout.meta):
        path = root_file.path_of(layout.meta, number)
        try:
            found.append((path, root_file.decode(disk.read(path), path).store_id))
        except Corrupt:
            continue
    return found


def _in_segments(disk: Disk, layout: Layout) -> list[tuple[str, bytes]]:
    found = []
    for folder in disk.list_dir(layout.segments):
        for name in disk.list_dir(f"{layout.segments}/{folder}"):
            path = f"{layout.segments}/{folder}/{name}"
            header = segment_codec.decode_header(_start(disk, path, segment_codec.HEADER_SIZE))
            if isinstance(header, segment_codec.Header):
                found.append((path, header.store_id))
    return found


def _start(disk: Disk, path: str, size: int) -> bytes:
    file = disk.open_read(path)
    try:
        return file.pread(size, 0)
    finally:
        file.close()
