"""Mutants of the log: what makes a record durable, and damage visible."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import All, Drop, Force, Insert, Remove, Replace, Rewrite, Set

LOG = {
    "acknowledge before the sync": Mutant(
        "log.wal.committer:Committer._round",
        Remove("Expr 6", "_[-1]._()"),
        "test_power_loss",
        "test_records_behind_a_rotation_are_durable_when_they_are_acknowledged",
    ),
    "rotate without syncing the directory": Mutant(
        "log.wal.committer:Committer._round",
        Force("If 1", "if _: (1 of 2)", False),
        "test_power_loss",
        "test_records_behind_a_rotation_are_durable_when_they_are_acknowledged",
    ),
    "rotate without syncing the old file": Mutant(
        "log.wal.committer:Committer._round",
        Set("For 1", "for _ in _[:-1]:", "Subscript 1", ()),
        "test_power_loss",
        "test_records_placed_over_several_files_become_durable_together",
    ),
    "forget what an interrupted sync was to sync": Mutant(
        "log.wal.committer:Committer._round",
        Remove("Expr 11", "_(_[:-1], _=_) (2 of 2)"),
        "test_calls_fail",
        "test_an_interrupted_sync_leaves_nothing_unsynced_behind",
    ),
    "retry a failed sync": Mutant(
        "log.wal.committer:Committer._round",
        All(
            Rewrite("Expr 8", "_(f(_, _))", "del {Name 3}"),
            Rewrite("Expr 9", "_() (3 of 4)", "{Expr 6}", others=("_[-1]._()",)),
            Remove("Expr 10", "_() (4 of 4)"),
        ),
        "test_sync_fails",
        "test_everybody_who_waited_for_a_failed_sync_is_told",
    ),
    "replace a file without syncing it": Mutant(
        "platform.disk:OsDurableFile.commit",
        Remove("Expr 1", "_(_(_, _))"),
        "test_disk_order",
        "test_a_replacement_syncs_the_file_renames_it_and_syncs_the_directory",
    ),
    "link a new file without syncing it": Mutant(
        "platform.disk:OsDurableFile.commit_new",
        Remove("Expr 1", "_(_(_, _))"),
        "test_disk_order",
        "test_a_new_file_is_synced_linked_and_its_directory_synced",
    ),
    "link a new file without syncing its directory": Mutant(
        "platform.disk:OsDurableFile.commit_new",
        Remove("Expr 3", "_(_(_))"),
        "test_disk_order",
        "test_a_new_file_is_synced_linked_and_its_directory_synced",
    ),
    "replace a file without syncing its directory": Mutant(
        "platform.disk:OsDurableFile.commit",
        Remove("Expr 3", "_(_(_))"),
        "test_disk_order",
        "test_a_replacement_syncs_the_file_renames_it_and_syncs_the_directory",
    ),
    "ignore a short write": Mutant(
        "platform.disk:_write_all",
        Force("While 1", "while _ < _:", False),
        "test_disk_order",
        "test_a_short_write_is_continued_until_every_byte_is_there",
    ),
    "leave a half frame in front of the next": Mutant(
        "log.wal.writer:Writer._roll_back",
        Rewrite(
            "Expr 1",
            "_(_, [_(_)])",
            "{Assign 1: Attribute 1} = {Name 2} + {Name 4}",
            others=("_ = _",),
        ),
        "test_calls_fail",
        "test_any_write_may_be_cut_short[5000-write]",
    ),
    "go on in the file of a failed write": Mutant(
        "log.wal.writer:Writer._roll_back",
        Remove("Expr 4", "_()"),
        "test_calls_fail",
        "test_a_frame_behind_a_failed_write_does_not_mix_with_it_after_a_power_loss",
    ),
    "store the first eight bytes first": Mutant(
        "log.wal.writer:Writer._store_frame",
        Insert("If 1", "if _ <= _:", "{Assign 8}", others=("_[_ >> 3] = _",)),
        "test_power_loss",
        "test_a_kill_between_any_two_stores_of_a_frame_leaves_no_half_frame[3000]",
    ),
    "do not mask zero sectors": Mutant(
        "log.wal.writer:Writer._without_zero_sectors",
        Force("If 2", "if not _(_, _): (1 of 2)", True),
        "test_damage",
        "test_a_damaged_last_frame_full_of_zeros_is_no_torn_write",
    ),
    "begin a term without saying so on the disk": Mutant(
        "log.wal.writer:Writer._rotate",
        Set("Assign 9", "_ = _ is None or _ == _", "BoolOp 1", False),
        "test_lost_tails",
        "test_a_power_loss_right_after_a_clean_close_and_one_append_is_reported[disk]",
    ),
    "keep a replaced file in the list": Mutant(
        "log.wal.log_files:ShardFiles.add",
        Set("Assign 1", "_ = [_ for _ in _ if _ != _]", "Compare 1", True),
        "test_checkpoint_crash",
        "test_a_file_that_was_begun_twice_at_the_same_place_is_not_removed_with_the_first_one",
    ),
    "read a record of the log without its checksum": Mutant(
        "log.wal.reader:Reader.single",
        Force("If 4", "if _(_, _, _):", True),
        "test_damage",
        "test_a_flipped_bit_under_an_open_log_is_noticed_by_a_reader",
    ),
    "read a segment without its checksums": Mutant(
        "log.segments.reader:Segment.read_block",
        Force("If 1", "if _(_, _, _['']) != _['']:", False),
        "test_damage",
        "test_a_flipped_bit_in_a_segment_is_noticed_by_a_reader",
    ),
    "cut the log at the first bad frame": Mutant(
        "log.wal.recovery:ShardLog._stopped",
        Force("If 1", "if _ and _ + _ >= _:", True),
        "test_damage",
        "test_a_log_is_not_cut_at_a_damaged_frame",
    ),
    "take synced zeros for a torn write": Mutant(
        "log.wal.recovery:ShardLog._stopped",
        Drop("If 1", "if _ and _ + _ >= _:", "Compare 1"),
        "test_damage",
        "test_zeros_where_synced_frames_were_are_no_torn_write",
    ),
    "check a frame without its place": Mutant(
        "log.wal.recovery:ShardLog._frames",
        Drop("If 1", "if _ != _ + _ or _ <= _ or _ > _:", "Compare 1"),
        "test_damage",
        "test_a_frame_that_was_written_to_the_next_frames_place_is_noticed",
    ),
    "trust the page cache after a restart": Mutant(
        "store:Store._wire",
        Remove("Expr 2", "_(_, _) (1 of 3)"),
        "test_sync_fails",
        "test_what_the_next_opening_shows_after_a_failed_sync_is_made_durable_before",
    ),
    "take the boot for the page cache": Mutant(
        "log.wal.log_files:ShardFiles.page_cache",
        Replace(
            "Return 1",
            "return _(_(_))",
            "Call 2",
            "{Attribute 2}.{name 1}()",
            names=("platform.disk:Disk.boot_id",),
        ),
        "test_lost_tails",
        "test_a_remount_is_reported_as_a_power_loss_is[disk]",
    ),
    "take an unknown page cache for the same": Mutant(
        "platform.page_cache:page_cache_id",
        Set("Assign 1", "_ = _(_) or _(_) or _(16)._()", "Call 3", ""),
        "unit/platform/test_page_cache",
        "test_what_cannot_be_identified_never_equals_an_earlier_id",
    ),
    "let a sync wait for the writer's lock like an append": Mutant(
        "log.wal.committer:Committer._round",
        Replace(
            "Expr 1",
            "_(_ if _ else 1)",
            "Call 1",
            "{Name 1}.{name 1}()",
            names=("log.wal.spin_lock:SpinLock.acquire",),
        ),
        "unit/log/wal/test_spin_lock",
        "test_a_sync_does_not_wait_for_a_flood_of_appends[the fast lane]",
    ),
    "do not send the fast lane to the slow one when a sync waits": Mutant(
        "log.wal.writer:Writer._make_room",
        Remove("Raise 2", "raise _ (2 of 3)"),
        "unit/log/wal/test_spin_lock",
        "test_a_sync_does_not_wait_for_a_flood_of_appends[the fast lane]",
    ),
    "take our own object for another's after a lost reply": Mutant(
        "platform.objectstore.protocol:check_own_object",
        Force("If 2", "if _(_) == _ or _(_) == _:", False),
        "unit/platform/objectstore/test_retrying",
        "test_any_request_may_fail_once_and_nothing_that_is_seen_changes[after]",
    ),
    "swallow a bug in a job": Mutant(
        "platform.background_jobs:BackgroundJob._run_step",
        Replace("Return 2", "return _(_(_)) (2 of 2)", "Attribute 1", "bool"),
        "test_job_death",
        "test_a_bug_in_the_sync_job_turns_the_store_red_and_ends_all_appends",
    ),
}
