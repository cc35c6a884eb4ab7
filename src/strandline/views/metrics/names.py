"""Checks names of measurements, tags and fields; encodes the tags of a series as bytes.

Series are identified by the canonical form of their tags, in the log and in memory::

    key 0x00 value 0x00 key 0x00 value      in the order of the keys; empty without tags

Names and values are not empty, have at most 1000 bytes of UTF-8 and no control characters, so that
0x00 and 0x01 can separate them. All tags of a series together have at most 8 KiB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from strandline.errors import Invalid

NAME_BYTES_MAX = 1000
TAGS_BYTES_MAX = 8 * 1024
BETWEEN = b"\x00"
BETWEEN_SERIES = b"\x01"

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_name(name: str, what: str) -> str:
    """Return the name if it is valid, else raise Invalid."""
    if type(name) is str and len(name) < 100 and name.isascii() and name.isprintable() and name:
        return name  # the fast path: nearly all names are like this
    if not isinstance(name, str) or not name:
        raise Invalid(f"{name!r} cannot be {what}: give a non-empty string")
    if _CONTROL.search(name):
        raise Invalid(f"{name!r} cannot be {what}: it has a control character")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"{name!r} cannot be {what}: it is not UTF-8") from error
    if size > NAME_BYTES_MAX:
        raise Invalid(f"{name[:40]!r}... cannot be {what}: it has more than {NAME_BYTES_MAX} bytes")
    return name


def canonical(tags: Mapping[str, str]) -> bytes:
    """The tags of a series as bytes, the same for any order of the tags."""
    parts: list[str] = []
    for key in sorted(tags):
        parts += check_name(key, "a tag"), check_name(tags[key], f"the value of tag {key!r}")
    packed = "\x00".join(parts).encode()
    check_size(len(packed))
    return packed


def check_size(size: int) -> None:
    """Raise Invalid if the tags of a series are too large."""
    if size > TAGS_BYTES_MAX:
        raise Invalid(f"the tags of a series have {size} bytes: the limit is {TAGS_BYTES_MAX}")


def tags_of(packed: bytes) -> dict[str, str]:
    """Decode tags from their canonical form."""
    if not packed:
        return {}
    parts = packed.decode().split("\x00")
    return dict(zip(parts[::2], parts[1::2], strict=True))
