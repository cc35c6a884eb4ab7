"""Mutants of the key-value view: what makes a read newest, a compaction harmless, a batch whole."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

COMPACTION = "unit/views/kv/test_compaction"
FOLD = "unit/views/kv/test_fold"
PUT = "unit/views/kv/test_put_and_get"
TRANSACTIONS = "unit/views/kv/test_transactions"
WATCH = "unit/views/kv/test_watch"
DISK = "unit/views/kv/test_disk"

KV = {
    "kv: forget markers that no saved state has seen": Mutant(
        "views.kv.compaction:Compaction._forget",
        "fold.markers(self._host.secured[0], FORGET_AT_ONCE)",
        "fold.markers(2**62, FORGET_AT_ONCE)",
        COMPACTION,
        "test_a_delete_between_two_saves_is_not_let_go_before_the_second",
    ),
    "kv: let newer records go before older ones": Mutant(
        "views.kv.compaction:Compaction._releasable",
        "islice(self._host.fold.dead, RELEASE_AT_ONCE)",
        "sorted(self._host.fold.dead)[-RELEASE_AT_ONCE:]",
        COMPACTION,
        "test_a_crash_in_a_compaction_brings_nothing_back",
    ),
    "kv: forget without waiting for the grace": Mutant(
        "views.kv.compaction:Compaction._forget",
        "if marker.ts < until_us",
        "if True",
        COMPACTION,
        "test_a_deleted_key_leaves_with_all_its_versions_after_the_grace",
    ),
    "kv: lose what is dead at a restart": Mutant(
        "views.kv.fold:KvFold.save",
        'self.dead.serialize() if self.dead else b""',
        'b""',
        COMPACTION,
        "test_what_is_dead_is_let_go_after_a_restart",
    ),
    "kv: go on from a state that lacks a forgotten delete": Mutant(
        "views.kv.fold:KvFold._forget",
        "self._base < through",
        "False",
        COMPACTION,
        "test_a_state_from_before_the_forgotten_keys_is_refused",
    ),
    "kv: a forgotten key is known to the rest of its batch": Mutant(
        "views.kv.fold:KvFold.apply",
        "known = {}  # it may have gone",
        "pass",
        FOLD,
        "test_a_key_forgotten_and_put_in_one_piece_begins_anew",
    ),
    "kv: what was known of a changed key stays known": Mutant(
        "views.kv.fold:KvFold.apply",
        "hot, known = self.hot, {}",
        "hot = self.hot",
        FOLD,
        "test_it_does_not_matter_how_records_are_cut_into_pieces",
    ),
    "kv: an old end stays on the agenda": Mutant(
        "views.kv.fold:KvFold._put",
        "self._agenda.remove(before)",
        "pass",
        COMPACTION,
        "test_a_key_with_a_newer_end_does_not_expire_by_an_older_one",
    ),
    "kv: drop hot keys without putting them into the maps": Mutant(
        "views.kv.fold:KvFold._turn",
        "        self.flush()\n",
        "",
        FOLD,
        "test_shrinking_gives_memory_back_and_loses_nothing",
    ),
    "kv: a key comes back and stays among the deleted": Mutant(
        "views.kv.fold:_move",
        "if len(source):",
        "if False:",
        FOLD,
        "test_what_was_saved_goes_on_as_if_nothing_had_been",
    ),
    "kv: read what is at hand without looking at the log": Mutant(
        "views.kv.kv:Kv.get",
        "host.applied[0] == self._topic.head_seq",
        "True",
        PUT,
        "test_a_plain_append_is_seen_over_a_key_at_hand",
    ),
    "kv: keys at hand do not end": Mutant(
        "views.kv.kv:Kv.get",
        "slot.expires_us and slot.expires_us <= self._now_us()",
        "False",
        "unit/views/kv/test_expiry",
        "test_a_key_is_there_until_its_time_is_over",
    ),
    "kv: commit without looking at what was read": Mutant(
        "views.kv.transaction:commit",
        "for key, version in seen.items():",
        "for key, version in ():",
        TRANSACTIONS,
        "test_a_key_that_changed_after_it_was_read_is_a_conflict",
    ),
    "kv: a transaction does not read its own writes": Mutant(
        "views.kv.changes:Changes.now",
        "own = self.writes.get(key)",
        "own = None",
        TRANSACTIONS,
        "test_a_transaction_reads_its_own_writes_and_nobody_else_does",
    ),
    "kv: a watcher does not hear that it missed a delete": Mutant(
        "views.kv.watch:Watcher.__init__",
        "0 < after < self._floor",
        "False",
        WATCH,
        "test_who_would_miss_that_a_key_is_gone_is_told",
    ),
    "kv: a watcher that fell behind goes on": Mutant(
        "views.kv.watch:Watcher.look",
        "forgotten > max(self._floor, after)",
        "False",
        WATCH,
        "test_a_watcher_that_falls_behind_a_forgotten_key_is_told",
    ),
    "kv: who begins is shown what is forgotten": Mutant(
        "views.kv.watch:_is_known",
        "record.seq > floor or fold.find(record.key) is not None",
        "True",
        WATCH,
        "test_who_begins_is_not_shown_a_forgotten_key_whose_records_are_still_there",
    ),
    "kv: leave empty files in the lake": Mutant(
        "views.kv.compaction:Compaction._release",
        "if total:",
        "if False:",
        DISK,
        "test_what_was_overwritten_leaves_no_trace_in_the_lake",
    ),
    "kv: old versions stay": Mutant(
        "views.kv.fold:KvFold._slot",
        "self._dying += older[:cut]",
        "pass",
        DISK,
        "test_overwriting_again_and_again_does_not_fill_the_disk",
    ),
}
