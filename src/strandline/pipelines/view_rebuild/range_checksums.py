"""Divides the visible content of a view state into ranges with a checksum each. Pure.

A range has some thousand parts (keys, jobs, sources, columns of points), from its first name on and
before that of the next range. Two states are equal when all ranges are; in a range that differs,
the parts are compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from xxhash import xxh3_64_digest, xxh3_128

from strandline.views.view import EnumerableFold, VisibleItem

RANGE_PARTS = 4096


class RangeChecksum(msgspec.Struct, frozen=True, array_like=True):
    """The checksum of a range."""

    first: bytes
    """The first name of the range."""
    count: int
    digest: bytes


class KeyChecksum(msgspec.Struct, frozen=True, array_like=True):
    """The checksum of a part."""

    name: bytes
    mark: bytes
    """Checksum of the content."""


def checksums_of(parts: Iterable[VisibleItem], many: int = RANGE_PARTS) -> Iterator[RangeChecksum]:
    """The checksums of ranges of ``many`` parts."""
    first, number, digest = b"", 0, xxh3_128()
    for seen in parts:
        if number == many:
            yield RangeChecksum(first, number, digest.digest())
            number, digest = 0, xxh3_128()
        if not number:
            first = seen.name
        number += 1
        _add(digest, seen)
    if number:
        yield RangeChecksum(first, number, digest.digest())


def checksum_of_range(
    fold: EnumerableFold, first: bytes | None, next: bytes | None
) -> RangeChecksum:
    """The checksum of the same range of another state."""
    number, digest = 0, xxh3_128()
    for seen in fold.visible_items(first, next):
        number += 1
        _add(digest, seen)
    return RangeChecksum(first or b"", number, digest.digest())


def key_checksum(seen: VisibleItem) -> KeyChecksum:
    return KeyChecksum(seen.name, xxh3_64_digest(seen.content))


def differing(one: Iterable[KeyChecksum], other: Iterable[KeyChecksum]) -> list[bytes]:
    """The names of parts that differ, in order."""
    checksums = {each.name: each.mark for each in one}
    names = []
    for each in other:
        if checksums.pop(each.name, None) != each.mark:
            names.append(each.name)
    return sorted([*names, *checksums])


def bounds(ranges: Sequence[RangeChecksum]) -> list[tuple[bytes | None, bytes | None]]:
    """The first name of each range and that of the next one; the ranges cover all names."""
    firsts = [each.first for each in ranges]
    return [
        (firsts[index] if index else None, firsts[index + 1] if index + 1 < len(firsts) else None)
        for index in range(len(firsts))
    ] or [(None, None)]


def _add(digest: xxh3_128, seen: VisibleItem) -> None:
    for part in seen:
        digest.update(len(part).to_bytes(4, "little"))
        digest.update(part)
