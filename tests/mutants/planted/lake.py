"""Mutants of the lake and of backups: what is complete and checked before it replaces a copy."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Insert, Leave, Remove, Replace, Set, Use

LAKE = {
    "let the local copy go before the commit": Mutant(
        "log.checkpoint.relocator:Relocator._relocate",
        Insert(
            "Assign 12",
            "_ = _(_, _(_))",
            (
                "{Expr 3: Attribute 1}({Name 3}, {Name 1}.{name 1}([{Name 5}]))\n"
                "{If 2: Attribute 1}({Name 3}, {arg 4}, {})"
            ),
            others=("_(_, _) (2 of 2)", "if not _(_, _, {_: (_, _)}):"),
            names=("lake.manifest.manifest:Manifest.with_added",),
        ),
        "unit/log/topic/test_relocation_order",
        "test_no_local_copy_is_let_go_before_the_commit",
    ),
    "let the local copy go without a commit": Mutant(
        "log.checkpoint.relocator:Relocator._relocate",
        Replace(
            "Assign 12",
            "_ = _(_, _(_))",
            "Call 1",
            "{Name 1}.{name 1}([{Name 5}])",
            names=("lake.manifest.manifest:Manifest.with_added",),
        ),
        "unit/log/topic/test_relocation",
        "test_a_relocation_that_was_cut_off_after_its_commit_goes_on_where_it_was",
    ),
    "believe an upload without reading it back": Mutant(
        "lake.file_upload:LakeUploader.write",
        Remove("Expr 4", "_(_, _)"),
        "unit/log/topic/test_relocation",
        "test_a_file_that_reads_back_as_other_bytes_is_not_listed",
    ),
    "read a zone of the lake without its checksum": Mutant(
        "lake.files.file_reader:LakeFileReader._rows",
        Force("If 4", "if _(_, _) != _:", False),
        "unit/log/topic/test_cold_reads",
        "test_damage_in_the_lake_costs_its_zone_and_nothing_else",
    ),
    "take a part of a zone for a zone": Mutant(
        "lake.files.file_reader:LakeFileReader._rows",
        Force("If 3", "if _(_) != _:", False),
        "unit/lake/test_lake_damage",
        "test_an_answer_that_is_too_short_or_too_long_is_damage",
    ),
    "take another's manifest for ours": Mutant(
        "lake.manifest.manifest_commit:ManifestCommitter._write",
        Force("If 1", "if _(_) != _:", False),
        "unit/lake/test_committers_race",
        "test_a_committer_who_is_beaten_every_time_loses_nothing",
    ),
    "sweep without a grace period": Mutant(
        "lake.gc:collect_garbage",
        Use("Assign 3", "_ = [_ for _ in _ if _ <= _ - _(_ * _)]", "BinOp 1", "Name 6"),
        "unit/lake/test_gc",
        "test_a_file_that_left_stays_for_the_grace_period",
    ),
    "sweep what a retained manifest names": Mutant(
        "lake.gc:collect_garbage",
        Drop("Assign 4", "_ = [_ for _ in _ if _ <= _]", "Compare 1"),
        "unit/lake/test_gc",
        "test_a_pinned_version_keeps_its_files",
    ),
    "tell the lake of a delete that may be undone": Mutant(
        "log.checkpoint.relocator:Relocator._update_manifest",
        Remove("Expr 1", "_(_) (1 of 3)"),
        "unit/log/topic/test_relocation_order",
        "test_the_lake_is_not_told_of_a_delete_that_a_power_loss_undoes",
    ),
    "mix the histories of two copies of a store": Mutant(
        "log.checkpoint.relocator:Relocator._compare",
        Force("If 3", "if not _(_)._(_):", False),
        "unit/log/topic/test_relocation",
        "test_a_copy_of_a_store_that_went_another_way_does_not_mix_with_it",
    ),
    "count what was deleted while its copy was let go": Mutant(
        "log.checkpoint.relocator:Relocator._release_local",
        Use("Assign 8", "_ = {_: _ - _(_, _, _) for _, _, _, _ in _}", "BinOp 1", "Name 3"),
        "unit/log/topic/test_two_copies",
        "test_a_delete_while_the_local_copy_is_let_go_is_not_counted_twice",
    ),
    "scrub a lake file without its hash": Mutant(
        "lake.verify:check_file",
        Force("If 1", "if _() == _:", True),
        "unit/log/topic/test_scrubbing",
        "test_a_bad_lake_file_is_written_anew_from_the_segments[flipped]",
    ),
    "trust what a failed backup left": Mutant(
        "backup.uploader:BackupUploader._is_leftover",
        Set("Return 2", "return _(_(_, _)) == _", "Compare 1", True),
        "test_backup_crash",
        "test_what_a_failed_attempt_left_is_read_before_it_is_used",
    ),
    "forget to tell the lake of a schema": Mutant(
        "log.checkpoint.relocator:Relocator._commit_schema",
        Replace(
            "If 1",
            "if _(_) is not _:",
            "Compare 1",
            "not {Name 1}.{name 1}",
            names=("lake.manifest.manifest:Manifest.schemas",),
        ),
        "test_typed_relocation_crash",
        "test_a_change_of_schema_and_a_move_without_a_crash",
    ),
    "read a column of another type as it is": Mutant(
        "lake.files.column_stats:reads_as",
        Set("Return 3", "return False", "Constant 1", True),
        "unit/lake/files/test_column_stats",
        "test_a_column_is_shown_as_a_type_that_holds_it",
    ),
    "take a file for one without nulls": Mutant(
        "lake.files.column_stats:_Column.between",
        Set("Return 1", "return [_ | _ for _ in _] if _ else _", "Attribute 1", False),
        "unit/lake/files/test_column_stats",
        "test_a_filter_finds_every_row_that_it_should",
    ),
    "give up a row for one field": Mutant(
        "lake.files.typed_columns:TypedColumns._by_field",
        Leave("Assign 1", "_ = _(_(_))", "{Return 1}", others=("return _()",)),
        "unit/lake/files/test_typed_columns",
        "test_every_row_is_what_a_plain_reading_gives",
    ),
    "call a restore a store before it is one": Mutant(
        "backup.restore:_Restorer.run",
        Insert(
            "Assign 3",
            "_ = _(_) (1 of 2)",
            (
                "{Expr 6: Attribute 1}({Expr 3: Attribute 2}, {Expr 6: Attribute 3}, "
                "{Expr 6: Attribute 5}, 1)"
            ),
            others=("_(_, _, _, _)", "_(_) (1 of 2)"),
        ),
        "test_backup_crash",
        "test_a_crash_at_any_step_of_a_restore_leaves_the_whole_store_or_none[kill]",
    ),
    "restore bytes that nobody checked": Mutant(
        "backup.restore:_Source.stream",
        Force("If 1", "if _() == _:", True),
        "test_backup_crash",
        "test_any_call_to_the_place_may_fail_in_a_restore[flipped]",
    ),
}
