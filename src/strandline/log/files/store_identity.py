"""Finds the id of a store in its other files, when the SYSTEM file is damaged or disagrees."""

from __future__ import annotations

from strandline.errors import Corrupt
from strandline.log.files import checkpoint_codec as checkpoint_file
from strandline.log.files.layout import Layout
from strandline.log.segments import codec as segment_codec
from strandline.log.wal import codec as wal_codec
from strandline.log.wal.log_files import first_lsn_of
from strandline.platform.disk import Disk


def ids_in(disk: Disk, layout: Layout) -> dict[bytes, str]:
    """Every store id in an undamaged header, and a file that has it."""
    paths: dict[bytes, str] = {}
    for path, store_id in [*_in_wal(disk, layout), *_in_checkpoints(disk, layout)]:
        paths.setdefault(store_id, path)
    for path, store_id in [] if paths else _in_segments(disk, layout):
        paths.setdefault(store_id, path)
    return paths


def check(disk: Disk, layout: Layout, store_id: bytes) -> None:
    """Raise Corrupt when SYSTEM has an id that none of the other files has.

    For use when something else is wrong: with a foreign SYSTEM every other file looks foreign.
    """
    ids = ids_in(disk, layout)
    if not ids or store_id in ids:
        return
    others = ", ".join(other.hex() for other in ids)
    raise Corrupt(
        f"another store's SYSTEM file (of store {store_id.hex()}, and every other file is of store "
        f"{others}: put the right one back, or let `strandline repair` make it from the others)",
        path=f"{layout.directory}/SYSTEM",
    )


def id_from_other_files(disk: Disk, layout: Layout) -> bytes:
    """The id that all other files agree on; Corrupt when they do not, or have none."""
    ids = ids_in(disk, layout)
    if len(ids) == 1:
        return next(iter(ids))
    path = f"{layout.directory}/SYSTEM"
    if not ids:
        raise Corrupt("no other file has the id of the store", path=path)
    raise Corrupt(f"files of different stores are here: {', '.join(ids.values())}", path=path)


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


def _in_checkpoints(disk: Disk, layout: Layout) -> list[tuple[str, bytes]]:
    found = []
    for number in checkpoint_file.numbers_in(disk, layout.meta):
        path = checkpoint_file.path_of(layout.meta, number)
        try:
            found.append((path, checkpoint_file.decode(disk.read(path), path).store_id))
        except Corrupt:
            continue
    return found


def _in_segments(disk: Disk, layout: Layout) -> list[tuple[str, bytes]]:
    found = []
    for folder in disk.list_dir(layout.segments):
        for name in disk.list_dir(f"{layout.segments}/{folder}"):
            path = f"{layout.segments}/{folder}/{name}"
            header = segment_codec.decode_header(_start(disk, path, segment_codec.HEADER_SIZE))
            if isinstance(header, segment_codec.SegmentHeader):
                found.append((path, header.store_id))
    return found


def _start(disk: Disk, path: str, size: int) -> bytes:
    file = disk.open_read(path)
    try:
        return file.pread(size, 0)
    finally:
        file.close()
