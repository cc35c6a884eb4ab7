# Made from asynchronous/dead_letters.py by tests/house/blocking.py: change that one.
"""Lists, redrives and purges the dead letters of a queue of a server.

A filter that is a value (``views/queue/dead_letter_filter.py``) is applied by the server. Any other
function is called here with every letter, and the request has the seqs that it selected.
"""

from __future__ import annotations

from strandline.api import queues as wire
from strandline.client.blocking.endpoint import RemoteEndpoint
from strandline.client.queue_codec import filter_of, letter_of
from strandline.errors import Invalid
from strandline.log.topic.validation import check_whole
from strandline.views.queue.dead_letter_codec import DeadLetter, DeadLetterPredicate
from strandline.views.queue.dead_letters import RedriveResult

_BATCH_SIZE = 1000


class RemoteDeadLetters:
    """The dead letters of a queue. Safe from many threads."""

    def __init__(self, endpoint: RemoteEndpoint) -> None:
        self._endpoint = endpoint
        self._letters = endpoint.below("dead")

    def count(self) -> int:
        """The number of dead letters."""
        return (self._endpoint.get("", wire.QueueState)).dead

    def letters(self, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters after a seq, oldest first."""
        check_whole(after=after, limit=limit)
        if after < 0 or limit < 1:
            raise Invalid("after is 0 or a seq, limit is at least 1")
        letters: list[DeadLetter] = []
        while len(letters) < limit:
            count = min(_BATCH_SIZE, limit - len(letters))
            query = {"after": str(after), "limit": str(count)}
            page = self._letters.get("", wire.DeadLettersResponse, query)
            letters += [letter_of(each) for each in page.letters]
            after = page.next_after
            if not after:
                break
        return letters

    def redrive(
        self,
        where: DeadLetterPredicate | None = None,
        *,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> RedriveResult:
        """Put dead letters back into the queue: all, or those that ``where`` selects.

        At most ``limit`` are put back. Payload, key, tag, group and priority stay; deliveries start
        again at 0; delay and ttl are dropped.
        """
        if limit is not None:
            check_whole(limit=limit)
            if limit < 1:
                raise Invalid(f"limit is at least 1, not {limit}")
        selected = self._filter(where, limit)
        body = wire.RedriveRequest(where=selected, limit=limit, dry_run=dry_run)
        response = self._letters.post("redrive", body, wire.RedriveResponse)
        return RedriveResult(
            matched=response.matched, redriven=response.redriven, kept=tuple(response.kept)
        )

    def purge(self, where: DeadLetterPredicate | None = None, *, dry_run: bool = False) -> int:
        """Delete dead letters: all, or those that ``where`` selects; return their number."""
        body = wire.PurgeDeadLettersRequest(where=self._filter(where, None), dry_run=dry_run)
        return (self._letters.post("purge", body, wire.PurgeResponse)).purged

    def _filter(
        self, where: DeadLetterPredicate | None, limit: int | None
    ) -> wire.DeadLetterSelection:
        selected = filter_of(where)
        if selected is not None:
            return selected
        assert where is not None, "None selects all, which filter_of handles"
        seqs: list[int] = []
        after = 0
        while limit is None or len(seqs) < limit:
            letters = self.letters(after=after, limit=_BATCH_SIZE)
            seqs += [letter.seq for letter in letters if where(letter)]
            if len(letters) < _BATCH_SIZE:
                break
            after = letters[-1].seq
        return wire.DeadLetterSelection(seqs=seqs)
