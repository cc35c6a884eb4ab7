"""What a user can see of a state, in ranges with a checksum each. Pure.

A range has some thousand parts (keys, jobs, sources, columns of points), from a name on and before
the next range's. Two states are the same when all ranges are; where one differs, the parts in it
are compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from xxhash import xxh3_64_digest, xxh3_128

from strandline.views.view import Seen, Told

RANGE_PARTS = 4096


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """A range of what can be seen."""

    first: bytes
    """Its first name."""
    count: int
    digest: bytes


class Marked(msgspec.Struct, frozen=True, array_like=True):
    """A part, short."""

    name: bytes
    mark: bytes
    """A checksum of its content."""


def count(parts: Iterable[Seen], many: int = RANGE_PARTS) -> Iterator[Counted]:
    """Ranges of so many parts."""
    first, number, digest = b"", 0, xxh3_128()
    for seen in parts:
        if number == many:
            yield Counted(first, number, digest.digest())
            number, digest = 0, xxh3_128()
        if not number:
            first = seen.name
        number += 1
        _add(digest, seen)
    if number:
        yield Counted(first, number, digest.digest())


def count_range(fold: Told, first: bytes | None, next: bytes | None) -> Counted:
    """One range of another state, as it is there."""
    number, digest = 0, xxh3_128()
    for seen in fold.seen(first, next):
        number += 1
        _add(digest, seen)
    return Counted(first or b"", number, digest.digest())


def marked(seen: Seen) -> Marked:
    return Marked(seen.name, xxh3_64_digest(seen.content))


def differing(one: Iterable[Marked], other: Iterable[Marked]) -> list[bytes]:
    """The names of parts that are not the same in both, in order."""
    known = {each.name: each.mark for each in one}
    found = []
    for each in other:
        if known.pop(each.name, None) != each.mark:
            found.append(each.name)
    return sorted([*found, *known])


def bounds(ranges: Sequence[Counted]) -> list[tuple[bytes | None, bytes | None]]:
    """From which name on, and before which, each range reaches: together they are everything."""
    firsts = [each.first for each in ranges]
    return [
        (firsts[place] if place else None, firsts[place + 1] if place + 1 < len(firsts) else None)
        for place in range(len(firsts))
    ] or [(None, None)]


def _add(digest: xxh3_128, seen: Seen) -> None:
    for part in seen:
        digest.update(len(part).to_bytes(4, "little"))
        digest.update(part)
