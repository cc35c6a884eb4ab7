"""Entry of a lake file in a manifest. Pure.

An entry has the seqs that the file covers, checksums of its bytes, and statistics of its columns,
so that a reader can skip a file without opening it. A topic may have a hundred thousand entries in
memory: the column statistics are therefore one string of JSON, decoded on demand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

BOUND_SIZE_MAX = 32
"""Bytes (of UTF-8, for text) that are stored of a smallest or largest value."""

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class ColumnStats(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Statistics of a column of a file. Bounds of binary columns are in hex.

    Bounds may be shortened, ``min`` downwards and ``max`` upwards. Without ``min`` the column has
    no values; with ``min`` but no ``max`` there is no short upper bound.
    """

    min: str | None
    max: str | None
    nulls: int


_STATS = msgspec.json.Decoder(dict[str, ColumnStats])


class LakeFile(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One Parquet file of the lake. Its name contains its seqs and its content hash."""

    first_seq: int
    last_seq: int
    """The file covers first_seq to last_seq: each is a row, or there is no such record."""
    rows: int
    size: int
    """Bytes of the file."""
    payload: int
    """Bytes of key, tag, node, meta and data over all rows."""
    ts_min: int
    ts_max: int
    """Both 0 in a file without rows."""
    content: str
    """xxh3-128 of all bytes, in hex."""
    tail_offset: int
    tail_checksum: int
    """xxh3-64 of the bytes from tail_offset to the end, seeded with the topic id."""
    schema_version: int = 0
    stats: str = "{}"
    """Column statistics as JSON, in the form of ``encode_stats``."""

    def name(self) -> str:
        """The file's name in the topic's data folder. Names of one topic sort by seq."""
        return f"{self.first_seq:020d}-{self.last_seq:020d}-{self.content[:16]}.parquet"

    def column_stats(self) -> dict[str, ColumnStats]:
        """Column statistics by column; a column that is missing here may hold any values."""
        return _STATS.decode(self.stats)


def encode_stats(stats: Mapping[str, ColumnStats]) -> str:
    """Encode statistics for an entry: plain ASCII, so that a character takes one byte."""
    return json.dumps(
        {name: msgspec.to_builtins(column) for name, column in stats.items()},
        separators=(",", ":"),
    )


def text_stats(smallest: str | None, largest: str | None, nulls: int) -> ColumnStats:
    """Statistics of a text column."""
    low = None if smallest is None else _shorten(smallest)
    return ColumnStats(low, None if largest is None else _text_above(largest), nulls)


def binary_stats(smallest: bytes | None, largest: bytes | None, nulls: int) -> ColumnStats:
    """Statistics of a binary column."""
    low = None if smallest is None else smallest[:BOUND_SIZE_MAX].hex()
    high = None if largest is None else _bytes_above(largest)
    return ColumnStats(low, None if high is None else high.hex(), nulls)


def _shorten(text: str) -> str:
    """The text cut to the whole characters that fit."""
    return text.encode()[:BOUND_SIZE_MAX].decode(errors="ignore")


def _text_above(text: str) -> str | None:
    """The text, or a shorter one that is not below it. Text is ordered by code points."""
    short = _shorten(text)
    if short == text:
        return text
    while short:
        following = ord(short[-1]) + 1
        if following <= _LAST_CHARACTER:
            return short[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
        short = short[:-1]
    return None


def _bytes_above(value: bytes) -> bytes | None:
    """The bytes, or shorter ones that are not below them."""
    if len(value) <= BOUND_SIZE_MAX:
        return value
    short = value[:BOUND_SIZE_MAX].rstrip(b"\xff")
    return short[:-1] + bytes([short[-1] + 1]) if short else None
