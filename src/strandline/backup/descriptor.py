"""Descriptor of a backup <-> bytes: one line of JSON, its checksum last. Pure.

A descriptor names every object of its backup with size and content hash, and the times that it
covers. It has four lsns per shard:

    replay_lsn   where replay of its root begins
    exact_lsn    all effects in the root are before this: the log can be cut from here on
    last_lsn     where the last frame begins, whose header is stored too
    end_lsn      where the backup ends

The same in time: ``exact_us`` to ``until_us``.

**Timelines.** A backup whose log continues exactly where that of the one before it ended belongs to
the same timeline, which has the number of its first backup. The proof is the last frame of the
older backup, which must be in the log with the same header (``store_reader.py``). So the logs of
one timeline are one log, and every time from its first root on can be restored. A backup after a
restore, or after checkpoints have removed part of the log, begins a new timeline.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from xxhash import xxh3_64_hexdigest

from strandline.errors import Corrupt, UnsupportedFormat

FORMAT = 1


class BackupObject(msgspec.Struct, frozen=True, array_like=True):
    """An object of a backup."""

    key: str
    size: int
    content: str
    """xxh3-128 of all bytes, in hex."""


class LogPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Frames of one WAL file."""

    shard: int
    first_lsn: int
    end_lsn: int
    term: int
    ts_first: int
    ts_last: int
    object: BackupObject


class ShardReach(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one shard's log that a backup covers."""

    shard: int
    replay_lsn: int = 0
    exact_lsn: int = 0
    end_lsn: int = 0
    last_lsn: int = 0
    last_header: str = ""
    """Header of the last frame in hex; empty when it is unknown."""


class TopicReach(msgspec.Struct, frozen=True, array_like=True):
    """The head of one topic at the end of a backup."""

    id: int
    name: str
    head_seq: int
    dropped: bool = False
    """The topic was deleted after the backup before, or after the root."""


class LakeTopicManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The cold part of one topic: the manifest that the root names."""

    topic_id: int
    number: int
    object: BackupObject


class BackupDescriptor(msgspec.Struct, frozen=True, kw_only=True):
    """One backup."""

    format: int = FORMAT
    number: int
    attempt: str
    """Random, so that a writer recognizes its own object."""
    store_id: str
    store_created_us: int
    made_us: int
    timeline: int
    exact_us: int
    until_us: int
    copied_bytes: int
    """Bytes that this backup copied; the rest existed already."""
    root_number: int
    root: BackupObject | None
    """None when the store had no checkpoint."""
    shards: list[ShardReach]
    topics: list[TopicReach]
    segments: list[BackupObject]
    log: list[LogPiece]
    manifests: list[LakeTopicManifest]
    lake: list[BackupObject]
    checksum: str = ""
    """xxh3-64 of the line in which this is empty."""

    def objects(self) -> Iterator[BackupObject]:
        """All objects of the backup."""
        if self.root is not None:
            yield self.root
        yield from self.segments
        for piece in self.log:
            yield piece.object
        for topic in self.manifests:
            yield topic.object
        yield from self.lake

    def reach(self, shard: int) -> ShardReach:
        matches = (reach for reach in self.shards if reach.shard == shard)
        return next(matches, ShardReach(shard=shard))

    def topics_with(self, name: str, seq: int) -> list[TopicReach]:
        """The topics of this name that reached this seq, the oldest first."""
        topics = [each for each in self.topics if each.name == name and each.head_seq >= seq]
        return sorted(topics, key=lambda each: each.id)


def encode(descriptor: BackupDescriptor) -> bytes:
    signed = msgspec.structs.replace(descriptor, checksum=_checksum(descriptor))
    return msgspec.json.encode(signed) + b"\n"


def decode(data: bytes, number: int, path: str) -> BackupDescriptor:
    """Decode a descriptor; Corrupt when it is not as it was written."""
    try:
        backup = msgspec.json.decode(data, type=BackupDescriptor)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unreadable(data, path) or Corrupt(
            f"the descriptor of a backup cannot be read ({error})", path=path
        ) from error
    if backup.checksum != _checksum(backup) or msgspec.json.encode(backup) + b"\n" != data:
        raise Corrupt("the descriptor of a backup fails its checksum", path=path)
    if backup.format != FORMAT:
        raise UnsupportedFormat(f"{path} has backup format {backup.format}: upgrade to read it")
    if backup.number != number:
        raise Corrupt("the descriptor is that of another backup", path=path)
    return backup


class _Formatted(msgspec.Struct):
    format: int


def _unreadable(data: bytes, path: str) -> UnsupportedFormat | None:
    """The error for a newer format, which may have other fields; None for damage."""
    try:
        version = msgspec.json.decode(data, type=_Formatted).format
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if version <= FORMAT:
        return None
    return UnsupportedFormat(f"{path} has backup format {version}: upgrade to read it")


def _checksum(descriptor: BackupDescriptor) -> str:
    return xxh3_64_hexdigest(msgspec.json.encode(msgspec.structs.replace(descriptor, checksum="")))
