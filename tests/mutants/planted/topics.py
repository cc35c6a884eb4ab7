"""Mutants of topics: deletes, roots, checkpoints and the opening of a store."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import All, Force, Leave, Remove, Replace, Rewrite, Set, Use

TOPICS = {
    "delete what nothing refers to": Mutant(
        "log.recovery.after_recovery:_quarantine",
        Replace(
            "Expr 2",
            "_(_, f(_, _, _))",
            "Call 1",
            "{Name 1}.{name 1}({Name 2})",
            names=("platform.disk:Disk.remove",),
        ),
        "test_damage",
        "test_a_segment_that_nothing_refers_to_is_set_aside_not_deleted",
    ),
    "clean up although a root is damaged": Mutant(
        "log.recovery.after_recovery:quarantine_orphans",
        All(Remove("Expr 2", "_(_(_))"), Leave("Return 2", "return (2 of 2)", "continue")),
        "test_damage",
        "test_nothing_is_set_aside_when_either_root_is_damaged[0]",
    ),
    "use the seqs of a lost tail again": Mutant(
        "log.recovery.after_recovery:may_have_lost",
        Set("Return 4", "return _ == '' or not _", "BoolOp 1", False),
        "test_lost_tails",
        "test_a_power_loss_right_after_a_clean_close_and_one_append_is_reported[disk]",
    ),
    "give seqs out before they are reserved": Mutant(
        "log.append.append:reserve",
        Set("Return 2", "return _ if _ > _ else 0", "IfExp 1", 0),
        "test_lost_tails",
        "test_seqs_beyond_the_first_reservation_are_not_used_again[ephemeral]",
    ),
    "hide a loss from the opening after a kill": Mutant(
        "log.recovery.after_recovery:declare_lost_tails",
        Set("Assign 2", "_ = [] if _ else _", "IfExp 1", []),
        "test_lost_tails",
        "test_a_kill_while_losses_are_being_declared_does_not_hide_them[disk]",
    ),
    "take records behind the last word of a close": Mutant(
        "log.recovery.clean_close:end_shard",
        Remove("Expr 3", "_(_(''))"),
        "test_lost_tails",
        "test_an_append_during_a_close_is_refused_or_kept",
    ),
    "log a delete before the records that it deletes": Mutant(
        "log.topic.delete:RecordDeleter._carry_out",
        Remove("Expr 2", "_(_, _, _)"),
        "test_deletes_survive",
        "test_a_delete_by_seq_of_records_in_memory_survives",
    ),
    "return from a delete before it is durable": Mutant(
        "log.topic.delete:RecordDeleter._wait_durable",
        Force("If 1", "if _ == '':", False),
        "test_deletes_survive",
        "test_a_delete_in_an_fsync_topic_is_durable_when_it_returns",
    ),
    "spend a tag up to the head, whatever the bound": Mutant(
        "log.state.tag_index:TagIndex.drop",
        Force("If 1", "if _ < _:", True),
        "property/test_tag_deletes_model",
        "test_deletes_through_the_index_are_those_of_a_scan",
    ),
    "write a root with payloads by averages": Mutant(
        "log.checkpoint.checkpoint_store:CheckpointStore._capture",
        Replace(
            "Expr 1",
            "_(_, _)",
            "Call 1",
            "{Attribute 1}.{name 1}()",
            names=("log.wal.spin_lock:SpinLock.acquire",),
        ),
        "unit/log/state/test_deleted_payload",
        "test_bytes_are_exact_after_segments_are_written_again[True-kill]",
    ),
    "set a cap by bytes with payloads by averages": Mutant(
        "log.topic.alter:alter",
        Remove("Expr 3", "_(_) (2 of 4)"),
        "unit/log/state/test_deleted_payload",
        "test_a_cap_by_bytes_that_is_set_later_counts_exactly",
    ),
    "keep an index that no delete uses": Mutant(
        "log.append.append:_advance_head",
        Remove("Assign 2", "_ = None"),
        "unit/log/topic/test_tag_deletes",
        "test_an_index_that_no_delete_uses_is_dropped",
    ),
    "make an index under the lock of other topics": Mutant(
        "log.topic.delete:RecordDeleter._delete_tagged",
        Rewrite(
            "Expr 1",
            "_(_, _, _)",
            "{With 2: Attribute 1}.acquire()\n{it}\n{With 2: Attribute 1}.release()",
            others=("with _: (2 of 2)",),
        ),
        "unit/log/topic/test_tag_deletes",
        "test_an_index_is_made_without_the_locks_of_other_topics[_shared]",
    ),
    "forget the tags of what is sealed, and of what is not": Mutant(
        "log.read.tag_search:_edges",
        Set("AugAssign 1", "_ += [_(_, _), _ + 1]", "Constant 1", 2),
        "property/test_tag_deletes_model",
        "test_deletes_through_the_index_are_those_of_a_scan",
    ),
    "remove log files that the older root needs": Mutant(
        "log.checkpoint.checkpoint_store:CheckpointStore.clean",
        Use("Assign 3", "_ = _(_)", "Attribute 2", "If 4: Attribute 2", others=("if _ >= _ + _:",)),
        "test_checkpoint_crash",
        "test_a_damaged_newest_root_costs_nothing",
    ),
    "remove a shard that the older root needs": Mutant(
        "log.checkpoint.checkpoint_store:CheckpointStore.clean",
        Set("Assign 8", "_ = _(_, _(_)) >= _", "Compare 1", True),
        "test_checkpoint_crash",
        "test_a_damaged_newest_root_costs_nothing_after_shards_were_given_up",
    ),
    "scrub a segment by what is remembered of it": Mutant(
        "log.repair.scrub_job:Scrubber._check_segment",
        Use("For 1", "for _ in _(_, _(_)):", "Call 2", "Name 5"),
        "unit/log/topic/test_scrubbing",
        "test_a_segment_whose_index_alone_is_damaged_needs_no_lake",
    ),
    "give up what the lake still has": Mutant(
        "log.repair.repair_checkpoint:Rewriter.run",
        Use("Assign 10", "_ = [(_(_, _), _) for _, _ in _[_]]", "ListComp 1", "Subscript 1"),
        "corruption/test_repair_from_lake",
        "test_damaged_segments_that_the_lake_has_are_dropped_without_loss[missing-no lake]",
    ),
    "let a dead backup hold files": Mutant(
        "log.files.pins:Pins.is_held",
        Leave("Expr 1", "_(_, _)", "return True"),
        "test_backup_crash",
        "test_a_crash_of_the_store_at_any_step_of_a_backup_loses_nothing[kill]",
    ),
}
