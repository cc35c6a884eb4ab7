"""Dead letters: jobs that were delivered too often. Lists, redrives and purges them.

They are complete records in a plain topic of the queue, or in one that several queues share: there
the node of a letter names its queue, and only the queue's own letters are listed, redriven or
purged. A job is moved there once, despite crashes:

1. a record of leases with a number marks jobs as buried, and is made durable;
2. the letters are appended with that number, which the topic accepts once, and are made durable;
3. a record of leases ends the jobs.

After 1 without 3, the next operation repeats 2 and 3. A redrive works likewise: the jobs are
appended with the seqs of their letters; then the letters are deleted. If the deletion did not
happen, the fold still has the letters of the newest redrive, and they are deleted before any other
operation.
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
from strandline.records import BatchNumber, Record
from strandline.views.queue import dead_letter_codec
from strandline.views.queue.acks import lease_append
from strandline.views.queue.codec import (
    BURY,
    DEAD,
    END,
    LeaseRecord,
    Seqs,
    StoredJobOptions,
    encode_job,
)
from strandline.views.queue.dead_letter_codec import (
    TOO_MANY_DELIVERIES,
    DeadLetter,
    DeadLetterPredicate,
)
from strandline.views.queue.dead_letter_count import DeadLetterCount
from strandline.views.queue.fold import JOB_BYTES, JOBS, LEASES, Burial, QueueFold
from strandline.views.queue.notifier import Notifier
from strandline.views.queue.unique_keys import job_with_key
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

PRODUCER = "queue"
"""The producer of burials in the topic of dead letters of one queue."""
JOBS_AT_ONCE = 500
BYTES_AT_ONCE = 16 << 20
_JOBS_TO_MEASURE = 16


class RedriveResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a redrive, or of its dry run."""

    matched: int
    """Dead letters that the filter matched."""
    redriven: int
    """How many of them are jobs again; in a dry run how many would be."""
    kept: tuple[int, ...] = ()
    """Seqs of those that stay because another job has their unique key."""


