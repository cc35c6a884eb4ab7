"""Dead letters: jobs that were given out too often. Listed, put back, thrown away.

They are in a plain topic of their own, whole, or in one that several queues share: there a letter's
node says whose it is, and only those are listed, put back or thrown away. A job goes there once,
whatever happens in between:

1. a record of leases says which jobs are buried, under a number, and is made durable;
2. the letters are appended under that number, which the topic takes once, and are made durable;
3. a record of leases ends the jobs.

Whoever finds 1 without 3 does 2 and 3 again. Back into the queue likewise: the jobs are appended,
and say which letters they were; these are deleted. If that did not happen, the fold still knows the
letters of the newest such batch, and they are deleted before anything else is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from pyroaring import BitMap64

from strandline.errors import Invalid, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.log.topic.validation import check_whole
from strandline.records import Numbered, Record
from strandline.views.queue import dead_letter_codec
from strandline.views.queue.acks import said
from strandline.views.queue.codec import BURY, DEAD, END, Job, Seqs, Word, encode_job
from strandline.views.queue.dead_letter_codec import WORN_OUT, DeadLetter, Where
from strandline.views.queue.dead_letter_count import OwnLetters
from strandline.views.queue.fold import JOB_BYTES, JOBS, LEASES, Burial, QueueFold
from strandline.views.queue.notifier import Bell
from strandline.views.queue.unique_keys import taken
from strandline.views.view import Draft
from strandline.views.view_runner import Host

PRODUCER = "queue"
"""Whose numbers burials have among the dead letters."""
JOBS_AT_ONCE = 500
BYTES_AT_ONCE = 16 << 20
_JOBS_TO_MEASURE = 16


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """What a redrive did, or would do."""

    matched: int
    """Dead letters that were meant."""
    redriven: int
    """How many of them are jobs again; in a dry run how many would be."""
    kept: tuple[int, ...] = ()
    """Seqs of those that stay, because another job has their unique key."""


class DeadLetters:
    """The dead letters of a queue. Safe from many threads."""

    def __init__(self, host: Host[QueueFold], topic: Callable[[], Topic], bell: Bell) -> None:
        self._host = host
        self._clock = host.world.clock
        self._topic = topic
        self._bell = bell
        self._working = threading.RLock()
        self._tidied = False
        """Whether the letters of the newest redrive are known to be gone."""
        self._mark = mark_of(host.topics[JOBS].identity[0]) if dead_letter_of(host) else None
        """The node of its letters, where there may be others."""
        self._counted = OwnLetters(self._mark) if self._mark else None
        self._producer = self._mark or PRODUCER

    def count(self) -> int:
        """How many there are of this queue."""
        topic = self._found()
        if topic is None:
            return 0
        return topic.estimate().count if self._counted is None else self._counted.count(topic)

    def letters(self, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters behind a seq, oldest first."""
        check_whole(after=after, limit=limit)
        if after < 0 or limit < 1:
            raise Invalid("after is 0 or a seq, limit is at least 1")
        topic = self._found()
        found: list[DeadLetter] = []
        while topic is not None and len(found) < limit:
            page = topic.read(after, limit - len(found), size_max=BYTES_AT_ONCE)
            found += map(dead_letter_codec.decode, self._own(page.records))
            after = page.next
            if page.caught_up:
                break
        return found

    def redrive(
        self, where: Where | None = None, *, limit: int | None = None, dry_run: bool = False
    ) -> Redriven:
        """Make jobs of dead letters again: all, or those that are meant, at most so many.

        Payload, key, tag, group and priority stay, deliveries begin anew, delay and ttl are gone.
        """
        matched = 0
        kept: list[int] = []

        def put_back(letters: list[DeadLetter]) -> None:
            nonlocal matched
            matched += len(letters)
            if dry_run:
                with self._host.reading() as fold:
                    kept.extend(sorted(self._colliding(fold, letters)))
            else:
                kept.extend(sorted(self._put_back(letters)))

        self._each(where, limit, put_back)
        self._bell.ring()
        return Redriven(matched=matched, redriven=matched - len(kept), kept=tuple(kept))

    def purge(self, where: Where | None = None, *, dry_run: bool = False) -> int:
        """Throw dead letters away: all, or those that are meant; how many."""
        purged = 0

        def throw_away(letters: list[DeadLetter]) -> None:
            nonlocal purged
            purged += len(letters)
            if not dry_run:
                self._topic().let_go(BitMap64([found.seq for found in letters]))

        self._each(where, None, throw_away)
        return purged

    def finish(self) -> None:
        """Do what a crash or a failure has left half done."""
        fold = self._host.fold
        if fold.burial is None and self._tidied:
            return
        with self._working:
            with self._host.reading() as fold:
                burial, returned = fold.burial, fold.returned
            if burial is not None:
                self._lay_down(burial)
            if not self._tidied:
                if returned.seqs:
                    self._delete(returned.seqs)
                self._tidied = True

    def bury(self, count: int) -> None:
        """Bury those of the next jobs, so many, that were given out too often."""
        with self._working:
            self.finish()
            number = (self._topic().taken(self._producer) or 0) + 1

            def decision(fold: QueueFold) -> Draft | None:
                worn = self._worn_out(fold, count)
                return said([Word(BURY, worn, number)]) if len(worn) else None

            self._host.decide(decision)
            self.finish()

    def _worn_out(self, fold: QueueFold, count: int) -> Seqs:
        """Those of the next jobs that were given out too often, as far as their bytes allow."""
        fold.look(self._clock.monotonic(), self._clock.now_us())
        seqs, most = fold.jobs.board.select(count), fold.config.deliveries_max
        seqs = np.sort(seqs[fold.jobs.column("deliveries", seqs) >= most]) if most else seqs[:0]
        size, fitting = 0, 0
        while fitting < min(len(seqs), JOBS_AT_ONCE) and size < BYTES_AT_ONCE:
            some = seqs[fitting : fitting + _JOBS_TO_MEASURE].tolist()
            size += sum(len(record.data) for record in self._host.records(JOBS, some))
            fitting += len(some)
        return seqs[:fitting]

    def _lay_down(self, burial: Burial) -> None:
        """From the record that says so to the jobs' end."""
        seqs = burial.seqs.tolist()
        records = self._host.records(JOBS, seqs)
        with self._host.reading() as fold:
            counts = fold.jobs.column("deliveries", burial.seqs).tolist()
        deliveries = dict(zip(seqs, counts, strict=True))
        self._host.topics[LEASES].secure()
        if records:
            topic = self._topic()
            topic.append_many(
                [record.data for record in records],
                keys=[record.key for record in records],
                tags=[record.tag for record in records],
                nodes=[self._mark] * len(records),
                metas=[
                    dead_letter_codec.encode(each, deliveries[each.seq], WORN_OUT, self._host.name)
                    for each in records
                ],
                idempotency_key=Numbered(self._producer, burial.number),
            )
            topic.secure()

        def decision(fold: QueueFold) -> Draft | None:
            open_still = fold.burial is not None and fold.burial.number == burial.number
            return said([Word(END, burial.seqs, DEAD)]) if open_still else None

        self._host.decide(decision)

    def _put_back(self, letters: Sequence[DeadLetter]) -> set[int]:
        """Make jobs of letters; seqs of those that had to stay."""
        self._host.world.share.admit(JOB_BYTES * len(letters))
        stay: set[int] = set()

        def decision(fold: QueueFold) -> Draft | None:
            nonlocal stay
            stay = self._colliding(fold, letters)
            going = [found for found in letters if found.seq not in stay]
            return _as_jobs(going) if going else None

        self._tidied = False
        if self._host.decide(decision) is not None:
            self._host.topics[JOBS].secure()
            self._delete([found.seq for found in letters if found.seq not in stay])
        self._tidied = True
        return stay

    def _colliding(self, fold: QueueFold, letters: Sequence[DeadLetter]) -> set[int]:
        """Letters whose unique key another job has, or a letter before them."""
        seen: set[bytes] = set()
        found: set[int] = set()
        for each in letters:
            if each.unique:
                key = each.key or b""
                if key in seen or taken(self._host, fold, key):
                    found.add(each.seq)
                seen.add(key)
        return found

    def _each(
        self, where: Where | None, limit: int | None, act: Callable[[list[DeadLetter]], None]
    ) -> None:
        """Do something with what is meant, of what is there now, a few at a time."""
        if limit is not None:
            check_whole(limit=limit)
            if limit < 1:
                raise Invalid(f"limit is at least 1, not {limit}")
        topic, after, left = self._found(), 0, limit
        if topic is None:
            return
        head = topic.head_seq
        while after < head and left != 0:
            with self._working:  # nobody else may take the same letters meanwhile
                self.finish()
                page = topic.read(after, JOBS_AT_ONCE, size_max=BYTES_AT_ONCE)
                records = self._own(page.records)
                found = [
                    dead_letter_codec.decode(record) for record in records if record.seq <= head
                ]
                meant = [each for each in found if where is None or where(each)][:left]
                if meant:
                    act(meant)
            left = None if left is None else left - len(meant)
            after = page.next

    def _own(self, records: Sequence[Record]) -> Sequence[Record]:
        mark = self._mark
        return records if mark is None else [each for each in records if each.node == mark]

    def _found(self) -> Topic | None:
        """Their topic; None when the store is read-only and nothing ever died."""
        try:
            return self._topic()
        except UnknownTopic:
            return None

    def _delete(self, seqs: Sequence[int]) -> None:
        topic = self._topic()
        there = topic.pick(seqs).records
        if there:
            topic.let_go(BitMap64([record.seq for record in there]))


def dead_letter_of(host: Host[QueueFold]) -> str | None:
    """The topic that was named for dead letters; None for that of the queue alone."""
    config = host.topics[JOBS].config.views.queue
    return None if config is None else config.dead_letter


def mark_of(topic_id: int) -> str:
    """The node of a queue's letters in a topic that others use, too."""
    return f"queue:{topic_id}"


def _as_jobs(letters: Sequence[DeadLetter]) -> Draft:
    number = letters[0].seq
    metas = [
        encode_job(
            Job(
                priority=each.priority,
                unique=each.unique,
                group=each.group,
                returned=(number, each.seq),
            )
        )
        for each in letters
    ]
    return Draft(
        JOBS,
        [each.data for each in letters],
        [each.key for each in letters],
        metas,
        [each.tag for each in letters],
    )
