"""Files and folders of a store's directory. No path contains a topic's name.

SYSTEM                      identity and format
LOCK                        held by the writing process
BALLAST                     removed when the disk is nearly full
CLOSED                      how far each shard was synced at the last clean close
RESTORING                   exists until a restore is complete
meta/checkpoint-N.bin       checkpoints, the two newest
wal/shard-NN/wal-LSN.log    the log
segments/shared/N.seg       segments of many topics
segments/ID/SEQ-N.seg       segments of one topic
pins/                       locked by processes that copy files, which are then not removed
lake/                       older history as Parquet, unless the lake is elsewhere
spool/                      files that are being written for or uploaded to the lake
views/                      saved state of views, a reservoir; without it they are folded again
views-spill/ views-cache/   pages of views that are not saved yet, or read from elsewhere: scratch
incoming/                   batches of other processes that the writer has not ingested yet
schedule/                   of each declared pipeline: its newest run, its lock, its log
rebuilds/                   locks of rebuilds that can be resumed
quarantine/                 files that nothing refers to, kept for two checkpoints
damaged/                    files that a repair took out of use, kept for good
"""

from __future__ import annotations

import os

import msgspec
from xxhash import xxh3_64_intdigest

from strandline.errors import Corrupt, Invalid
from strandline.platform.disk import Disk


def checked_path(path: str | os.PathLike[str]) -> str:
    """The absolute path of a store's directory."""
    if not (isinstance(path, (str, os.PathLike)) and isinstance(os.fspath(path), str) and path):
        raise Invalid(f"name the directory of the store as text, not {path!r}")
    return os.path.abspath(path)


class Layout:
    """Paths of one store."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.lock = f"{directory}/LOCK"
        self.ballast = f"{directory}/BALLAST"
        self.closed = f"{directory}/CLOSED"
        self.meta = f"{directory}/meta"
        self.wal = f"{directory}/wal"
        self.segments = f"{directory}/segments"
        self.lake = f"{directory}/lake"
        self.spool = f"{directory}/spool"
        self.incoming = f"{directory}/incoming"
        self.views = f"{directory}/views"
        self.pins = f"{directory}/pins"
        self.schedule = f"{directory}/schedule"
        self.rebuilds = f"{directory}/rebuilds"
        self.quarantine = f"{directory}/quarantine"
        self.damaged = f"{directory}/damaged"

    def shard(self, number: int) -> str:
        return f"{self.wal}/shard-{number:02d}"

    def quarantined_files(self, disk: Disk) -> list[str]:
        """Files that an opening or a repair took out of use, by their paths in the store."""
        return [
            path[len(self.directory) + 1 :] + f"/{name}"
            for path in (self.quarantine, self.damaged)
            if disk.exists(path)
            for name in sorted(disk.list_dir(path))
        ]

    def shards_on(self, disk: Disk) -> list[int]:
        """Shards that have a folder, whether they are still used or not."""
        names = [name[6:] for name in disk.list_dir(self.wal) if name.startswith("shard-")]
        return sorted(int(text) for text in names if text.isdigit())

    def write_closed(self, disk: Disk, synced: dict[int, int]) -> None:
        body = msgspec.msgpack.encode(synced)
        checksum = xxh3_64_intdigest(body).to_bytes(8, "little")
        disk.durable_replace(self.closed, checksum + body)

    def read_closed(self, disk: Disk) -> dict[int, int]:
        """The lsn by shard up to which it was synced when the store was last closed cleanly."""
        if not disk.exists(self.closed):
            return {}
        content = disk.read(self.closed)
        body = content[8:]
        if content[:8] != xxh3_64_intdigest(body).to_bytes(8, "little"):
            raise Corrupt("the CLOSED file fails its checksum", path=self.closed)
        return msgspec.msgpack.decode(body, type=dict[int, int])
