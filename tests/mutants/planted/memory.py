"""Mutants of the memory budget: who gives memory back, and when."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Force, Remove, Replace, Rewrite, Set, Unwrap, Use

_JOBS = "unit/store/test_jobs"
_SHARES = "unit/config/test_shares"
_THREADS = "unit/platform/test_thread_pool"


MEMORY = {
    "end a job for one failed allocation": Mutant(
        "platform.background_jobs:BackgroundJob._run_step",
        Replace(
            "ExceptHandler 2",
            "except _ as _: (2 of 3)",
            "Name 1",
            "(OSError, {name 1})",
            names=("errors:StrandlineError",),
        ),
        _JOBS,
        "test_a_failure_of_the_world_is_tried_again_after_growing_pauses[error2]",
    ),
    "run out of memory in health": Mutant(
        "log.health:health_of",
        Replace("ExceptHandler 1", "except _ as _:", "Name 1", "KeyboardInterrupt"),
        "unit/store/test_health",
        "test_without_memory_for_complaints_health_says_so",
    ),
    "do a task twice that got no thread": Mutant(
        "platform.thread_pool:ThreadPool.try_submit",
        Set("Return 1", "return None if _() else _", "IfExp 1", None),
        _THREADS,
        "test_a_task_that_was_left_to_its_caller_is_not_done_when_a_thread_starts",
    ),
    "leave a refused opening open": Mutant(
        "store:Store.__init__",
        Replace(
            "Expr 4",
            "_()",
            "Attribute 1",
            "{AnnAssign 3: Attribute 1}.clear",
            others=("(_): _ = [] (2 of 3)",),
        ),
        "test_threads_fail",
        "test_any_thread_may_be_refused[True]",
    ),
    "count without the lock": Mutant(
        "config.memory_budget:MemoryShare.charge",
        Unwrap("With 1", "with _:"),
        _SHARES,
        "test_two_threads_that_charge_at_once_are_both_counted",
    ),
    "evict for what fits": Mutant(
        "config.memory_budget:MemoryShare._admit_under_pressure",
        Replace(
            "Expr 2",
            "_(_(0, _ - _), _=_(_ * _))",
            "Attribute 2",
            "{Name 1}.{name 1}",
            names=("config.memory_budget:MemoryShare._high_bytes",),
        ),
        _SHARES,
        "test_what_fits_into_the_share_is_admitted_and_nobody_is_asked",
    ),
    "evict without headroom": Mutant(
        "config.memory_budget:MemoryShare._admit_under_pressure",
        Set("Expr 2", "_(_(0, _ - _), _=_(_ * _))", "Call 3", 0),
        _SHARES,
        "test_what_does_not_fit_is_asked_of_evictors_with_a_tenth_of_headroom",
    ),
    "ask every evictor": Mutant(
        "config.memory_budget:MemoryShare._evict_until",
        Remove("If 2", "if _ <= 0:"),
        _SHARES,
        "test_evictors_are_asked_only_until_enough_is_free",
    ),
    "always ask the first evictor first": Mutant(
        "config.memory_budget:MemoryShare._evict_until",
        Set("Assign 2", "_ = _ % _(_)", "BinOp 1", 0),
        _SHARES,
        "test_evictors_take_turns",
    ),
    "borrow without looking at the others' loans": Mutant(
        "config.memory_budget:MemoryShare._can_borrow",
        Use("Return 1", "return _ <= 0 or _ + _ <= _", "BinOp 1", "Name 1"),
        _SHARES,
        "test_shares_borrow_from_one_reserve",
    ),
    "borrow before evicting": Mutant(
        "config.memory_budget:MemoryShare._admit_under_pressure",
        Replace(
            "Expr 2",
            "_(_(0, _ - _), _=_(_ * _))",
            "Call 1",
            "{If 2: Call 1} or {it}",
            others=("if not _(_):",),
        ),
        _SHARES,
        "test_the_reserve_lends_only_what_evictors_could_not_free",
    ),
    "retry for ever what can never fit": Mutant(
        "config.memory_budget:MemoryShare._admit_under_pressure",
        Force("If 1", "if _ > _ + _:", False),
        _SHARES,
        "test_a_request_that_can_never_fit_is_refused_for_good_and_evicts_nothing",
    ),
    "hold the lock while an evictor runs": Mutant(
        "config.memory_budget:MemoryShare._evict_until",
        Rewrite(
            "Assign 4",
            "_ = _(_(_ + _, _))",
            "with {Name 6}.{name 1}:\n    {it}",
            names=("config.memory_budget:MemoryShare._lock",),
        ),
        _SHARES,
        "test_others_are_counted_while_an_evictor_runs",
    ),
    "hang when a finalizer releases": Mutant(
        "config.memory_budget:MemoryShare.__init__",
        Replace("Assign 7", "_ = _()", "Attribute 2", "{Name 2}.Lock"),
        _SHARES,
        "test_a_finalizer_that_releases_in_the_middle_of_counting_does_not_hang",
    ),
    "take all of a log that outgrew its checkpoints at once": Mutant(
        "log.checkpoint.checkpoint_job:Checkpointer._gather",
        Force("If 2", "if _ >= _:", False),
        "unit/log/checkpoint/test_checkpoint_job",
        "test_a_log_that_outgrew_its_checkpoints_is_taken_in_parts",
    ),
    "bring nothing down ahead of need": Mutant(
        "config.memory_budget:MemoryShare.relieve",
        Use(
            "If 1", "if _ > _:", "Attribute 2", "Expr 1: Attribute 2", others=("_(_(_ * _), _=0)",)
        ),
        _SHARES,
        "test_a_share_above_the_high_mark_is_brought_down_to_the_low_one",
    ),
    "bring a full cache down": Mutant(
        "config.memory_budget:Budget.run_once",
        Force("If 1", "if _ != _:", True),
        _SHARES,
        "test_a_full_cache_is_left_alone",
    ),
    "close the files of the column that wants room": Mutant(
        "views.table.files.cache:ColumnCache._evict",
        Set("While 1", "while _ < _ and (_ or (_ and (not _))):", "UnaryOp 1", True),
        "unit/views/table/files/test_cache",
        "test_room_for_a_column_is_not_made_by_closing_the_files_of_its_table",
    ),
    "make room of one's own alone": Mutant(
        "views.table.files.cache:ColumnCache._reserve",
        Replace(
            "Return 2",
            "return _(_)",
            "Call 1",
            "{Attribute 2}.{name 2} + {Name 2} <= {Attribute 2}.{name 1}",
            names=(
                "config.memory_budget:MemoryShare.limit",
                "config.memory_budget:MemoryShare.used",
            ),
        ),
        "unit/views/table/files/test_cache",
        "test_a_table_that_is_in_use_takes_the_room_of_one_that_is_not",
    ),
}
