"""Mutants of pipelines: merges, folds on many processes, rebuilt tables, and Spark."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Remove, Replace, Rewrite, Set, Use

PIPELINES = {
    "forget the released part of a merged file": Mutant(
        "lake.cold_index:ColdIndex.payload_below",
        Set("Return 1", "return _ + (_ if _ <= _ < _ else 0)", "IfExp 1", 0),
        "unit/log/topic/test_compacted_by_others",
        "test_what_straddles_counts_its_released_part_and_later_all_of_it[False]",
    ),
    "count a merged file anew": Mutant(
        "lake.cold_index:replace_manifest",
        Replace(
            "Assign 9",
            "_ = _(_, _, _)",
            "Call 1",
            "{Name 5}.{name 1}",
            names=("lake.manifest.file_entry:LakeFile.payload",),
        ),
        "unit/log/topic/test_compacted_by_others",
        "test_a_merged_file_counts_no_more_than_those_in_its_place",
    ),
    "compare what was let go with nothing": Mutant(
        "log.checkpoint.relocator:Relocator._compare",
        Drop("Assign 2", "_ = _(_, _, _ + 1)", "BinOp 1"),
        "unit/log/topic/test_compacted_by_others",
        "test_what_is_merged_after_a_crash_is_compared_as_far_as_it_is_here",
    ),
    "look for tags in whole files only": Mutant(
        "log.state.delete_rules:find_tagged_cold",
        Replace(
            "If 2",
            "if _[_] < _ or _[_] > _:",
            "BoolOp 1",
            "not {Name 3} <= {Subscript 1} <= {Attribute 3}",
        ),
        "unit/log/topic/test_compacted_by_others",
        "test_a_tag_is_found_in_the_released_part_of_a_file_that_straddles",
    ),
    "leave local records to the ttl of their file": Mutant(
        "log.retention.retention:_ttl_floor",
        Force("If 5", "if not _ or not _(_, _, _):", True),
        "unit/log/topic/test_compacted_by_others",
        "test_ttl_takes_local_records_to_the_record_though_their_file_goes_on",
    ),
    "let a merge end the turn of the store": Mutant(
        "log.checkpoint.relocator:Relocator._update_manifest",
        Replace("ExceptHandler 2", "except _: (2 of 2)", "Name 1", "KeyError"),
        "unit/log/topic/test_compacted_by_others",
        "test_a_rewrite_that_meets_a_merge_gives_way_and_leaves_nothing",
    ),
    "leave what a refused merge wrote": Mutant(
        "pipelines.compaction.compact:_Compaction._commit",
        Remove("Expr 4", "_(_(_, _))"),
        "unit/log/topic/test_compacted_by_others",
        "test_a_merge_that_meets_a_rewrite_gives_way_and_leaves_nothing",
    ),
    "merge rows that are gone": Mutant(
        "pipelines.compaction.compaction_task:_GroupReader._live",
        Rewrite(
            "Return 2",
            "return _(_(_))",
            "{AugAssign 2: Attribute 1} = 0\n{Return 1}",
            others=("_ += _(_) - _(_())", "return _"),
        ),
        "unit/pipelines/compaction/test_compact",
        "test_rows_that_are_gone_are_dropped_and_no_longer_hidden",
    ),
    "believe a second answer like the first": Mutant(
        "pipelines.compaction.compaction_task:_FileReader._retry_once",
        Remove("Assign 1", "_ = None"),
        "crash/sim/test_compact_crash",
        "test_an_answer_that_is_bad_once_damages_no_group[truncated]",
    ),
    "know no shard but those of the last root": Mutant(
        "log.checkpoint.checkpoint_store:is_replayed",
        Replace("Return 1", "return _ & _ >= _(_ >> _, 0)", "Call 1", "{Name 3}[{BinOp 2}]"),
        "unit/store/test_shards",
        "test_a_shard_that_came_and_went_without_a_checkpoint_is_replayed_after_a_relocation",
    ),
    "call what has left the lake damaged": Mutant(
        "pipelines.scrub:_still_in_use",
        Use("If 2", "if _(_()) is not None:", "Compare 1", "Name 1"),
        "unit/pipelines/test_scrub",
        "test_a_file_that_is_merged_and_swept_meanwhile_is_no_finding",
    ),
    "let ranges of keys hear nothing that is about all": Mutant(
        "pipelines.view_rebuild.shuffle_task:_write_run",
        Replace("Assign 9", "_ = _(_(_)) (2 of 3)", "Call 1", "{Name 2}.slice(0, 0)"),
        "unit/pipelines/view_rebuild/test_rebuild_view",
        "test_a_view_is_the_same_as_what_its_log_is_folded_into_in_pieces[series]",
    ),
    "compare the names of keys": Mutant(
        "pipelines.view_rebuild.range_checksums:key_checksum",
        Set("Return 1", "return _(_, _(_))", "Call 2", b""),
        "unit/pipelines/view_rebuild/test_rebuild_view",
        "test_a_key_that_is_not_what_the_log_says_is_named",
    ),
    "go on with runs that are gone": Mutant(
        "pipelines.view_rebuild.task_checkpoint:TaskCheckpoint._load",
        Use("If 3", "if _((_(_)._ >= _ for _, _ in _())):", "Call 1", "Name 7"),
        "unit/pipelines/test_rebuild_killed",
        "test_what_a_killed_rebuild_has_left_is_not_trusted[gone--run-]",
    ),
    "go on with a view of other options": Mutant(
        "pipelines.view_rebuild.task_checkpoint:TaskCheckpoint._name",
        Use("Assign 3", "_ = (_, _(_)._, (_, _, _, _), _)", "Tuple 2", "Attribute 2"),
        "unit/pipelines/test_rebuild_killed",
        "test_another_view_other_options_and_a_topic_made_anew_take_nothing_over",
    ),
    "note no task that is done": Mutant(
        "pipelines.view_rebuild.task_checkpoint:TaskCheckpoint._save",
        Remove("Expr 2", "_(_, _(_) + _)"),
        "unit/pipelines/test_rebuild_killed",
        "test_a_rebuild_that_was_killed_goes_on_where_it_was[kv-True]",
    ),
    "share notes with a run beside": Mutant(
        "pipelines.view_rebuild.task_checkpoint:TaskCheckpoint.__init__",
        Force("If 1", "if _ is not None:", True),
        "unit/pipelines/test_rebuild_killed",
        "test_two_rebuilds_of_one_view_do_not_disturb_each_other",
    ),
    "compare a table without the deletes that came later": Mutant(
        "pipelines.view_rebuild.table_verify_task:range_tasks",
        Drop("Expr 1", "_(_(_=_, _=_, _=_(_(_, _, _, _)), _=_((_ for _ i... 0a159e05", "Compare 2"),
        "unit/pipelines/view_rebuild/test_rebuild_table",
        "test_a_table_is_the_same_as_its_log",
    ),
    "call rows that are deleted meanwhile a difference": Mutant(
        "pipelines.view_rebuild.rebuild_table:TableRebuild.run",
        Force("If 2", "if _ or not _(_):", True),
        "unit/pipelines/view_rebuild/test_rebuild_table",
        "test_deletes_while_it_is_compared_are_no_difference",
    ),
    "accept windows that a point has come to": Mutant(
        "views.metrics.external_rollups:append_external_windows",
        Use("Return 2", "return None if _(_, _) else _", "IfExp 1", "Name 4"),
        "unit/pipelines/test_rollup",
        "test_a_point_that_comes_while_its_window_is_made_is_in_it",
    ),
    "accept windows that somebody else has made": Mutant(
        "views.metrics.external_rollups:append_external_windows",
        Drop("If 1", "if _ is None or _ != _ or _ != _:", "Compare 3"),
        "unit/pipelines/test_rollup",
        "test_windows_that_somebody_else_has_made_are_not_made_again",
    ),
    "leave a view that is far behind to the writer": Mutant(
        "pipelines.compaction.compact_by_key:compact_keyed",
        Force("If 1", "if _ > _:", False),
        "unit/pipelines/test_compact_keyed",
        "test_a_view_that_is_far_behind_is_folded_by_tasks_first",
    ),
    "merge before keys have let go": Mutant(
        "ingest.view_handoff_job:ViewHandoffJob._maintain",
        Set("For 1", "for _ in _(2):", "Constant 1", 0),
        "unit/pipelines/test_compact_keyed",
        "test_only_the_versions_that_the_history_allows_stay_in_the_lake[False]",
    ),
    "keep refused views for good": Mutant(
        "ingest.delivery_job:IngestJob._remove_leftovers",
        Remove("Expr 3", "_(_, _, _) (2 of 2)"),
        "unit/ingest/test_rejected",
        "test_what_was_refused_is_told_and_goes_after_a_week",
    ),
    "show hidden rows to Spark": Mutant(
        "spark.tables.event_rows:_cut",
        Replace(
            "Return 1", "return _(_, _, _, _[(_ >= _) & (_ <= _)])", "Subscript 1", "{Name 5}[:0]"
        ),
        "spark/test_questions",
        "test_rows_that_are_hidden_in_many_places_are_left_out",
    ),
    "leave the rows that are in no file out of Spark's": Mutant(
        "spark.tables.event_rows:frame_of_scan",
        Set("Assign 2", "_ = [_ for _ in _ if _]", "ListComp 1", []),
        "spark/test_questions",
        "test_a_store_is_read_beside_its_writer_by_its_folder",
    ),
    "take the reservoir for all that there is": Mutant(
        "spark.read.saved_view_source:SavedViewTopic.__init__",
        Use("Assign 7", "_ = _ if _ == '' else _(_, _)", "IfExp 1", "Name 3"),
        "integration/test_spark_saved_views",
        "test_what_the_lake_has_behind_the_checkpoint_is_folded_in[moto]",
    ),
    "share the cache of views with readers": Mutant(
        "views.view_registry:ViewRegistry._reservoir_at",
        Drop("Assign 2", "_ = _(_) and (not _)", "UnaryOp 1"),
        "unit/views/test_view_registry",
        "test_a_reader_does_not_keep_a_writer_from_views_somewhere_else",
    ),
}
