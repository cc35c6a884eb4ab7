"""Mutants of rebuilds, rollups, compaction by key, questions to Spark, and saved views."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

REBUILDING = {
    "let ranges of keys hear nothing that is about all": Mutant(
        "pipelines.refold.gather:_leave",
        "common = table.filter(recipe.common(table))",
        "common = table.slice(0, 0)",
        "unit/pipelines/test_rebuild",
        "test_a_view_is_the_same_as_what_its_log_is_folded_into_in_pieces[series]",
    ),
    "compare the names of keys": Mutant(
        "pipelines.refold.census:marked",
        "xxh3_64_digest(seen.content)",
        "b''",
        "unit/pipelines/test_rebuild",
        "test_a_key_that_is_not_what_the_log_says_is_named",
    ),
    "go on with runs that are gone": Mutant(
        "pipelines.refold.kept:Kept._find",
        "if all(self._lake.head(key).size >= size for key, size in note.objects.items()):",
        "if note:",
        "unit/pipelines/test_rebuild_killed",
        "test_what_a_killed_rebuild_has_left_is_not_trusted[gone--run-]",
    ),
    "go on with a view of other options": Mutant(
        "pipelines.refold.kept:Kept._name",
        "(work.kind, work.views, work.strangers, work.piece_rows)",
        "work.kind",
        "unit/pipelines/test_rebuild_killed",
        "test_another_view_other_options_and_a_topic_made_anew_take_nothing_over",
    ),
    "note no task that is done": Mutant(
        "pipelines.refold.kept:Kept._note",
        "self._lake.put(name, xxh3_64_digest(body) + body)",
        "pass",
        "unit/pipelines/test_rebuild_killed",
        "test_a_rebuild_that_was_killed_goes_on_where_it_was[kv-True]",
    ),
    "share notes with a run beside": Mutant(
        "pipelines.refold.kept:Kept.__init__",
        "if self._lock is not None:",
        "if True:",
        "unit/pipelines/test_rebuild_killed",
        "test_two_rebuilds_of_one_view_do_not_disturb_each_other",
    ),
    "compare a table without the deletes that came later": Mutant(
        "pipelines.refold.tables:range_tasks",
        "and (each.is_version or each.seq > last_seq)",
        "and each.is_version",
        "unit/pipelines/test_rebuild_table",
        "test_a_table_is_the_same_as_its_log",
    ),
    "call rows that are deleted meanwhile a difference": Mutant(
        "pipelines.rebuild_table:TableRebuild.run",
        "if summary.same or not self._has_left(snapshot):",
        "if True:",
        "unit/pipelines/test_rebuild_table",
        "test_deletes_while_it_is_compared_are_no_difference",
    ),
    "accept windows that a point has come to": Mutant(
        "views.metrics.accepting:accept",
        "return None if _has_changed(host, made) else draft",
        "return draft",
        "unit/pipelines/test_rollup",
        "test_a_point_that_comes_while_its_window_is_made_is_in_it",
    ),
    "accept windows that somebody else has made": Mutant(
        "views.metrics.accepting:accept",
        " or standing.until != made.after",
        "",
        "unit/pipelines/test_rollup",
        "test_windows_that_somebody_else_has_made_are_not_made_again",
    ),
    "leave a view that is far behind to the writer": Mutant(
        "pipelines.keyed:compact_keyed",
        "if topic.behind > behind_max:",
        "if False:",
        "unit/pipelines/test_compact_keyed",
        "test_a_view_that_is_far_behind_is_folded_by_tasks_first",
    ),
    "merge before keys have let go": Mutant(
        "inbox.adopting:Adopting._tend",
        "for _ in range(2):",
        "for _ in range(0):",
        "unit/pipelines/test_compact_keyed",
        "test_only_the_versions_that_the_history_allows_stay_in_the_lake[False]",
    ),
    "keep refused views for good": Mutant(
        "inbox.inbox:Inbox._remove_leftovers",
        "refused_ones.sweep(self._folder, handovers.REFUSED, due_us)",
        "pass",
        "unit/inbox/test_refused",
        "test_what_was_refused_is_told_and_goes_after_a_week",
    ),
    "show hidden rows to Spark": Mutant(
        "spark.rows:_cut",
        "seqs[(seqs >= low) & (seqs <= high)]",
        "seqs[:0]",
        "spark/test_questions",
        "test_rows_that_are_hidden_in_many_places_are_left_out",
    ),
    "leave the rows that are in no file out of Spark's": Mutant(
        "spark.rows:frame_of",
        "memory = [rows for rows in apart.memory if rows.num_rows]",
        "memory = []",
        "spark/test_questions",
        "test_a_store_is_read_beside_its_writer_by_its_folder",
    ),
    "take the reservoir for all that there is": Mutant(
        "spark.saved:LakeTopic.__init__",
        'applied if kind == "queue" else max(applied, self.moved_seq)',
        "applied",
        "integration/test_spark_saved_views",
        "test_what_the_lake_has_behind_the_checkpoint_is_folded_in[moto]",
    ),
    "share the cache of views with readers": Mutant(
        "views.shelf:Shelf._reservoir_at",
        "bool(self._settings.url) and not self._readonly",
        "bool(self._settings.url)",
        "unit/views/test_shelf",
        "test_a_reader_does_not_keep_a_writer_from_views_somewhere_else",
    ),
}