class DeadLetters:
    """The dead letters of a queue. Safe to use from many threads."""

    def __init__(
        self, host: ViewRunner[QueueFold], topic: Callable[[], Topic], notifier: Notifier
    ) -> None:
        self._host = host
        self._clock = host.world.clock
        self._topic = topic
        self._notifier = notifier
        self._working = threading.RLock()
        self._redrive_complete = False
        """Whether the letters of the newest redrive were deleted."""
        self._node = node_of(host.topics[JOBS].identity[0]) if dead_letter_of(host) else None
        """The node of the queue's letters in a shared topic, else None."""
        self._own_letters = DeadLetterCount(self._node) if self._node else None
        self._producer = self._node or PRODUCER

    def count(self) -> int:
        """The number of dead letters of this queue."""
        topic = self._existing_topic()
        if topic is None:
            return 0
        return (
            topic.estimate().count if self._own_letters is None else self._own_letters.count(topic)
        )

    def letters(self, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters after a seq, oldest first."""
        check_whole(after=after, limit=limit)
        if after < 0 or limit < 1:
            raise Invalid("after is 0 or a seq, limit is at least 1")
        topic = self._existing_topic()
        letters: list[DeadLetter] = []
        while topic is not None and len(letters) < limit:
            page = topic.read(after, limit - len(letters), size_max=BYTES_AT_ONCE)
            letters += map(dead_letter_codec.decode, self._own(page.records))
            after = page.next
            if page.caught_up:
                break
        return letters

    def redrive(
        self,
        where: DeadLetterPredicate | None = None,
        *,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> RedriveResult:
        """Put dead letters back into the queue: all, or those that ``where`` accepts, at most
        ``limit``.

        Data, key, tag, group and priority are kept; deliveries count from 0; delay and ttl are
        dropped.
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
        self._notifier.notify()
        return RedriveResult(matched=matched, redriven=matched - len(kept), kept=tuple(kept))

    def purge(self, where: DeadLetterPredicate | None = None, *, dry_run: bool = False) -> int:
        """Delete dead letters: all, or those that ``where`` accepts; return how many."""
        purged = 0

        def delete(letters: list[DeadLetter]) -> None:
            nonlocal purged
            purged += len(letters)
            if not dry_run:
                self._topic().trim(BitMap64([letter.seq for letter in letters]))

        self._each(where, None, delete)
        return purged

    def finish(self) -> None:
        """Complete what a crash or a failure has interrupted."""
        fold = self._host.fold  # without the lock: the thread that starts a burial completes it
        if fold.burial is None and self._redrive_complete:
            return
        with self._working:
            with self._host.reading() as fold:
                burial, returned = fold.burial, fold.returned
            if burial is not None:
                self._finish_burial(burial)
            if not self._redrive_complete:
                if returned.seqs:
                    self._delete(returned.seqs)
                self._redrive_complete = True

    def bury(self, count: int) -> None:
        """Bury those of the next ``count`` jobs that were delivered too often."""
        with self._working:
            self.finish()
            number = (self._topic().last_number(self._producer) or 0) + 1

            def decision(fold: QueueFold) -> ViewAppend | None:
                seqs = self._worn_out(fold, count)
                return lease_append([LeaseRecord(BURY, seqs, number)]) if len(seqs) else None

            self._host.decide(decision)
            self.finish()

    def _worn_out(self, fold: QueueFold, count: int) -> Seqs:
        """Those of the next jobs that were delivered too often, about ``BYTES_AT_ONCE`` at most."""
        fold.advance_time(self._clock.monotonic(), self._clock.now_us())
        seqs, most = fold.jobs.table.select(count), fold.config.deliveries_max
        seqs = np.sort(seqs[fold.jobs.column("deliveries", seqs) >= most]) if most else seqs[:0]
        size, fitting = 0, 0
        while fitting < min(len(seqs), JOBS_AT_ONCE) and size < BYTES_AT_ONCE:
            some = seqs[fitting : fitting + _JOBS_TO_MEASURE].tolist()
            size += sum(len(record.data) for record in self._host.records(JOBS, some))
            fitting += len(some)
        return seqs[:fitting]

    def _finish_burial(self, burial: Burial) -> None:
        """Append the letters of a burial and end its jobs: steps 2 and 3."""
        seqs = burial.seqs.tolist()
        records = self._host.records(JOBS, seqs)
        with self._host.reading() as fold:
            counts = fold.jobs.column("deliveries", burial.seqs).tolist()
        deliveries = dict(zip(seqs, counts, strict=True))
        self._host.topics[LEASES].sync()
        if records:
            topic = self._topic()
            topic.append_many(
                [record.data for record in records],
                keys=[record.key for record in records],
                tags=[record.tag for record in records],
                nodes=[self._node] * len(records),
                metas=[
                    dead_letter_codec.encode(
                        each, deliveries[each.seq], TOO_MANY_DELIVERIES, self._host.name
                    )
                    for each in records
                ],
                idempotency_key=BatchNumber(self._producer, burial.number),
            )
            topic.sync()

        def decision(fold: QueueFold) -> ViewAppend | None:
            is_open = fold.burial is not None and fold.burial.number == burial.number
            return lease_append([LeaseRecord(END, burial.seqs, DEAD)]) if is_open else None

        self._host.decide(decision)

    def _put_back(self, letters: Sequence[DeadLetter]) -> set[int]:
        """Make jobs of letters; return the seqs of those that have to stay."""
        self._host.world.share.admit(JOB_BYTES * len(letters))
        stay: set[int] = set()

        def decision(fold: QueueFold) -> ViewAppend | None:
            nonlocal stay
            stay = self._colliding(fold, letters)
            redriven = [letter for letter in letters if letter.seq not in stay]
            return _as_jobs(redriven) if redriven else None

        self._redrive_complete = False
        if self._host.decide(decision) is not None:
            self._host.topics[JOBS].sync()
            self._delete([letter.seq for letter in letters if letter.seq not in stay])
        self._redrive_complete = True
        return stay

    def _colliding(self, fold: QueueFold, letters: Sequence[DeadLetter]) -> set[int]:
        """Letters whose unique key a job has, or a letter before them."""
        keys: set[bytes] = set()
        colliding: set[int] = set()
        for each in letters:
            if each.unique:
                key = each.key or b""
                if key in keys or job_with_key(self._host, fold, key):
                    colliding.add(each.seq)
                keys.add(key)
        return colliding

    def _each(
        self,
        where: DeadLetterPredicate | None,
        limit: int | None,
        act: Callable[[list[DeadLetter]], None],
    ) -> None:
        """Apply ``act`` to the current letters that ``where`` accepts, in batches."""
        if limit is not None:
            check_whole(limit=limit)
            if limit < 1:
                raise Invalid(f"limit is at least 1, not {limit}")
        topic, after, remaining = self._existing_topic(), 0, limit
        if topic is None:
            return
        head = topic.head_seq
        while after < head and remaining != 0:
            with self._working:  # no other thread may process the same letters
                self.finish()
                page = topic.read(after, JOBS_AT_ONCE, size_max=BYTES_AT_ONCE)
                records = self._own(page.records)
                letters = [
                    dead_letter_codec.decode(record) for record in records if record.seq <= head
                ]
                matching = [each for each in letters if where is None or where(each)][:remaining]
                if matching:
                    act(matching)
            remaining = None if remaining is None else remaining - len(matching)
            after = page.next

    def _own(self, records: Sequence[Record]) -> Sequence[Record]:
        node = self._node
        return records if node is None else [each for each in records if each.node == node]

    def _existing_topic(self) -> Topic | None:
        """The topic of dead letters; None if the store is read-only and has none."""
        try:
            return self._topic()
        except UnknownTopic:
            return None

    def _delete(self, seqs: Sequence[int]) -> None:
        topic = self._topic()
        present = topic.get_many(seqs).records
        if present:
            topic.trim(BitMap64([record.seq for record in present]))


def dead_letter_of(host: ViewRunner[QueueFold]) -> str | None:
    """The configured topic for dead letters; None for the queue's own."""
    config = host.topics[JOBS].config.views.queue
    return None if config is None else config.dead_letter


def node_of(topic_id: int) -> str:
    """The node of a queue's letters in a topic that several queues share."""
    return f"queue:{topic_id}"


def _as_jobs(letters: Sequence[DeadLetter]) -> ViewAppend:
    number = letters[0].seq
    metas = [
        encode_job(
            StoredJobOptions(
                priority=each.priority,
                unique=each.unique,
                group=each.group,
                returned=(number, each.seq),
            )
        )
        for each in letters
    ]
    return ViewAppend(
        JOBS,
        [each.data for each in letters],
        [each.key for each in letters],
        metas,
        [each.tag for each in letters],
    )
