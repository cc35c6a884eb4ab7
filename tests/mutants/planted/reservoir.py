"""Mutants of the reservoir: what makes checkpoints complete, checked, fenced and kept."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import (
    All,
    Drop,
    Force,
    Insert,
    Leave,
    Move,
    Remove,
    Replace,
    Rewrite,
    Set,
    Use,
)

CALLS = "test_reservoir_calls"
WRITERS = "test_reservoir_writers"
POWER = "test_reservoir_power"
KEPT = "test_reservoir_kept"
DAMAGE = "corruption/test_reservoir"
IDENTITY = "corruption/test_reservoir_identity"
FALLBACK = "corruption/test_reservoir_fallback"
FLIPPED = "test_any_flipped_bit_is_noticed_or_of_no_use[an increment is the newest-some]"
REPEATED = "test_who_repeats_a_failed_call_loses_and_invents_nothing"


RESERVOIR = {
    "leave the page's id out of its checksum": Mutant(
        "reservoir.data_files.data_file_codec:page_checksum",
        Use("Return 1", "return _(_, _ * _ + _ * _ & _)", "BinOp 2", "BinOp 4"),
        IDENTITY,
        "test_the_checksum_of_a_page_covers_its_bytes_its_id_and_its_file",
    ),
    "leave the file's id out of a page's checksum": Mutant(
        "reservoir.data_files.data_file_codec:page_checksum",
        Use("Return 1", "return _(_, _ * _ + _ * _ & _)", "BinOp 2", "BinOp 3"),
        IDENTITY,
        "test_the_checksum_of_a_page_covers_its_bytes_its_id_and_its_file",
    ),
    "reckon many checksums in another way": Mutant(
        "reservoir.data_files.data_file_codec:page_checksums",
        Remove("AugAssign 1", "_ += _(_ * _ & _)"),
        IDENTITY,
        "test_many_checksums_are_those_of_each_page",
    ),
    "take any whole file for the one that is listed": Mutant(
        "reservoir.data_files.data_file_codec:check_file",
        Force("If 2", "if (_, _) != (_, _):", False),
        IDENTITY,
        "test_a_whole_file_with_the_right_checksum_must_say_who_it_is[reservoir]",
    ),
    "give a page without its checksum": Mutant(
        "reservoir.page_reader:PageReader.read",
        Use("If 1", "if _(_, _, _) == _:", "Compare 1", "Name 2"),
        DAMAGE,
        FLIPPED,
    ),
    "believe a checkpoint without its checksum": Mutant(
        "reservoir.recovery:_checked",
        Force("If 1", "if _(_) != _:", False),
        DAMAGE,
        FLIPPED,
    ),
    "believe a registry without its checksum": Mutant(
        "reservoir.recovery:_read_end",
        Force("If 3", "if _(_) != _:", False),
        DAMAGE,
        FLIPPED,
    ),
    "take another reservoir's snapshot": Mutant(
        "reservoir.recovery:_check_neighbors",
        Force("If 2", "if _:", False),
        DAMAGE,
        "test_an_object_of_another_reservoir_in_its_place_is_noticed[a snapshot is]",
    ),
    "take a version that stands under another's name": Mutant(
        "reservoir.recovery:_read_end",
        Rewrite("If 1", "if _ != _:", "{Name 2} = {Attribute 1}"),
        DAMAGE,
        "test_another_valid_object_in_its_place_is_noticed[a snapshot is]",
    ),
    "open data files without checkpoints as an empty reservoir": Mutant(
        "reservoir.recovery:_check_listing",
        Force("If 3", "if not _ and _:", False),
        DAMAGE,
        "test_data_files_without_any_checkpoint_are_no_empty_reservoir",
    ),
    "copy pages of a file without checking them": Mutant(
        "reservoir.compaction:move_pages",
        All(
            Remove("Expr 1", "_(_, _, _=_, _=_, _=_)"), Remove("If 2", "if _(_, _, _) != _[_]['']:")
        ),
        DAMAGE,
        "test_damage_is_never_copied_into_a_new_file[some]",
    ),
    "pass a store that does not answer for a damaged one": Mutant(
        "reservoir.recovery:_newest_readable",
        Replace("ExceptHandler 1", "except (_, _) as _:", "Tuple 1", "Exception"),
        FALLBACK,
        "test_a_store_that_does_not_answer_is_no_damage",
    ),
    "believe the first damaged answer": Mutant(
        "reservoir.recovery:_retry_damaged",
        Leave("Return 2", "return _() (2 of 2)", "raise"),
        FALLBACK,
        "test_a_bit_that_flips_on_the_way_is_no_damage",
    ),
    "forget that a damaged version may need what is there": Mutant(
        "reservoir.takeover:_take_over",
        Remove("Assign 2", "_ = _"),
        FALLBACK,
        "test_what_a_damaged_version_may_need_is_not_deleted_by_anybody",
    ),
    "delete garbage that a damaged version may need": Mutant(
        "reservoir.gc_policy:old_files",
        Drop(
            "Return 1", "return [_ for _, _ in _() if _ < _ and _(_) > _ ... ddf4784f", "Compare 2"
        ),
        FALLBACK,
        "test_who_repairs_the_damage_can_still_read_what_was_passed_over",
    ),
    "delete files that a kept version needs": Mutant(
        "reservoir.gc_policy:old_files",
        Replace("Assign 1", "_ = _ - _", "BinOp 1", "{Attribute 1} + 1"),
        KEPT,
        "test_every_version_that_is_kept_can_be_recovered_at_every_moment[2-3]",
    ),
    "delete a checkpoint whose object holds pages": Mutant(
        "reservoir.gc_policy:old_checkpoints",
        Drop("Return 1", "return [_ for _ in _ if _ > _ and (not _(_, _))]", "UnaryOp 1"),
        KEPT,
        "test_every_version_that_is_kept_can_be_recovered_at_every_moment[1-3]",
    ),
    "drop checkpoints that a kept version begins with": Mutant(
        "reservoir.checkpoint_writer:CheckpointWriter.encode",
        Use("Assign 7", "_ = _([*_, _], _ - _)", "BinOp 1", "Name 5"),
        KEPT,
        "test_every_version_that_is_kept_can_be_recovered_at_every_moment[2-3]",
    ),
    "keep what nobody needs": Mutant(
        "reservoir.gc_policy:old_checkpoints",
        Set("Return 1", "return [_ for _ in _ if _ > _ and (not _(_, _))]", "Name 3", ()),
        KEPT,
        "test_what_nobody_needs_is_deleted",
    ),
    "overwrite a version of another writer": Mutant(
        "reservoir.checkpoint_writer:CheckpointWriter.create",
        Replace(
            "Expr 1",
            "_(_(_), _)",
            "Attribute 1",
            "{Attribute 2}.{name 1}",
            names=("platform.objectstore.protocol:Objects.put",),
        ),
        WRITERS,
        "test_a_fenced_writer_can_do_nothing_any_more",
    ),
    "go on after being fenced": Mutant(
        "reservoir.reservoir:Reservoir._create_pending",
        Remove("Assign 1", "_ = _"),
        WRITERS,
        "test_a_fenced_writer_can_do_nothing_any_more",
    ),
    "open without taking over": Mutant(
        "reservoir.takeover:_take_over",
        Set("Return 1", "return False", "Constant 1", True),
        WRITERS,
        "test_an_opening_at_any_call_of_another_opening_leaves_one_writer",
    ),
    "pass over what another writer has just deleted": Mutant(
        "reservoir.recovery:recover",
        Force("If 2", "if _ <= _:", True),
        WRITERS,
        "test_a_reader_whose_listed_versions_are_deleted_meanwhile_looks_again",
    ),
    "believe a late list": Mutant(
        "reservoir.takeover:open_state",
        Set("Assign 5", "_ = _ + 1", "BinOp 1", 0),
        WRITERS,
        "test_a_late_list_hides_nothing_from_a_writer[2]",
    ),
    "miss files that a late list does not show": Mutant(
        "reservoir.takeover:missing_files",
        Drop("Assign 2", "_ = [_ for _ in _[:_] if _(_, _)]", "Call 1"),
        WRITERS,
        "test_a_late_list_hides_nothing_from_a_writer[4]",
    ),
    "give files of two writers the same names": Mutant(
        "reservoir.pool:ReservoirPool.send",
        Set("Assign 2", "_ = _(_, _)", "Attribute 2", 1),
        WRITERS,
        "test_late_uploads_of_a_fenced_writer_do_no_harm",
    ),
    "checkpoint before all files are stored": Mutant(
        "reservoir.reservoir:Reservoir.checkpoint",
        Remove("Expr 9", "_() (5 of 9)"),
        CALLS,
        "test_who_dies_at_a_failed_call_leaves_what_was_acknowledged[before]",
    ),
    "forget a file that could not be stored": Mutant(
        "reservoir.data_files.upload_queue:UploadQueue._send",
        Use("Expr 3", "_(_) (2 of 2)", "Call 1", "Expr 4: Call 1", others=("_() (2 of 2)",)),
        CALLS,
        f"{REPEATED}[before-once]",
    ),
    "make a new checkpoint while another is pending": Mutant(
        "reservoir.reservoir:Reservoir.checkpoint",
        Remove("Expr 4", "_() (3 of 9)"),
        CALLS,
        f"{REPEATED}[before-once]",
    ),
    "gather pages for a checkpoint that may still fail": Mutant(
        "reservoir.reservoir:Reservoir.checkpoint",
        Move("Assign 3", "_ = _(_) if _() else None", "Expr 9", others=("_() (5 of 9)",)),
        CALLS,
        "test_a_checkpoint_that_fails_behind_its_pages_keeps_them_for_the_next",
    ),
    "show half of a commit": Mutant(
        "reservoir.pool:ReservoirPool.commit",
        Insert(
            "Expr 2",
            "_() (2 of 2)",
            "with {With 2: Attribute 2}:\n    {Expr 5}",
            others=("with _(''), _:", "_(_) (3 of 3)"),
        ),
        CALLS,
        "test_a_half_shown_commit_is_never_seen",
    ),
    "keep files of a session that was rolled back": Mutant(
        "reservoir.session:Session.rollback",
        Remove("Expr 1", "_(_) (1 of 2)"),
        CALLS,
        "test_a_rolled_back_session_leaves_neither_pages_nor_files",
    ),
    "put an old page in place of a newer one": Mutant(
        "reservoir.compaction:move_pages",
        Force("If 1", "if _(_):", False),
        KEPT,
        "test_every_version_that_is_kept_can_be_recovered_at_every_moment[1-3]",
    ),
    "keep a lock when an opening fails": Mutant(
        "reservoir.reservoir:Reservoir.__init__",
        Remove("Expr 1", "_() (1 of 2)"),
        CALLS,
        "test_an_opening_that_fails_lets_go_of_its_cache",
    ),
    "trust a file of the cache for its name": Mutant(
        "reservoir.compaction:fetch",
        Leave("If 4", "if _(_) == _: (2 of 2)", "{Return 2}", others=("return _ (2 of 2)",)),
        POWER,
        "test_a_damaged_file_of_the_cache_hinders_no_rewriting",
    ),
    "let the name of an opening become free": Mutant(
        "reservoir.data_files.data_file_table:FileTable.keep_name",
        Remove("Expr 1", "_(_) (1 of 4)"),
        "test_reservoir_writers",
        "test_a_writer_that_sleeps_while_others_work_wakes_up_fenced",
    ),
    "forget the names of openings that are left behind": Mutant(
        "reservoir.takeover:_take_over",
        Drop("For 1", "for _ in [*_(_, _), _]:", "Starred 1"),
        "test_reservoir_writers",
        "test_a_version_that_was_left_behind_keeps_the_name_of_its_opening",
    ),
    "open without a second look": Mutant(
        "reservoir.takeover:_take_over",
        Set("Return 2", "return not _(_, _)", "UnaryOp 1", True),
        "test_reservoir_writers",
        "test_an_opening_that_sleeps_between_its_list_and_its_version_begins_again",
    ),
    "take the first version, kept for its name, for a state": Mutant(
        "reservoir.recovery:_is_name_only",
        Set("Return 1", "return 1 in _ and 2 not in _ and (_(_) > 1)", "Compare 2", False),
        "unit/reservoir/test_named_versions",
        "test_a_version_that_is_too_old_says_so_and_changes_nothing",
    ),
    "leave a bad page of a copy as it is": Mutant(
        "reservoir.page_reader:PageReader._read_repaired",
        Remove("Expr 1", "_(_, _, _, _)"),
        "unit/reservoir/test_page_reader",
        "test_a_repaired_copy_is_good_for_the_next_process",
    ),
    "repair a copy of which all pages are bad one by one": Mutant(
        "reservoir.cache.cache:FileCache.is_repairable",
        Drop("Return 1", "return _ is not None and _ is _ and (_ < _)", "Compare 3"),
        "unit/reservoir/test_page_reader",
        "test_a_copy_of_which_more_is_wrong_heals_with_one_download",
    ),
    "keep all small files in memory": Mutant(
        "reservoir.pool:ReservoirPool.stored",
        Force("While 1", "while _ > _:", False),
        "unit/reservoir/test_merging",
        "test_what_is_kept_to_be_merged_is_bounded_and_only_saves_requests[900]",
    ),
    "list new files of which little is alive": Mutant(
        "reservoir.compaction:superseded",
        Set(
            "Return 1",
            "return [_ for _ in _ if _ >= _ and (not _) and (_ < _ * _)]",
            "Compare 2",
            False,
        ),
        "unit/reservoir/test_stored_bytes",
        "test_a_map_larger_than_memory_and_spill_stores_little_more_than_its_data[any-0-0]",
    ),
    "list new files of which nothing is alive": Mutant(
        "reservoir.gc_policy:unlisted_files",
        Set("Return 1", "return [_ for _, _ in _() if _ and _ >= _]", "BoolOp 1", False),
        "unit/reservoir/test_stored_bytes",
        "test_a_file_that_died_before_its_checkpoint_is_gone_after_it",
    ),
    "remove the folder of a living writer": Mutant(
        "platform.objectstore.local:FolderObjects._clean",
        Set("Return 1", "return not _(_)", "UnaryOp 1", True),
        "unit/platform/objectstore/test_local",
        "test_a_folder_in_which_a_writer_is_at_work_stays",
    ),
    "give up an object whose folder was removed": Mutant(
        "platform.objectstore.local:FolderObjects._commit",
        Leave("Expr 1", "_(_) (1 of 2)", "raise"),
        "unit/platform/objectstore/test_local",
        "test_a_folder_that_is_removed_at_any_call_of_a_writer_is_made_again[create]",
    ),
}
