"""A dead-letter filter as a value, for requests and files. Pure."""

from __future__ import annotations

import msgspec

from strandline.views.queue.dead_letter_codec import DeadLetter, DeadLetterPredicate


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Matches dead letters that fulfil all conditions; all letters without a condition.

    ``queue.dead.redrive(DeadLetterFilter(tag="eu*", before_us=...).predicate(), dry_run=True)``
    """

    seqs: frozenset[int] | None = None
    key: bytes | None = None
    tag: str | None = None
    """A tag; with a ``*`` at its end, a prefix of tags."""
    group: bytes | None = None
    contains: bytes | None = None
    """Bytes that the data contains."""
    reason: str | None = None
    before_us: int | None = None
    """Became a dead letter before this time."""
    after_us: int | None = None
    """Became a dead letter at or after this time."""

    def predicate(self) -> DeadLetterPredicate | None:
        """The filter as a function, None for all letters."""
        return None if self == ALL_DEAD_LETTERS else self._matches

    def _matches(self, letter: DeadLetter) -> bool:
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


ALL_DEAD_LETTERS = DeadLetterFilter()


def _is_tagged(letter: DeadLetter, tag: str) -> bool:
    if tag.endswith("*"):
        return letter.tag is not None and letter.tag.startswith(tag[:-1])
    return letter.tag == tag
