"""Promise: the state of a queue is a function of its records, and of nothing else.

Not of the order in which the two topics are folded, nor of where a saved state was taken up again,
nor of how many old records of leases and of ended jobs are still in the log behind a survey.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.config.memory_budget import MemoryShare
from strandline.errors import Corrupt
from strandline.views.queue import codec
from strandline.views.queue.codec import (
    ACKED,
    BURY,
    CLAIM,
    DEAD,
    END,
    EXPIRED,
    EXTEND,
    NACK,
    NO_SEQS,
    PAUSE,
    SURVEY,
    LeaseRecord,
    StoredJobOptions,
)
from strandline.views.queue.fold import JOBS, LEASES, QueueFold
from strandline.views.queue.state import lease_snapshot
from strandline.views.queue.state.lease_snapshot import SurveyRange
from tests.unit.reservoir.map_pages import MemoryPages
from tests.unit.views.queue.folds import SPACE, Entry, apply, job, make_fold, reloaded, word

STEPS = st.sampled_from([1, 1, 1, 2, 700, 5000, 20_000])
"""From one job's seq to the next: holes make chunks, and few jobs in a chunk."""
ACTIONS = st.sampled_from(
    ["put", "put", "put", "claim", "claim", "ack", "nack", "extend", "bury", "expire", "pause"]
)


