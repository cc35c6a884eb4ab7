"""Checkpoint file <-> bytes: the state from which a store is opened. Pure except two functions.

    0   8   magic
    8   4   format version
    12  4   zero
    16  8   size of the body
    24  8   xxh3-64 of the body, seeded with number and version
    32  8   number of the checkpoint
    40  ..  body: one ``Root`` as MessagePack

Files are named ``checkpoint-<number>.bin`` and never rewritten. The two newest are kept, with all
the WAL and segment files that either needs, so that a damaged newest one costs only time.
"""

from __future__ import annotations

import struct

import msgspec
from xxhash import xxh3_64_intdigest

from strandline.config.settings import TopicConfig
from strandline.errors import Corrupt, UnsupportedFormat, of_another_store
from strandline.lake.cold_index import ColdEntry
from strandline.lake.lake_identity import LakeRef
from strandline.log.segments.reader import SegmentInfo
from strandline.platform.disk import Disk

FORMAT_VERSION = 1
_DIGITS = 16
_HEADER = struct.Struct("<8sIIQQQ")
_MAGIC = b"STRNDCHK"
_VERSION_STEP = 0x9E37_79B9_7F4A_7C15


class GapEntry(msgspec.Struct, frozen=True, array_like=True):
    """Seqs lost in the middle of a topic."""

    first_seq: int
    last_seq: int
    reason: str


class TopicEntry(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One topic as of a checkpoint. Seqs up to ``covered`` are in segments, or gone."""

    id: int
    name: str
    config: TopicConfig
    epoch: int
    created_us: int
    covered: int
    covered_payload: int
    last_ts: int
    evict_floor: int
    evict_reason: str
    delete_floor: int
    gone_payload: int
    ceiling: int
    deleted: bytes
    gaps: list[GapEntry]
    idempotency: list[tuple[bytes, int, int, int]]
    cold: ColdEntry = ColdEntry()
    producers: list[tuple[bytes, int, int, int, int]] = []
    """Name, number, first seq, last seq and time of the newest batch of each producer."""


class ShardEntry(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One shard as of a checkpoint: the lsn where replay begins, and the lsn known to be synced."""

    shard: int
    replay_lsn: int
    durable_lsn: int


class StoreCheckpoint(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The content of a checkpoint: everything a store needs besides the WAL after it."""

    number: int
    store_id: bytes
    term: int
    next_topic_id: int
    next_file_number: int
    last_ts: int
    shards: list[ShardEntry]
    segments: list[SegmentInfo]
    topics: list[TopicEntry]
    lake_trash: list[int] = []
    """Deleted topics whose lake files still have to be deleted."""
    lake: LakeRef | None = None
    """The lake of the store; None before there is one, and in checkpoints of earlier versions."""

    def replay_lsn(self, shard: int) -> int:
        return next((entry.replay_lsn for entry in self.shards if entry.shard == shard), 0)

    def durable_lsn(self, shard: int) -> int:
        return next((entry.durable_lsn for entry in self.shards if entry.shard == shard), 0)


def empty_checkpoint(store_id: bytes) -> StoreCheckpoint:
    """The checkpoint of a store that has none yet."""
    return StoreCheckpoint(
        number=0,
        store_id=store_id,
        term=0,
        next_topic_id=1,
        next_file_number=1,
        last_ts=0,
        shards=[],
        segments=[],
        topics=[],
    )


def path_of(directory: str, number: int) -> str:
    return f"{directory}/checkpoint-{number:0{_DIGITS}d}.bin"


def numbers_in(disk: Disk, directory: str) -> list[int]:
    """Numbers of the checkpoints in a folder, oldest first."""
    names = [name for name in disk.list_dir(directory) if name.startswith("checkpoint-")]
    digits = [name[11:-4] for name in names if name.endswith(".bin")]
    return sorted(int(text) for text in digits if text.isdigit() and len(text) == _DIGITS)


def encode(root: StoreCheckpoint) -> bytes:
    body = msgspec.msgpack.encode(root)
    checksum = _checksum(body, root.number, FORMAT_VERSION)
    header = _HEADER.pack(_MAGIC, FORMAT_VERSION, 0, len(body), checksum, root.number)
    return header + body


def decode(data: bytes, path: str) -> StoreCheckpoint:
    """Decode a checkpoint file; raises Corrupt or NewerFormat with the reason."""
    if len(data) < _HEADER.size or not data.startswith(_MAGIC):
        raise Corrupt("not a checkpoint", path=path)
    _, version, zero, size, checksum, number = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if zero or len(body) != size or _checksum(body, number, version) != checksum:
        raise Corrupt("a checkpoint fails its checksum", path=path, offset=_HEADER.size)
    if version != FORMAT_VERSION:
        raise UnsupportedFormat(f"{path} has checkpoint format {version}: upgrade to read it")
    try:
        root = msgspec.msgpack.decode(body, type=StoreCheckpoint)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"a checkpoint cannot be read ({error})", path=path) from error
    if root.number != number:
        raise Corrupt("a checkpoint has the number of another one", path=path)
    return root


def check_identity(root: StoreCheckpoint, number: int, store_id: bytes, path: str) -> None:
    """Raise Corrupt for an intact checkpoint of another store, or with another number."""
    if root.store_id != store_id:
        reason = of_another_store("checkpoint", root.store_id, store_id)
        raise Corrupt(reason, path=path)
    if root.number != number:
        raise Corrupt(f"the checkpoint is number {root.number}, not {number}", path=path)


def _checksum(body: bytes, number: int, version: int) -> int:
    """The checksum includes the version, so a damaged version is not taken for a newer format."""
    seed = number + (version - 1) * _VERSION_STEP
    return xxh3_64_intdigest(body, seed & 0xFFFF_FFFF_FFFF_FFFF)


def load(disk: Disk, directory: str, store_id: bytes) -> tuple[StoreCheckpoint, list[str]]:
    """The newest intact checkpoint, and the damage of newer ones."""
    complaints = []
    newest: Corrupt | None = None
    for number in reversed(numbers_in(disk, directory)):
        path = path_of(directory, number)
        try:
            root = decode(disk.read(path), path)
            check_identity(root, number, store_id, path)
        except Corrupt as error:
            complaints.append(str(error))
            newest = newest or error
            continue
        return root, complaints
    if newest is not None:
        # Even a log that goes back to its beginning is replayed only by a repair: the segments that
        # the lost checkpoint listed would otherwise look like files that nothing refers to.
        reasons = "; ".join(complaints)
        raise Corrupt(
            f"no checkpoint can be read ({reasons}): run `strandline repair`; the damage is",
            path=newest.path,
            offset=newest.offset,
        )
    return empty_checkpoint(store_id), []
