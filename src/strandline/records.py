"""The values of the public interface: a record, the result of an append, a tombstone.

Sizes are checked when a batch is built (``log/append/batch.py``); the rule for names is here.
"""

from __future__ import annotations

import re

import msgspec

from strandline.errors import Invalid

INTERNAL = "strandline."
"""The prefix of the names of topics that the store creates for itself."""

KEY, TAG, NODE, META = 1, 2, 4, 8
"""The bits that name the optional fields in blocks of records and columns of files."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}")


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of a topic."""

    seq: int
    ts: int
    data: bytes
    key: bytes | None = None
    tag: str | None = None
    node: str | None = None
    meta: bytes | None = None


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """The seqs of an appended batch. ``deduped``: an earlier append with the same key wrote it."""

    first_seq: int
    last_seq: int
    head_seq: int
    deduped: bool = False


class BatchNumber(msgspec.Struct, frozen=True, gc=False):
    """A value of ``idempotency_key``: the number that a producer gives to a batch.

    A topic accepts a number once, however much later it is repeated, and only in rising order.
    """

    producer: str
    number: int


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Reports a gap: records that are lost to the reader. A gap is never skipped silently.

    Reasons: ``cap`` and ``ttl`` (retention), ``mixed`` (both), ``lost`` (a crash lost an unsynced
    tail), ``damaged`` (a repair gave up a range), ``recreated`` (the cursor is above the head),
    ``source_trim`` (removed from the source before a router forwarded them).
    """

    gap_from: int
    gap_to: int
    reason: str

    @property
    def missed(self) -> int:
        """The number of seqs in the gap: an upper bound of the records that were lost."""
        return self.gap_to - self.gap_from + 1


def check_topic_name(name: str) -> str:
    """Return the name if it is a valid topic name; raise Invalid otherwise."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot name a topic: use 1 to 255 of A-Z a-z 0-9 . _ : - and begin with a "
            "letter or digit"
        )
    return name
