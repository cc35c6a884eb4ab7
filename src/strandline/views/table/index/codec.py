"""The file of indexes of one Parquet file <-> bytes: header, catalogue, sections. Pure.

    offset  size  field
    0       8     "STRNDZON"
    8       4     format version, 1
    12      4     rows in a zone; the last may have fewer
    16      8     rows
    24      8     size of the file
    32      8     size of the catalogue
    40      8     xxh3-64 of the catalogue
    48      8     xxh3-64 of the bytes before
    56            catalogue: MessagePack
    ..            sections, each at a multiple of 8

The catalogue lists the indexes of each field with the offset and the checksum of their sections:
the planner of a query reads only the sections that can help. Small sections that are used often
come first, so that one read of the first bytes returns them all. The catalogue has the name of the
file of rows that the indexes were built from: the indexes of other rows would exclude zones with
rows that match. Files of earlier versions do not have this name.

A kind of index that this version does not support is ignored, and the others are used. So the
format of a kind's section never changes; another format is another kind.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import msgspec
from xxhash import xxh3_64_intdigest

from strandline.errors import Corrupt, UnsupportedFormat

MAGIC = b"STRNDZON"
FORMAT_VERSION = 1
HEADER_SIZE = 56

Fetch = Callable[[int, int], bytes]
"""Reads bytes of the file: offset, size."""

_HEADER = struct.Struct("<8sIIQQQQ")
_CHECKSUM = struct.Struct("<Q")


class IndexEntry(msgspec.Struct, frozen=True, array_like=True):
    """The section of one index."""

    field: str
    kind: str
    offset: int
    size: int
    checksum: int
    """xxh3-64 of the section."""


class RowsOrigin(msgspec.Struct, frozen=True, array_like=True):
    """The file of rows that indexes were built from."""

    table_id: int
    name: str
    content: str
    """xxh3-128 of all its bytes, in hex."""


class IndexCatalogue(msgspec.Struct, frozen=True, array_like=True):
    """The content of the file. ``types`` also has fields without an index."""

    types: dict[str, str]
    """The type of each field as in the schema of the file."""
    entries: tuple[IndexEntry, ...]
    origin: RowsOrigin | None = None
    """None in files of earlier versions."""


class IndexFileHeader(msgspec.Struct, frozen=True):
    """The header of a file of indexes."""

    zone_rows: int
    rows: int
    size: int
    catalogue_size: int
    catalogue_checksum: int

    @property
    def zones(self) -> int:
        return -(-self.rows // self.zone_rows)


class IndexSection(msgspec.Struct, frozen=True):
    """The bytes of an index before it has an offset."""

    field: str
    kind: str
    data: bytes


_DECODER = msgspec.msgpack.Decoder(IndexCatalogue)


def encode(
    sections: Sequence[IndexSection],
    *,
    types: dict[str, str],
    rows: int,
    zone_rows: int,
    origin: RowsOrigin | None = None,
) -> bytes:
    """The bytes of a file of indexes, with sections in this order; without ``origin`` in the
    format of earlier versions."""
    catalogue = _catalogue(sections, types, origin)
    parts, size = [], _first_offset(len(catalogue))
    padding = bytes(size - HEADER_SIZE - len(catalogue))
    for section in sections:
        parts.append(section.data + bytes(-len(section.data) % 8))
        size += len(parts[-1])
    header = _HEADER.pack(
        *(MAGIC, FORMAT_VERSION, zone_rows, rows, size),
        *(len(catalogue), xxh3_64_intdigest(catalogue)),
    )
    checksum = _CHECKSUM.pack(xxh3_64_intdigest(header))
    return b"".join((header, checksum, catalogue, padding, *parts))


def decode_header(data: bytes, *, size: int, name: str) -> IndexFileHeader:
    """The verified header; ``size`` is the size of the file."""
    if len(data) < HEADER_SIZE:
        raise Corrupt("a file of zone indexes is shorter than its header", path=name)
    magic, version, zone_rows, rows, stored_size, catalogue_size, checksum = _HEADER.unpack_from(
        data
    )
    if magic != MAGIC:
        raise Corrupt("a file of zone indexes does not begin as one", path=name)
    if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != xxh3_64_intdigest(data[: _HEADER.size]):
        raise Corrupt("the header of zone indexes fails its checksum", path=name)
    if version > FORMAT_VERSION:
        raise UnsupportedFormat(f"{name} has zone indexes of format {version}: upgrade to read it")
    if stored_size != size:
        raise Corrupt(f"a file of zone indexes has {size} bytes, not {stored_size}", path=name)
    return IndexFileHeader(zone_rows, rows, stored_size, catalogue_size, checksum)


def decode_catalogue(data: bytes, header: IndexFileHeader, name: str) -> IndexCatalogue:
    """The verified catalogue: its sections are inside the file."""
    if xxh3_64_intdigest(data) != header.catalogue_checksum:
        raise Corrupt("the catalogue of zone indexes fails its checksum", path=name, offset=56)
    try:
        catalogue: IndexCatalogue = _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        reason = f"the catalogue of zone indexes cannot be read ({error})"
        raise Corrupt(reason, path=name, offset=56) from error
    for entry in catalogue.entries:
        if entry.offset + entry.size > header.size:
            raise Corrupt("a zone index is after the end", path=name, offset=entry.offset)
    return catalogue


def check_section(data: bytes, entry: IndexEntry, name: str) -> None:
    if len(data) != entry.size or xxh3_64_intdigest(data) != entry.checksum:
        what = f"the {entry.kind} index of field {entry.field!r}"
        raise Corrupt(f"{what} fails its checksum", path=name, offset=entry.offset)


def _first_offset(catalogue_size: int) -> int:
    end = HEADER_SIZE + catalogue_size
    return end + -end % 8


def _catalogue(
    sections: Sequence[IndexSection], types: dict[str, str], origin: RowsOrigin | None
) -> bytes:
    """The catalogue. It has the offsets of sections, which depend on its own size: the first guess
    is too small, and the second fits unless an offset grows by a byte."""
    size, data = 0, b""
    while len(data) != size or not data:
        size = len(data)
        entries = _entries(sections, _first_offset(size))
        data = msgspec.msgpack.encode((types, entries, *([origin] if origin else [])))
    return data


def _entries(sections: Sequence[IndexSection], offset: int) -> tuple[IndexEntry, ...]:
    entries = []
    for section in sections:
        checksum = xxh3_64_intdigest(section.data)
        entries.append(IndexEntry(section.field, section.kind, offset, len(section.data), checksum))
        offset += len(section.data) + -len(section.data) % 8
    return tuple(entries)
