"""The owner of a lake, and the terms that fence its writers.

``store.json`` names the store and is written once. An opening takes a term by creating the next
number in ``terms/``: of two writers, one succeeds. Numbers have no holes and are never deleted, so
the holder of a term is the newest while the next number does not exist; no listing is needed for
this check. A writer that finds a higher term stops for good (``Fenced``).

A newer term may appear between a writer's check and its commit. That is harmless: the next commit
finds that commit, and builds on it or fails (``manifest_commit.py``); a newer term only decides
which writer must stop.
"""

from __future__ import annotations

import msgspec
from xxhash import xxh3_64_hexdigest

from strandline.errors import Corrupt, Fenced, Invalid, NotFound, ObjectExists, UnsupportedFormat
from strandline.lake import object_keys
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects

FORMAT = 1


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``store.json``: one line of JSON."""

    format: int
    store_id: str
    created_us: int
    checksum: str
    """xxh3-64 of the line in which this is empty."""


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an object in ``terms/``: for people, and for a writer to recognize its own."""

    store_id: str
    term: int
    opened_us: int
    attempt: str
    checksum: str
    """xxh3-64 of the line in which this is empty."""


def claim_lake(objects: Objects, store_id: bytes, clock: Clock) -> None:
    """Take ownership of a lake without an owner; reject another store's."""
    owner = identity_of(objects)
    if owner is None:
        own = Identity(
            format=FORMAT, store_id=store_id.hex(), created_us=clock.now_us(), checksum=""
        )
        body = msgspec.json.encode(msgspec.structs.replace(own, checksum=_checksum(own)))
        try:
            objects.create(object_keys.STORE, body)
        except ObjectExists:
            owner = identity_of(objects)
        else:
            return
    if owner != store_id:
        other = owner.hex() if owner is not None else "another store"
        raise Invalid(
            f"{objects.name} is the lake of store {other}, and this is store {store_id.hex()}: "
            "give this store a lake of its own (lake.url)"
        )


def foreign_lake_reason(owner: bytes, own: bytes) -> str:
    """The reason of a Corrupt for an object in the lake of another store."""
    return (
        f"another store's lake (of store {owner.hex()}, and this is store {own.hex()}: set "
        "lake.url to this store's own)"
    )


def identity_of(objects: Objects) -> bytes | None:
    """The id of the store that the lake belongs to, None when there is no lake."""
    identity = read_identity(objects)
    return None if identity is None else bytes.fromhex(identity.store_id)


def read_identity(objects: Objects) -> Identity | None:
    """The content of ``store.json``, None when there is no lake."""
    try:
        data = objects.get(object_keys.STORE)
    except NotFound:
        return None
    return decode_identity(data, objects.name)


def decode_identity(data: bytes, lake: str) -> Identity:
    """Decode ``store.json``; Corrupt when it is not as it was written."""
    try:
        identity = msgspec.json.decode(data, type=Identity)
        bytes.fromhex(identity.store_id)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Corrupt(
            f"the lake's identity cannot be read ({error})", path=object_keys.STORE
        ) from error
    if identity.checksum != _checksum(identity) or msgspec.json.encode(identity) != data:
        raise Corrupt("the lake's identity fails its checksum", path=object_keys.STORE)
    if identity.format != FORMAT:
        raise UnsupportedFormat(f"{lake} has lake format {identity.format}: upgrade to read it")
    return identity


def decode_term(data: bytes, key: str, store_id: bytes) -> None:
    """Raise Corrupt when an object in ``terms/`` is not as it was written."""
    try:
        term = msgspec.json.decode(data, type=Term)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"a term cannot be read ({error})", path=key) from error
    if term.checksum != _checksum(term) or msgspec.json.encode(term) != data:
        raise Corrupt("a term fails its checksum", path=key)
    if (object_keys.term_key(term.term), term.store_id) != (key, store_id.hex()):
        raise Corrupt("a term is not the one that belongs here", path=key)


def open_term(objects: Objects, store_id: bytes, clock: Clock, *, attempt: bytes) -> int:
    """Take a new term, higher than every other. ``attempt`` is random."""
    newest = 0
    while True:
        for info in objects.list(object_keys.TERMS, start_after=object_keys.term_key(newest)):
            newest = max(newest, object_keys.number_of(info.key) or 0)
        own = Term(
            store_id=store_id.hex(),
            term=newest + 1,
            opened_us=clock.now_us(),
            attempt=attempt.hex(),
            checksum="",
        )
        body = msgspec.json.encode(msgspec.structs.replace(own, checksum=_checksum(own)))
        try:
            objects.create(object_keys.term_key(own.term), body, writer=own.attempt)
        except ObjectExists:
            newest = own.term
        else:
            return own.term


def check_term(objects: Objects, term: int) -> None:
    """Raise ``Fenced`` when a newer term exists."""
    try:
        objects.head(object_keys.term_key(term + 1))
    except NotFound:
        return
    raise fenced_error(objects, term)


def fenced_error(objects: Objects, term: int) -> Fenced:
    return Fenced(f"a newer opening of this store writes to {objects.name}: term {term} is over")


def _checksum(content: Identity | Term) -> str:
    return xxh3_64_hexdigest(msgspec.json.encode(msgspec.structs.replace(content, checksum="")))
