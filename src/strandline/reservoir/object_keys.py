"""Keys of a reservoir's objects. Pure.

    <stream version>/checkpoints/<version, 20 digits>    a checkpoint; a bundle is one with pages
    <stream version>/data/<file id, 16 hex digits>       a data file
    versions/<stream version>/<opened, 20 digits>        when a stream version was opened

Each version has one key, whatever kind of checkpoint it is: creating it fails if it exists, and so
decides between two writers. The keys below are without the stream version.

A file's id contains its location. Bit 63 marks the page part of the checkpoint whose version is in
the other bits. Otherwise the upper half is the term of the writer (the version with which its
opening began), the lower half a count: no two writers use the same id.
"""

from __future__ import annotations

CHECKPOINTS = "checkpoints"
DATA = "data"
VERSIONS = "versions"

BUNDLE = 1 << 63
VERSION_MAX = (1 << 31) - 1
"""Versions are terms, and those must fit into half a file id, without its first bit."""


def checkpoint_key(version: int) -> str:
    return f"{CHECKPOINTS}/{version:020d}"


def file_key(file_id: int) -> str:
    """The key of the object that holds a file, as its first bytes."""
    if is_bundle(file_id):
        return checkpoint_key(bundle_version(file_id))
    return f"{DATA}/{file_id:016x}"


def version_of(key: str) -> int | None:
    """The version in a checkpoint's key, None for another key."""
    folder, _, name = key.partition("/")
    is_one = folder == CHECKPOINTS and len(name) == 20 and name.isdecimal() and name.isascii()
    return int(name) if is_one and 0 < int(name) <= VERSION_MAX else None


def file_of(key: str) -> int | None:
    """The id in a data file's key, None for another key."""
    folder, _, name = key.partition("/")
    if folder != DATA or len(name) != 16 or set(name) - set("0123456789abcdef"):
        return None
    file_id = int(name, 16)
    return file_id if 0 < file_id < BUNDLE else None


def data_file_id(term: int, number: int) -> int:
    assert 0 < term <= VERSION_MAX
    assert 0 <= number < 1 << 32
    return term << 32 | number


def origin_of(file_id: int) -> int:
    """A version not newer than the file: its writer's term, or the version of a bundle."""
    return bundle_version(file_id) if is_bundle(file_id) else file_id >> 32


def bundle_id(version: int) -> int:
    return BUNDLE | version


def is_bundle(file_id: int) -> bool:
    return file_id >= BUNDLE


def bundle_version(file_id: int) -> int:
    return file_id ^ BUNDLE
