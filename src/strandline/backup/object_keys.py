"""Keys of the objects of backups. Pure.

    backups/<number, 20 digits>.json                               a backup exists when this does
    roots/<number>-<content>.bin                                   a checkpoint
    segments/<number>-<checksum of the index>.seg                  a segment file
    wal/<shard>/<first lsn>-<end lsn>-<content>.log                frames of one WAL file, bare
    lake/<topic id, hex>/<first seq>-<last seq>-<content>.parquet  a lake file
    manifests/<topic id, hex>/<number>-<content>.json              a full manifest of the lake

A key contains the content hash, so backups share objects, and an object never changes. An index
holds the checksums of all blocks: two segments of one number and one index are the same.
"""

from __future__ import annotations

from strandline.log.segments.reader import SegmentInfo

BACKUPS = "backups"
FOLDERS = ("roots", "segments", "wal", "lake", "manifests")
"""Folders of the objects that descriptors name."""

_DIGITS = 20
_CONTENT_DIGITS = 16


def descriptor_key(number: int) -> str:
    return f"{BACKUPS}/{number:020d}.json"


def number_of(key: str) -> int | None:
    """The number of a backup; None for another object."""
    folder, _, name = key.partition("/")
    digits, _, suffix = name.partition(".")
    if folder != BACKUPS or suffix != "json" or len(digits) != _DIGITS or not digits.isdecimal():
        return None
    return int(digits)


def root_key(number: int, content: str) -> str:
    return f"roots/{number:020d}-{content[:_CONTENT_DIGITS]}.bin"


def segment_key(info: SegmentInfo) -> str:
    return f"segments/{info.number:020d}-{info.footer_checksum:016x}.seg"


def piece_key(shard: int, first_lsn: int, end_lsn: int, content: str) -> str:
    return f"wal/{shard:02d}/{first_lsn:020d}-{end_lsn:020d}-{content[:_CONTENT_DIGITS]}.log"


def lake_key(topic_id: int, name: str) -> str:
    return f"lake/{topic_id:016x}/{name}"


def manifest_key(topic_id: int, number: int, content: str) -> str:
    return f"manifests/{topic_id:016x}/{number:020d}-{content[:_CONTENT_DIGITS]}.json"
