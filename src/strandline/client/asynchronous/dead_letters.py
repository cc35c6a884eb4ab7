"""Dead letters of a queue of a server: listed, put back, thrown away.

A filter that is a value (``views/queue/dead_letter_filter.py``) is looked for by the server. Any
other function is asked here, with every letter, and the server is told the seqs that it meant.
"""

from __future__ import annotations

from strandline.api import queues as wire
from strandline.client.asynchronous.endpoint import AsyncRoute
from strandline.client.queue_codec import filter_of, letter_of
from strandline.errors import Invalid
from strandline.log.topic.validation import check_whole
from strandline.views.queue.dead_letter_codec import DeadLetter, Where
from strandline.views.queue.dead_letters import Redriven

_AT_ONCE = 1000


class AsyncDeadLetters:
    """The dead letters of a queue. Safe from many tasks of one loop."""

    def __init__(self, at: AsyncRoute) -> None:
        self._at = at
        self._letters = at.below("dead")

    async def count(self) -> int:
        """How many there are."""
        return (await self._at.get("", wire.QueueState)).dead

    async def letters(self, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters behind a seq, oldest first."""
        check_whole(after=after, limit=limit)
        if after < 0 or limit < 1:
            raise Invalid("after is 0 or a seq, limit is at least 1")
        found: list[DeadLetter] = []
        while len(found) < limit:
            count = min(_AT_ONCE, limit - len(found))
            query = {"after": str(after), "limit": str(count)}
            page = await self._letters.get("", wire.Letters, query)
            found += [letter_of(each) for each in page.letters]
            after = page.next_after
            if not after:
                break
        return found

    async def redrive(
        self, where: Where | None = None, *, limit: int | None = None, dry_run: bool = False
    ) -> Redriven:
        """Make jobs of dead letters again: all, or those that are meant, at most so many.

        Payload, key, tag, group and priority stay, deliveries begin anew, delay and ttl are gone.
        """
        if limit is not None:
            check_whole(limit=limit)
            if limit < 1:
                raise Invalid(f"limit is at least 1, not {limit}")
        meant = await self._meant(where, limit)
        asked = wire.Redrive(where=meant, limit=limit, dry_run=dry_run)
        done = await self._letters.do("redrive", asked, wire.Redriven)
        return Redriven(matched=done.matched, redriven=done.redriven, kept=tuple(done.kept))

    async def purge(self, where: Where | None = None, *, dry_run: bool = False) -> int:
        """Throw dead letters away: all, or those that are meant; how many."""
        asked = wire.Purge(where=await self._meant(where, None), dry_run=dry_run)
        return (await self._letters.do("purge", asked, wire.Purged)).purged

    async def _meant(self, where: Where | None, limit: int | None) -> wire.Meant:
        meant = filter_of(where)
        if meant is not None:
            return meant
        assert where is not None, "None means all, which the server knows"
        seqs: list[int] = []
        after = 0
        while limit is None or len(seqs) < limit:
            letters = await self.letters(after=after, limit=_AT_ONCE)
            seqs += [letter.seq for letter in letters if where(letter)]
            if len(letters) < _AT_ONCE:
                break
            after = letters[-1].seq
        return wire.Meant(seqs=seqs)