class Author:
    """Writes a history as a queue would: what is said of leases fits the state."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.fold = make_fold()
        self.entries: list[Entry] = []
        self.heads = [0, 0]
        self.now = 0.0

    def write(self, entry: Entry) -> None:
        self.heads[entry.source] = entry.seq
        self.entries.append(entry)
        apply(self.fold, [entry])

    def say(self, kind: int, seqs: np.ndarray, number: int = 0, text: bytes = b"") -> None:
        said = codec.encode_lease_record(LeaseRecord(kind, seqs, number, text))
        self.write(Entry(LEASES, self.heads[LEASES] + 1, said))

    def act(self) -> None:
        action = self.draw(ACTIONS)
        if action == "put":
            self.put()
        elif action == "pause":
            self.say(PAUSE, NO_SEQS, self.draw(st.integers(0, 1)))
        elif action == "claim":
            self.fold.advance_time(self.now, 10**6)
            chosen = self.fold.jobs.table.select(self.draw(st.integers(1, 4)))
            worker = self.draw(st.sampled_from([b"w", b"v"]))
            self.say(CLAIM, chosen, self.draw(st.integers(1, 9)) * 1000, worker)
        elif action == "expire":
            self.say(END, self.some(codec_states=(2, 3, 6, 7)), EXPIRED)
        else:
            self.settle(action)

    def settle(self, action: str) -> None:
        if action == "bury":
            if self.fold.burial is None:
                self.say(BURY, self.some(codec_states=(3, 6, 7)), 1)
            else:
                self.say(END, self.fold.burial.seqs, DEAD)
            return
        held = self.some(codec_states=(5, 7))
        if action == "ack":
            self.say(END, held, ACKED)
        elif action == "nack":
            self.say(NACK, held, self.draw(st.sampled_from([0, 10**6, 10**7])))
        else:
            self.say(EXTEND, held, 5000, b"x")

    def put(self) -> None:
        keyed = self.draw(st.booleans())
        said = StoredJobOptions(
            priority=self.draw(st.sampled_from([1, 100])),
            not_before=self.draw(st.sampled_from([0, 0, 10**6, 10**7])),
            expires=self.draw(st.sampled_from([0, 0, 10**8])),
            unique=keyed,
            group=self.draw(st.sampled_from([b"", b"", b"g", b"h"])),
        )
        seq = self.heads[JOBS] + self.draw(STEPS)
        key = b"%d" % seq if keyed else None
        self.write(Entry(JOBS, seq, b"", key, codec.encode_job(said)))

    def some(self, codec_states: tuple[int, ...]) -> np.ndarray:
        """Up to three jobs that are in one of these states."""
        found = [
            int(seq)
            for chunk in self.fold.jobs.table.chunks.values()
            for seq in chunk.seqs(np.isin(chunk.state, codec_states).nonzero()[0])
        ]
        places = self.draw(st.lists(st.integers(0, 7), max_size=3))
        chosen = sorted({found[place % len(found)] for place in places}) if found else []
        return np.array(chosen, dtype=np.int64)

    def state(self, begin: int, first: int, end: int) -> tuple[int, int]:
        """Append one record of a survey; its seq, and where the next one begins."""
        fold = self.fold
        if self.draw(st.booleans()):
            self.now += 5  # some leases run out
            fold.advance_time(self.now, 10**6)
        span = SurveyRange(begin, first, end)
        said = lease_snapshot.survey_record(fold.jobs.table, fold.jobs.leases, span, rows_max=2)
        if not begin:
            number, seqs = fold.burial or (0, NO_SEQS)
            said = lease_snapshot.first_record(said, paused=fold.paused, burial=number, buried=seqs)
        self.say(SURVEY, NO_SEQS, 0, lease_snapshot.encode(said))
        return self.heads[LEASES], said.following


def history(draw, steps: int) -> Author:
    author = Author(draw)
    for _ in range(draw(st.integers(0, steps))):
        author.act()
    return author


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_order_of_the_two_topics_does_not_matter(data):
    author = history(data.draw, 40)
    jobs = [entry for entry in author.entries if entry.source == JOBS]
    leases = [entry for entry in author.entries if entry.source == LEASES]

    replayed = apply(make_fold(), [*jobs, *leases])

    assert replayed.digest() == author.fold.digest()
    assert _next(replayed) == _next(author.fold)
    assert replayed.burial is None or replayed.burial.number == author.fold.burial.number


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_saved_state_and_the_rest_of_the_records_give_the_same(data):
    author = history(data.draw, 40)
    cut = data.draw(st.integers(0, len(author.entries)))
    cut_again = data.draw(st.integers(cut, len(author.entries)))
    pages = MemoryPages()
    fold = apply(make_fold(), author.entries[:cut])
    fold = reloaded(fold, pages)
    apply(fold, author.entries[cut:cut_again])

    fold = reloaded(fold, pages)
    rest = author.entries[cut_again:]
    apply(fold, [entry for entry in rest if entry.source == JOBS])
    apply(fold, [entry for entry in rest if entry.source == LEASES])

    assert fold.digest() == author.fold.digest()
    assert _next(fold) == _next(author.fold)
    assert fold.heads == author.fold.heads
    assert fold.paused == author.fold.paused


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_is_left_from_a_survey_on_gives_the_same(data):
    author = history(data.draw, 30)
    ended = author.fold.jobs.ended.copy()
    end = author.heads[JOBS] + 1
    begin, first = author.state(0, 1, end)
    while first < end:
        for _ in range(data.draw(st.integers(0, 2))):
            author.act()
        _, first = author.state(begin, first, end)
    for _ in range(data.draw(st.integers(0, 5))):
        author.act()
    kept_from = data.draw(st.integers(1, begin))
    gone = {seq for seq in ended if data.draw(st.booleans())}

    left = [
        entry
        for entry in author.entries
        if (entry.source == LEASES and entry.seq >= kept_from)
        or (entry.source == JOBS and entry.seq not in gone)
    ]
    replayed = make_fold()
    apply(replayed, [entry for entry in left if entry.source == JOBS])
    apply(replayed, [entry for entry in left if entry.source == LEASES])

    assert author.fold.survey_begin == replayed.survey_begin == begin
    assert replayed.digest() == author.fold.digest()
    assert _next(replayed) == _next(author.fold)
    assert (replayed.burial is None) == (author.fold.burial is None)
    assert _holders(replayed) == _holders(author.fold)


def _next(fold: QueueFold) -> list[int]:
    """What would be claimed when all delays and leases are over."""
    fold.advance_time(10**9, 10**15)  # leases that are new to it begin here
    fold.advance_time(2 * 10**9, 10**15)
    return fold.jobs.table.select(1000).tolist()


def _holders(fold: QueueFold) -> dict[bytes, list[int]]:
    return {worker: fold.jobs.held_by(worker).tolist() for worker in (b"w", b"v", b"x")}


def test_records_that_are_no_words_about_leases_are_passed_over():
    fold = apply(make_fold(), [job(1)])
    before = fold.digest()

    foreign = [b"", b"hello", b"\0ls", b"\0ls\x09abc", b"\0ls\x01abc", b"\0ls\x07abc"]
    apply(fold, [Entry(LEASES, seq, data) for seq, data in enumerate(foreign, start=1)])

    assert fold.digest() == before


def test_a_claim_of_a_job_that_is_not_there_says_nothing():
    fold = apply(make_fold(), [job(1)])
    before = fold.digest()

    apply(fold, [word(1, CLAIM, [7, 100_000], 1000), word(2, END, [8]), word(3, NACK, [1])])

    assert fold.digest() == before
    assert fold.jobs.table.select(10).tolist() == [1]


def test_only_changed_chunks_are_saved():
    pages = MemoryPages()
    fold = apply(make_fold(), [job(seq) for seq in range(1, 50_001)])
    reloaded(fold, pages)
    pages.calls.clear()

    apply(fold, [word(1, CLAIM, [20_000], 1000)])
    reloaded(fold, pages)

    assert pages.calls["write"] == 2  # the chunk, and the page of the rest


def test_a_chunk_whose_jobs_have_ended_leaves_memory_and_pages():
    pages, share = MemoryPages(), MemoryShare(1 << 30)
    fold = apply(make_fold(share), [job(seq) for seq in range(1, 40_001)])
    reloaded(fold, pages)
    pages_before, used_before = len(pages.pages), share.used

    apply(fold, [word(1, END, list(range(1, 32_769)))])
    reloaded(fold, pages)

    assert len(pages.pages) == pages_before - 2
    assert share.used < used_before / 2


def test_few_old_jobs_do_not_keep_the_memory_of_all_that_came_with_them():
    share = MemoryShare(1 << 30)
    fold = apply(make_fold(share), [job(seq) for seq in range(1, 50_001)])
    full = share.used
    old = {1, 9_000, 17_000}
    before = fold.digest()

    apply(fold, [word(1, END, [seq for seq in range(1, 49_990) if seq not in old])])

    assert share.used < full / 2
    assert fold.digest() != before
    assert fold.jobs.table.select(100).tolist() == [*sorted(old), *range(49_990, 50_001)]
    assert reloaded(fold).digest() == fold.digest()


def test_the_share_is_given_back_when_a_fold_is_dropped():
    share = MemoryShare(1 << 30)
    fold = apply(make_fold(share), [job(1)])
    assert share.used > 0

    del fold

    assert share.used == 0


def test_a_page_that_is_missing_or_damaged_is_noticed():
    pages = MemoryPages()
    fold = apply(make_fold(), [job(1)])
    reloaded(fold, pages)
    chunk_page, rest_page = sorted(pages.pages)

    for page_id in (chunk_page, rest_page):
        whole = pages.pages[page_id]
        for damaged in (None, whole[:-1], b"", whole + b"x"):
            again = make_fold()
            pages.pages[page_id] = damaged
            if damaged is None:
                del pages.pages[page_id]
            with pytest.raises(Corrupt):
                again.load(pages, SPACE, fold.save(MemoryPages()))
        pages.pages[page_id] = whole
