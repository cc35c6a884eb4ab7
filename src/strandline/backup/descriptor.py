"""Descriptor of a backup <-> bytes: one line of JSON, its checksum last. Pure.

A descriptor names every object of its backup with size and content, and says which moments it
covers. Of each shard there are four lsns:

    replay_lsn   where replay of its root begins
    exact_lsn    what the root knows lies before this: from here on a cut gives what was
    last_lsn     where the last frame begins, whose header is kept too
    end_lsn      where the backup ends

The same in time: ``exact_us`` to ``until_us``.

**Timelines.** A backup whose log goes on exactly where that of the one before it ended belongs to
the same timeline, which is named after its first backup. That it does is seen by the last frame of
the older backup, which must be in the log, header and all (``store_reader.py``). So the logs of one
timeline are one log, and every moment from its first root on can be restored. A backup after a
restore, or after checkpoints have removed part of the log, begins a new one.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from xxhash import xxh3_64_hexdigest

from strandline.errors import Corrupt, NewerFormat

FORMAT = 1


class Object(msgspec.Struct, frozen=True, array_like=True):
    """An object of a backup."""

    key: str
    size: int
    content: str
    """xxh3-128 of all bytes, in hex."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Frames of one WAL file."""

    shard: int
    first_lsn: int
    end_lsn: int
    term: int
    ts_first: int
    ts_last: int
    object: Object


class ShardReach(msgspec.Struct, frozen=True, kw_only=True):
    """How far a backup goes in one shard."""

    shard: int
    replay_lsn: int = 0
    exact_lsn: int = 0
    end_lsn: int = 0
    last_lsn: int = 0
    last_header: str = ""
    """Header of the last frame in hex; empty when it is not known."""


class TopicReach(msgspec.Struct, frozen=True, array_like=True):
    """How far a backup goes in one topic."""

    id: int
    name: str
    head_seq: int
    dropped: bool = False
    """It was deleted since the backup before, or since the root."""


class LakeTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The cold part of one topic: the manifest that the root knows."""

    topic_id: int
    number: int
    object: Object


class Descriptor(msgspec.Struct, frozen=True, kw_only=True):
    """One backup."""

    format: int = FORMAT
    number: int
    attempt: str
    """Random, so that a writer knows its own object again."""
    store_id: str
    store_created_us: int
    made_us: int
    timeline: int
    exact_us: int
    until_us: int
    copied_bytes: int
    """What this backup had to copy; the rest was there."""
    root_number: int
    root: Object | None
    """None when the store had no checkpoint."""
    shards: list[ShardReach]
    topics: list[TopicReach]
    segments: list[Object]
    log: list[Piece]
    manifests: list[LakeTopic]
    lake: list[Object]
    checksum: str = ""
    """xxh3-64 of the line in which this is empty."""

    def objects(self) -> Iterator[Object]:
        """Everything that must be there."""
        if self.root is not None:
            yield self.root
        yield from self.segments
        for piece in self.log:
            yield piece.object
        for topic in self.manifests:
            yield topic.object
        yield from self.lake

    def reach(self, shard: int) -> ShardReach:
        found = (reach for reach in self.shards if reach.shard == shard)
        return next(found, ShardReach(shard=shard))

    def topics_with(self, name: str, seq: int) -> list[TopicReach]:
        """The topics of this name that have had this seq, the oldest first."""
        named = [each for each in self.topics if each.name == name and each.head_seq >= seq]
        return sorted(named, key=lambda each: each.id)


def encode(descriptor: Descriptor) -> bytes:
    sealed = msgspec.structs.replace(descriptor, checksum=_checksum(descriptor))
    return msgspec.json.encode(sealed) + b"\n"


def decode(data: bytes, number: int, path: str) -> Descriptor:
    """The descriptor, or an error that says what is wrong with the object."""
    try:
        found = msgspec.json.decode(data, type=Descriptor)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unreadable(data, path) or Corrupt(
            f"the descriptor of a backup cannot be read ({error})", path=path
        ) from error
    if found.checksum != _checksum(found) or msgspec.json.encode(found) + b"\n" != data:
        raise Corrupt("the descriptor of a backup fails its checksum", path=path)
    if found.format != FORMAT:
        raise NewerFormat(f"{path} has backup format {found.format}: upgrade to read it")
    if found.number != number:
        raise Corrupt("the descriptor is that of another backup", path=path)
    return found


class _Formatted(msgspec.Struct):
    format: int


def _unreadable(data: bytes, path: str) -> NewerFormat | None:
    """A newer format may have other fields, and then it is no damage."""
    try:
        told = msgspec.json.decode(data, type=_Formatted).format
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if told <= FORMAT:
        return None
    return NewerFormat(f"{path} has backup format {told}: upgrade to read it")


def _checksum(descriptor: Descriptor) -> str:
    return xxh3_64_hexdigest(msgspec.json.encode(msgspec.structs.replace(descriptor, checksum="")))
