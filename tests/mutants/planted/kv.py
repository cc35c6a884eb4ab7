"""Mutants of key-value topics: versions, markers of deletes, watchers, compaction."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Force, Remove, Replace, Rewrite, Set

COMPACTION = "unit/views/kv/test_compaction"
FOLD = "unit/views/kv/test_fold"
PUT = "unit/views/kv/test_put_and_get"
TRANSACTIONS = "unit/views/kv/test_transactions"
WATCH = "unit/views/kv/test_watch"
DISK = "unit/views/kv/test_disk"


KV = {
    "kv: forget markers that no saved state has seen": Mutant(
        "views.kv.compaction:Compaction._forget",
        Replace("Assign 3", "_ = _(_[0], _)", "Subscript 1", "2 ** 62"),
        COMPACTION,
        "test_a_delete_between_two_saves_is_not_let_go_before_the_second",
    ),
    "kv: let newer records go before older ones": Mutant(
        "views.kv.compaction:Compaction._releasable",
        Replace("Assign 2", "_ = _(_, _)", "Call 1", "sorted({Attribute 1})[-{Name 4}:]"),
        COMPACTION,
        "test_a_crash_in_a_compaction_brings_nothing_back",
    ),
    "kv: forget without waiting for the grace": Mutant(
        "views.kv.compaction:Compaction._forget",
        Set("Assign 4", "_ = [_ for _ in _ if _ < _]", "Compare 1", True),
        COMPACTION,
        "test_a_deleted_key_leaves_with_all_its_versions_after_the_grace",
    ),
    "kv: lose what is dead at a restart": Mutant(
        "views.kv.fold:KvFold.save",
        Set("Assign 2", "_ = _() if _ else b''", "IfExp 1", b""),
        COMPACTION,
        "test_what_is_dead_is_let_go_after_a_restart",
    ),
    "kv: go on from a state that lacks a forgotten delete": Mutant(
        "views.kv.fold:KvFold._forget",
        Set("If 1", "if _ is not None and _ < _:", "Compare 2", False),
        COMPACTION,
        "test_a_state_from_before_the_forgotten_keys_is_refused",
    ),
    "kv: a forgotten key is known to the rest of its batch": Mutant(
        "views.kv.fold:KvFold.apply",
        Remove("Assign 4", "_ = {}"),
        FOLD,
        "test_a_key_forgotten_and_put_in_one_piece_begins_anew",
    ),
    "kv: what was known of a changed key stays known": Mutant(
        "views.kv.fold:KvFold.apply",
        Rewrite("Assign 6", "_, _ = (_, {})", "{Assign 2}", others=("_ = _",)),
        FOLD,
        "test_it_does_not_matter_how_records_are_cut_into_pieces",
    ),
    "kv: an old end stays on the agenda": Mutant(
        "views.kv.fold:KvFold._put",
        Remove("Expr 1", "_(_) (1 of 2)"),
        COMPACTION,
        "test_a_key_with_a_newer_end_does_not_expire_by_an_older_one",
    ),
    "kv: drop hot keys without putting them into the maps": Mutant(
        "views.kv.fold:KvFold._drop_warm",
        Remove("Expr 1", "_() (1 of 3)"),
        FOLD,
        "test_shrinking_gives_memory_back_and_loses_nothing",
    ),
    "kv: a key comes back and stays among the deleted": Mutant(
        "views.kv.fold:_move",
        Force("If 1", "if _(_):", False),
        FOLD,
        "test_what_was_saved_goes_on_as_if_nothing_had_been",
    ),
    "kv: read what is at hand without looking at the log": Mutant(
        "views.kv.kv:Kv.get",
        Force("If 2", "if _[0] == _:", True),
        PUT,
        "test_a_plain_append_is_seen_over_a_key_at_hand",
    ),
    "kv: keys at hand do not end": Mutant(
        "views.kv.kv:Kv.get",
        Force("If 4", "if _ and _ <= _():", False),
        "unit/views/kv/test_expiry",
        "test_a_key_is_there_until_its_time_is_over",
    ),
    "kv: commit without looking at what was read": Mutant(
        "views.kv.transaction:commit",
        Set("For 1", "for _, _ in _():", "Call 1", ()),
        TRANSACTIONS,
        "test_a_key_that_changed_after_it_was_read_is_a_conflict",
    ),
    "kv: a transaction does not read its own writes": Mutant(
        "views.kv.pending_writes:PendingWrites.now",
        Set("Assign 1", "_ = _(_)", "Call 1", None),
        TRANSACTIONS,
        "test_a_transaction_reads_its_own_writes_and_nobody_else_does",
    ),
    "kv: a watcher does not hear that it missed a delete": Mutant(
        "views.kv.watch:Watcher.__init__",
        Force("If 1", "if 0 < _ < _:", False),
        WATCH,
        "test_who_would_miss_that_a_key_is_gone_is_told",
    ),
    "kv: a watcher that fell behind goes on": Mutant(
        "views.kv.watch:Watcher.read_changes",
        Force("If 3", "if _ > _(_, _):", False),
        WATCH,
        "test_a_watcher_that_falls_behind_a_forgotten_key_is_told",
    ),
    "kv: who begins is shown what is forgotten": Mutant(
        "views.kv.watch:_is_known",
        Set("Return 1", "return _ > _ or _(_) is not None", "BoolOp 1", True),
        WATCH,
        "test_who_begins_is_not_shown_a_forgotten_key_whose_records_are_still_there",
    ),
    "kv: leave empty files in the lake": Mutant(
        "views.kv.compaction:Compaction._release",
        Force("If 1", "if _:", False),
        DISK,
        "test_what_was_overwritten_leaves_no_trace_in_the_lake",
    ),
    "kv: old versions stay": Mutant(
        "views.kv.fold:KvFold._slot",
        Remove("AugAssign 1", "_ += _[:_]"),
        DISK,
        "test_overwriting_again_and_again_does_not_fill_the_disk",
    ),
}
