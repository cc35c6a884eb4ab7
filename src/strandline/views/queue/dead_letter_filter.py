"""Which dead letters are meant, as a value: what a filter on the wire or in a file says. Pure."""

from __future__ import annotations

import msgspec

from strandline.views.queue.dead_letter_codec import DeadLetter, Where


class Meant(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters that are all of this; without any, all.

    ``queue.dead.redrive(Meant(tag="eu*", before_us=...).where(), dry_run=True)``
    """

    seqs: frozenset[int] | None = None
    key: bytes | None = None
    tag: str | None = None
    """With a ``*`` behind it every tag that begins so."""
    group: bytes | None = None
    contains: bytes | None = None
    """Bytes of the data."""
    reason: str | None = None
    before_us: int | None = None
    """Given up before this time."""
    after_us: int | None = None
    """Given up at or after this time."""

    def where(self) -> Where | None:
        """The same as a question to a dead letter; None for all."""
        return None if self == EVERY else self._fits

    def _fits(self, letter: DeadLetter) -> bool:
        return (
            (self.seqs is None or letter.seq in self.seqs)
            and (self.key is None or letter.key == self.key)
            and (self.tag is None or _is_tagged(letter, self.tag))
            and (self.group is None or letter.group == self.group)
            and (self.contains is None or self.contains in letter.data)
            and (self.reason is None or letter.reason == self.reason)
            and (self.before_us is None or letter.ts < self.before_us)
            and (self.after_us is None or letter.ts >= self.after_us)
        )


EVERY = Meant()


def _is_tagged(letter: DeadLetter, tag: str) -> bool:
    if tag.endswith("*"):
        return letter.tag is not None and letter.tag.startswith(tag[:-1])
    return letter.tag == tag
