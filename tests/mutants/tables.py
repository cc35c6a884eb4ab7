"""Mutants of tables: what keeps a row there once, a delete final, and a file behind the log."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TABLE = "unit/views/table/test_table"
STALE = "corruption/test_stale_tables"
LAKES = "corruption/test_other_lakes"

TABLES = {
    "tables: a file is taken and its memory, too": Mutant(
        "views.table.fold:TableFold.snapshot",
        "if chunk.last_seq > files.flushed",
        "if True",
        TABLE,
        "test_no_row_is_seen_twice_between_its_file_and_the_end_of_its_memory",
    ),
    "tables: rows that are in a file are taken again": Mutant(
        "views.table.fold:TableFold._take",
        "if rows.seqs[0] <= flushed:",
        "if False:",
        TABLE,
        "test_a_file_that_is_ahead_of_what_was_saved_brings_no_row_twice",
    ),
    "tables: pages of rows that are in a file are loaded": Mutant(
        "views.table.fold:TableFold._adopt",
        "if info.last_seq <= self.segments.flushed:",
        "if False:",
        TABLE,
        "test_a_file_that_is_ahead_of_what_was_saved_brings_no_row_twice",
    ),
    "tables: a delete takes what comes after it": Mutant(
        "views.table.fold:TableFold._change",
        "self._applied = seq - 1",
        "self._applied = 2**60",
        TABLE,
        "test_deletes_that_come_again_take_no_later_row",
    ),
    "tables: deleted rows are hidden in memory alone": Mutant(
        "views.table.fold:TableFold.save",
        "self.segments.hide(self.hidden)",
        "pass",
        TABLE,
        "test_deletes_hold_after_a_clean_restart",
    ),
    "tables: a merge keeps what was deleted and not saved": Mutant(
        "views.table.upkeep:Upkeep._hide",
        "fold.segments.hide(hidden)",
        "pass",
        TABLE,
        "test_deletes_that_come_again_are_asked_in_the_schema_of_their_time[merge]",
    ),
    "tables: misfits of rows in a file are not counted again": Mutant(
        "views.table.fold:TableFold._new_ones",
        "self._misfits += misfits_among(self.schema, known)",
        "pass",
        TABLE,
        "test_misfits_are_counted_once_whatever_is_saved",
    ),
    "tables: a file that lacks a seq counts as whole": Mutant(
        "views.table.files.segments:Segments.all_are_rows",
        "file.rows <= file.last_seq - file.first_seq",
        "False",
        TABLE,
        "test_misfits_are_counted_once_whatever_is_saved",
    ),
    "tables: a rebuild goes on with the files of before": Mutant(
        "views.table.fold:TableFold._begin_files",
        "if not segments.exists():",
        "if True:",
        TABLE,
        "test_a_rebuild_uses_no_file_of_before",
    ),
    "tables: a file is written before its rows are durable": Mutant(
        "views.table.upkeep:Upkeep._write",
        "host.topics[0].secure()",
        "pass",
        TABLE,
        "test_a_file_holds_no_row_that_the_log_may_lose",
    ),
    "tables: a writer waits for all files of a turn": Mutant(
        "views.table.upkeep:Upkeep.relieve",
        "self._write_oldest()",
        "self._working.acquire(), self._working.release(), self._write_oldest()",
        "unit/views/table/test_upkeep",
        "test_a_writer_waits_for_one_file_and_not_for_the_next",
    ),
    "tables: records of deleted rows stay on the log": Mutant(
        "views.table.upkeep:Upkeep._release",
        "if gone and host.release(0, gone):",
        "if False:",
        TABLE,
        "test_deleted_rows_leave_log_and_files",
    ),
    "tables: no file leaves with its topic": Mutant(
        "views.table.fold:TableFold.discard",
        "self._depot.trash(self._table_id(self._number))",
        "pass",
        TABLE,
        "test_deleting_the_topic_ends_its_files",
    ),
    "tables: an enum keeps the numbers of an older version": Mutant(
        "views.table.upcast:_column",
        "return as_variants(column, kind.variants)",
        "return column",
        "unit/views/table/test_upcast",
        "test_an_enum_has_the_numbers_of_the_newer_version",
    ),
    "tables: numbers of an enum are compared as its text would be": Mutant(
        "query.predicates:_Writer._compared",
        "(each == value) is same",
        "(at == 1) is same",
        "unit/query/test_compile",
        "test_an_enum_as_numbers_selects_the_rows_that_its_text_selects",
    ),
    "tables: the opposite of a list of variants forgets missing values": Mutant(
        "query.predicates:_Writer._numbers_among",
        "(None in leaf.values) is wanted",
        "None in leaf.values",
        "unit/query/test_compile",
        "test_an_enum_as_numbers_selects_the_rows_that_its_text_selects",
    ),
    "tables: a question is bound to one look and asks another": Mutant(
        "query.sight:Sight.snapshot",
        "if event not in self._seen:",
        "if True:",
        "unit/query/test_sight",
        "test_a_version_that_comes_while_a_question_is_bound_is_not_in_its_answer",
    ),
    "tables: tables of a question are seen one after the other": Mutant(
        "query.sight:bound_to_sight",
        "len(tables) < 2",
        "True",
        "unit/query/test_sight",
        "test_a_sequence_sees_no_second_event_without_the_first_one_of_before",
    ),
    "tables: a version that comes before the moment is not bound": Mutant(
        "query.sight:bound_to_sight",
        "sight.at_one_moment(tables)",
        "(sight.at_one_moment(tables), True)[1]",
        "unit/query/test_sight",
        "test_a_version_that_comes_before_the_moment_is_bound_anew",
    ),
    "tables: an older lake is taken for the newest": Mutant(
        "views.table.fold:TableFold._load_files",
        "self.segments.load(found.manifest, found.manifest_checksum)",
        "self.segments.load()",
        STALE,
        "test_a_missing_newest_manifest_is_named[as_yesterday-False]",
    ),
    "tables: a manifest of another history is taken for ours": Mutant(
        "lake.ledger:Ledger.load_after",
        "found not in (None, checksum)",
        "found is None",
        STALE,
        "test_a_manifest_of_another_history_is_named",
    ),
    "tables: fold the log again when the lake is older": Mutant(
        "views.shelf:Shelf._loaded",
        "except FilesLost as error:",
        "except ZeroDivisionError as error:",
        STALE,
        "test_a_table_is_whole_when_the_newest_manifest_is_back[as_yesterday]",
    ),
    "tables: use the files of a table whose manifests are missing": Mutant(
        "views.table.files.segments:Segments.was_used",
        "or is_marked(",
        "and is_marked(",
        STALE,
        "test_a_rebuild_folds_the_table_from_the_log_instead[without_any]",
    ),
    "tables: any lake is taken for the store's": Mutant(
        "lake.identity:IdentityCheck.confirm",
        "(found is None or found.checksum != self.ref.id)",
        "False",
        LAKES,
        "test_another_lake_of_the_same_store_is_refused",
    ),
    "tables: a checkpoint forgets the lake": Mutant(
        "topic.roots:Roots.write",
        "else lake.identity.ref",
        "else None",
        LAKES,
        "test_a_lake_that_was_copied_as_a_whole_is_the_same_lake",
    ),
    "tables: files are read in any lake": Mutant(
        "views.table.files.segments:Segments.load",
        "self._confirm()",
        "pass",
        LAKES,
        "test_another_lake_of_the_same_store_is_refused",
    ),
}
