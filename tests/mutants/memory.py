"""Mutants of the memory budget."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_JOBS = "unit/store/test_jobs"
_SHARES = "unit/memory/test_shares"
_THREADS = "unit/env/test_thread_pool"

MEMORY = {
    "end a job for one failed allocation": Mutant(
        "jobs:Job._survives",
        "except PASSING as error",
        "except (OSError, StrandlineError) as error",
        _JOBS,
        "test_a_failure_of_the_world_is_tried_again_after_growing_pauses[error2]",
    ),
    "run out of memory in health": Mutant(
        "topic.health:health_of",
        "except PASSING as error",
        "except KeyboardInterrupt as error",
        "unit/store/test_health",
        "test_without_memory_for_complaints_health_says_so",
    ),
    "do a task twice that got no thread": Mutant(
        "env.thread_pool:ThreadPool.try_submit",
        "None if future.cancel() else future",
        "None",
        _THREADS,
        "test_a_task_that_was_left_to_its_caller_is_not_done_when_a_thread_starts",
    ),
    "leave a refused opening open": Mutant(
        "store:Store.__init__",
        "self._opened.close()",
        "self._deaths.clear()",
        "test_threads_fail",
        "test_any_thread_may_be_refused[True]",
    ),
    "count without the lock": Mutant(
        "memory:Share.charge",
        "with self._counting:",
        "if True:",
        _SHARES,
        "test_two_threads_that_charge_at_once_are_both_counted",
    ),
    "evict for what fits": Mutant(
        "memory:Share._climb",
        "max(0, self.limit - size)",
        "max(0, self._calm - size)",
        _SHARES,
        "test_what_fits_into_the_share_is_admitted_and_nobody_is_asked",
    ),
    "evict without headroom": Mutant(
        "memory:Share._climb",
        "headroom=int(self.limit * HEADROOM)",
        "headroom=0",
        _SHARES,
        "test_what_does_not_fit_is_asked_of_evictors_with_a_tenth_of_headroom",
    ),
    "ask every evictor": Mutant(
        "memory:Share._evict_until",
        "if excess <= 0:\n                return",
        "pass",
        _SHARES,
        "test_evictors_are_asked_only_until_enough_is_free",
    ),
    "always ask the first evictor first": Mutant(
        "memory:Share._evict_until",
        "self._turn % len(evictors)",
        "0",
        _SHARES,
        "test_evictors_take_turns",
    ),
    "borrow without looking at the others' loans": Mutant(
        "memory:Share._can_borrow",
        "self._reserve.lent + loan",
        "loan",
        _SHARES,
        "test_shares_borrow_from_one_reserve",
    ),
    "borrow before evicting": Mutant(
        "memory:Share._climb",
        "self._evict_until(",
        "self._can_borrow(size) or self._evict_until(",
        _SHARES,
        "test_the_reserve_lends_only_what_evictors_could_not_free",
    ),
    "retry for ever what can never fit": Mutant(
        "memory:Share._climb",
        "if size > self.limit + self._reserve.limit:",
        "if False:",
        _SHARES,
        "test_a_request_that_can_never_fit_is_refused_for_good_and_evicts_nothing",
    ),
    "hold the lock while an evictor runs": Mutant(
        "memory:Share._evict_until",
        "freed = evict(min(excess + headroom, self.used))",
        "\n            with self._counting:\n"
        "                freed = evict(min(excess + headroom, self.used))",
        _SHARES,
        "test_others_are_counted_while_an_evictor_runs",
    ),
    "hang when a finalizer releases": Mutant(
        "memory:Share.__init__",
        "threading.RLock()",
        "threading.Lock()",
        _SHARES,
        "test_a_finalizer_that_releases_in_the_middle_of_counting_does_not_hang",
    ),
    "take all of a log that outgrew its checkpoints at once": Mutant(
        "topic.checkpoint:Checkpointer._gather",
        "if gatherer.size >= self._settings.checkpoint_bytes:",
        "if False:",
        "unit/topic/test_checkpoint",
        "test_a_log_that_outgrew_its_checkpoints_is_taken_in_parts",
    ),
    "bring nothing down ahead of need": Mutant(
        "memory:Share.relieve",
        "if self.used > self._calm:",
        "if self.used > self.limit:",
        _SHARES,
        "test_a_share_above_the_high_mark_is_brought_down_to_the_low_one",
    ),
    "bring a full cache down": Mutant(
        "memory:Budget.run_once",
        "if name != CACHE:",
        "if True:",
        _SHARES,
        "test_a_full_cache_is_left_alone",
    ),
    "close the files of the column that wants room": Mutant(
        "views.table.files.cache:ColumnCache._evict",
        "not self._is_asking",
        "True",
        "unit/views/table/files/test_cache",
        "test_room_for_a_column_is_not_made_by_closing_the_files_of_its_table",
    ),
    "make room of one's own alone": Mutant(
        "views.table.files.cache:ColumnCache._make_room",
        "return self._share.make_room(size)",
        "return self._share.used + size <= self._share.limit",
        "unit/views/table/files/test_cache",
        "test_a_table_that_is_in_use_takes_the_room_of_one_that_is_not",
    ),
}
