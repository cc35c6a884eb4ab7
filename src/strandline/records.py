"""The values that cross the public face: a record, the answer to an append, a tombstone.

Names and sizes are checked where a value enters (``topic/``); here are only their rules.
"""

from __future__ import annotations

import re

import msgspec

from strandline.errors import Invalid

INTERNAL = "strandline."
"""How the names of topics begin that the store makes for itself."""

KEY, TAG, NODE, META = 1, 2, 4, 8
"""The bits by which blocks of records and columns of files name the optional fields."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}")


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fact in a topic."""

    seq: int
    ts: int
    data: bytes
    key: bytes | None = None
    tag: str | None = None
    node: str | None = None
    meta: bytes | None = None


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where a batch landed. ``deduped`` says that an earlier append with the same key did it."""

    first_seq: int
    last_seq: int
    head_seq: int
    deduped: bool = False


class Numbered(msgspec.Struct, frozen=True, gc=False):
    """Given as ``idempotency_key``: a batch that its producer has numbered.

    A topic takes a number once, however much later it comes again, and only in rising order.
    """

    producer: str
    number: int


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Records that were lost against the reader's will: never silently skipped.

    Reasons: ``cap`` and ``ttl`` (retention), ``mixed`` (both), ``lost`` (a crash took an unsynced
    tail), ``damaged`` (a repair gave a range up), ``recreated`` (the cursor is above the head),
    ``source_trim`` (gone from the source before a router forwarded them).
    """

    gap_from: int
    gap_to: int
    reason: str

    @property
    def missed(self) -> int:
        """How many seqs the gap covers: an upper bound of the records that were lost."""
        return self.gap_to - self.gap_from + 1


def check_topic_name(name: str) -> str:
    """The name itself when it may name a topic."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot name a topic: use 1 to 255 of A-Z a-z 0-9 . _ : - and begin with a "
            "letter or digit"
        )
    return name
