"""Metadata of a fold in one ordered map: names, numbers, runs and references to the log.

    m  measurement             name, floor
    f  field                   measurement, name, kind, record that defined it
    s  measurement, series     canonical tags
    t  measurement, series/4096    times of the last points of these series
    u  run                     its spans (runs.py)
    l  seq/256                 which records are still needed (log_references.py)

Keys are one letter and big-endian numbers of 8 bytes; values are MessagePack, or bytes. A save puts
only changed entries; the map then writes its changed pages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from strandline.reservoir.btree.btree_map import PagedMap

T = TypeVar("T")

_NUMBER = struct.Struct(">Q")
_encode = msgspec.msgpack.Encoder().encode


class Metadata:
    """Entries by letter and numbers. Owned by one thread."""

    def __init__(self, stored: PagedMap) -> None:
        self.map = stored

    def put(self, letter: str, *numbers: int, fact: Any) -> None:
        self.map.put(_key(letter, numbers), _encode(fact))

    def put_many(self, letter: str, facts: list[tuple[tuple[int, ...], Any]]) -> None:
        self.map.put_many((_key(letter, numbers), _encode(fact)) for numbers, fact in facts)

    def delete(self, letter: str, *numbers: int) -> None:
        self.map.delete(_key(letter, numbers))

    def get(self, letter: str, *numbers: int, kind: type[T]) -> T | None:
        data = self.map.get(_key(letter, numbers))
        return None if data is None else msgspec.msgpack.decode(data, type=kind)

    def raw(self, letter: str, *numbers: int) -> bytes | None:
        """The stored bytes of an entry."""
        return self.map.get(_key(letter, numbers))

    def all(self, letter: str, *numbers: int, kind: type[T]) -> Iterator[tuple[tuple[int, ...], T]]:
        """Entries whose keys start with these numbers, in order, with all their numbers."""
        decoder = msgspec.msgpack.Decoder(kind)
        for key, value in self.map.prefix(_key(letter, numbers)):
            count = (len(key) - 1) // 8
            yield struct.unpack(f">{count}Q", key[1:]), decoder.decode(value)

    def since(self, letter: str, first: int, *, kind: type[T]) -> Iterator[tuple[int, T]]:
        """Entries with one number, from ``first`` on."""
        decoder = msgspec.msgpack.Decoder(kind)
        end = bytes((ord(letter) + 1,))
        for key, value in self.map.range(_key(letter, (first,)), end):
            yield _NUMBER.unpack(key[1:])[0], decoder.decode(value)


def _key(letter: str, numbers: tuple[int, ...]) -> bytes:
    return letter.encode() + b"".join(map(_NUMBER.pack, numbers))
