"""Mutants of tables: rows are in memory or in one file, and deletes reach both."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Remove, Replace, Set, Swap, Use

TABLE = "unit/views/table/test_table"
STALE = "corruption/test_stale_tables"
LAKES = "corruption/test_other_lakes"
EVERY = "corruption/test_every_file"


TABLES = {
    "tables: a file is taken and its memory, too": Mutant(
        "views.table.fold:TableFold.snapshot",
        Set(
            "Return 1",
            "return _(_=_, _=_, _=[_ for _ in _ if _ > _], _=... 9f5782a4",
            "Compare 1",
            True,
        ),
        TABLE,
        "test_no_row_is_seen_twice_between_its_file_and_the_end_of_its_memory",
    ),
    "tables: rows that are in a file are taken again": Mutant(
        "views.table.fold:TableFold._add_rows",
        Force("If 1", "if _[0] <= _:", False),
        TABLE,
        "test_a_file_that_is_ahead_of_what_was_saved_brings_no_row_twice",
    ),
    "tables: pages of rows that are in a file are loaded": Mutant(
        "views.table.fold:TableFold._load_page",
        Force("If 1", "if _ <= _:", False),
        TABLE,
        "test_a_file_that_is_ahead_of_what_was_saved_brings_no_row_twice",
    ),
    "tables: a delete takes what comes after it": Mutant(
        "views.table.fold:TableFold._apply_change",
        Replace("Assign 4", "_ = _ - 1", "BinOp 1", "2 ** 60"),
        TABLE,
        "test_deletes_that_come_again_take_no_later_row",
    ),
    "tables: deleted rows are hidden in memory alone": Mutant(
        "views.table.fold:TableFold.save",
        Remove("Expr 5", "_(_) (2 of 2)"),
        TABLE,
        "test_deletes_hold_after_a_clean_restart",
    ),
    "tables: a merge keeps what was deleted and not saved": Mutant(
        "views.table.maintenance:TableMaintenance._save_hidden",
        Remove("Expr 2", "_(_)"),
        TABLE,
        "test_deletes_that_come_again_are_asked_in_the_schema_of_their_time[merge]",
    ),
    "tables: misfits of rows in a file are not counted again": Mutant(
        "views.table.fold:TableFold._unflushed_rows",
        Remove("AugAssign 1", "_ += _(_, _)"),
        TABLE,
        "test_misfits_are_counted_once_whatever_is_saved",
    ),
    "tables: a file that lacks a seq counts as whole": Mutant(
        "views.table.files.file_set:TableFiles.all_are_rows",
        Set("If 1", "if _ > _ or _ <= _ - _:", "Compare 2", False),
        TABLE,
        "test_misfits_are_counted_once_whatever_is_saved",
    ),
    "tables: a rebuild goes on with the files of before": Mutant(
        "views.table.fold:TableFold._new_file_set",
        Force("If 1", "if not _():", True),
        TABLE,
        "test_a_rebuild_uses_no_file_of_before",
    ),
    "tables: a file is written before its rows are durable": Mutant(
        "views.table.maintenance:TableMaintenance._write_passive",
        Remove("Expr 1", "_[0]._()"),
        TABLE,
        "test_a_file_holds_no_row_that_the_log_may_lose",
    ),
    "tables: a writer waits for all files of a turn": Mutant(
        "views.table.maintenance:TableMaintenance.limit_passives",
        Replace(
            "Expr 1",
            "_()",
            "Call 1",
            "({Name 1}.{name 1}.acquire(), {Name 1}.{name 1}.release(), {it})",
            names=("views.table.maintenance:TableMaintenance._run_lock",),
        ),
        "unit/views/table/test_maintenance",
        "test_a_writer_waits_for_one_file_and_not_for_the_next",
    ),
    "tables: records of deleted rows stay on the log": Mutant(
        "views.table.maintenance:TableMaintenance._trim_records",
        Force("If 1", "if _ and _(0, _):", False),
        TABLE,
        "test_deleted_rows_leave_log_and_files",
    ),
    "tables: no file leaves with its topic": Mutant(
        "views.table.fold:TableFold.discard",
        Remove("Expr 1", "_(_(_))"),
        TABLE,
        "test_deleting_the_topic_ends_its_files",
    ),
    "tables: an enum keeps the numbers of an older version": Mutant(
        "views.table.upcast:_column",
        Use("Return 1", "return _(_, _)", "Call 1", "Name 2"),
        "unit/views/table/test_upcast",
        "test_an_enum_has_the_numbers_of_the_newer_version",
    ),
    "tables: numbers of an enum are compared as its text would be": Mutant(
        "query.plan.predicates:_Writer._compared",
        Replace(
            "Return 2",
            "return _(_, [_ for _, _ in _ if (_ == _) is _])",
            "Compare 2",
            "{Name 3} == 1",
        ),
        "unit/query/plan/test_compile",
        "test_an_enum_as_numbers_selects_the_rows_that_its_text_selects",
    ),
    "tables: the opposite of a list of variants forgets missing values": Mutant(
        "query.plan.predicates:_Writer._numbers_among",
        Use("Assign 3", "_ = (None in _) is _", "Compare 1", "Compare 2"),
        "unit/query/plan/test_compile",
        "test_an_enum_as_numbers_selects_the_rows_that_its_text_selects",
    ),
    "tables: a question is bound to one look and asks another": Mutant(
        "query.snapshots:QuerySnapshots.snapshot",
        Force("If 1", "if _ not in _:", True),
        "unit/query/test_snapshots",
        "test_a_version_that_comes_while_a_question_is_bound_is_not_in_its_answer",
    ),
    "tables: tables of a question are seen one after the other": Mutant(
        "query.snapshots:bind_to_snapshots",
        Set("If 1", "if _(_) < 2 or _(_):", "Compare 1", True),
        "unit/query/test_snapshots",
        "test_a_sequence_sees_no_second_event_without_the_first_one_of_before",
    ),
    "tables: a version that comes before the moment is not bound": Mutant(
        "query.snapshots:bind_to_snapshots",
        Replace("If 1", "if _(_) < 2 or _(_):", "Call 2", "({it}, True)[1]"),
        "unit/query/test_snapshots",
        "test_a_version_that_comes_before_the_moment_is_bound_anew",
    ),
    "tables: an older lake is taken for the newest": Mutant(
        "views.table.fold:TableFold._load_files",
        Drop("Expr 1", "_(_, _)", "Attribute 3", count=2),
        STALE,
        "test_a_missing_newest_manifest_is_named[as_yesterday-False]",
    ),
    "tables: a manifest of another history is taken for ours": Mutant(
        "lake.manifest.manifest_commit:ManifestCommitter.load_after",
        Replace("If 1", "if _ and _ not in (None, _):", "Compare 1", "{Name 2} is None"),
        STALE,
        "test_a_manifest_of_another_history_is_named",
    ),
    "tables: fold the log again when the lake is older": Mutant(
        "views.view_registry:ViewRegistry._load",
        Replace("ExceptHandler 1", "except _ as _:", "Name 1", "ZeroDivisionError"),
        STALE,
        "test_a_table_is_whole_when_the_newest_manifest_is_back[as_yesterday]",
    ),
    "tables: use the files of a table whose manifests are missing": Mutant(
        "views.table.files.file_set:TableFiles.was_used",
        Swap("Return 1", "return _() or _(_, _, _)", "BoolOp 1", "and"),
        STALE,
        "test_a_rebuild_folds_the_table_from_the_log_instead[without_any]",
    ),
    "tables: any lake is taken for the store's": Mutant(
        "lake.lake_identity:IdentityCheck.confirm",
        Set("If 3", "if _ is not None and (_ is None or _ != _):", "BoolOp 2", False),
        LAKES,
        "test_another_lake_of_the_same_store_is_refused",
    ),
    "tables: a checkpoint forgets the lake": Mutant(
        "log.checkpoint.checkpoint_store:CheckpointStore.write",
        Set(
            "Assign 6",
            "_ = _(_=_([_, *_]) + 1, _=_, _=_, _=_, _=_, _=_(... 58fbc310",
            "Attribute 20",
            None,
        ),
        LAKES,
        "test_a_lake_that_was_copied_as_a_whole_is_the_same_lake",
    ),
    "tables: files are read in any lake": Mutant(
        "views.table.files.file_set:TableFiles.load",
        Remove("Expr 1", "_()"),
        LAKES,
        "test_another_lake_of_the_same_store_is_refused",
    ),
    "tables: a check of indexes skips their sections": Mutant(
        "views.table.files.verify:_check",
        Remove("Expr 1", "_(_[_:_ + _], _, _)"),
        EVERY,
        "test_verify_names_the_file_in_which_a_bit_flipped[lake: indexes of tables]",
    ),
    "tables: the scrub job reads no table": Mutant(
        "log.repair.scrub_job:Scrubber._check_tables",
        Remove("Expr 2", "_(_, _)"),
        EVERY,
        "test_the_scrub_job_names_the_file_in_which_a_bit_flipped[lake: indexes of tables]",
    ),
    "pipelines: any state of a schedule is taken as written": Mutant(
        "pipelines.schedule.run_state:_decode",
        Force("If 1", "if _ not in (_(_), _):", False),
        EVERY,
        "test_any_flipped_byte_of_the_state_of_a_schedule_is_noticed",
    ),
}
