"""Mutants of deliveries, imports and exports: each row arrives once."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Remove, Replace, Set, Swap, Use

IMPORTS = "unit/pipelines/test_import"
EXPORTS = "unit/pipelines/test_export"


DELIVERIES = {
    "forget a delivery before its rows are synced": Mutant(
        "ingest.delivery_job:IngestJob._process",
        Remove("Expr 5", "_()"),
        "test_delivery_crash",
        "test_a_crash_at_any_step_of_a_delivery_appends_it_exactly_once[disk-power loss-folder]",
    ),
    "take a delivery for taken when its first chunk is": Mutant(
        "ingest.delivery_codec:TopicDelivery.is_appended",
        Use("Return 1", "return _ is not None and _ >= _ << _ | _", "BinOp 1", "BinOp 2"),
        "test_delivery_crash",
        "test_a_crash_between_two_chunks_goes_on_behind_the_first",
    ),
    "miss that the last chunk was taken": Mutant(
        "ingest.delivery_codec:TopicDelivery.is_appended",
        Swap("Return 1", "return _ is not None and _ >= _ << _ | _", "Compare 2", ">"),
        "unit/ingest/test_delivery_codec",
        "test_a_delivery_is_taken_when_its_last_chunk_is_however_it_was_cut",
    ),
    "number the last chunk by its place": Mutant(
        "ingest.delivery_codec:TopicDelivery.chunk",
        Force("If 1", "if _ == _ - 1:", False),
        "unit/ingest/test_delivery_job",
        "test_a_number_that_comes_again_in_other_chunks_is_recognised[3]",
    ),
    "give deliveries to two topics one name": Mutant(
        "ingest.delivery_codec:name_of",
        Drop("Return 1", "return f(_(f(_, _)), _)", "FormattedValue 2", count=2),
        "unit/ingest/test_delivery_job",
        "test_producers_and_topics_do_not_meet",
    ),
    "let a later number pass one that waits": Mutant(
        "ingest.delivery_job:IngestJob.run_once",
        Force("If 1", "if _ in _:", False),
        "unit/ingest/test_delivery_job",
        "test_a_later_number_does_not_pass_one_that_waits",
    ),
    "append before all rows are checked": Mutant(
        "ingest.delivery_job:IngestJob._process",
        Remove("Expr 2", "_(_, _) (2 of 3)"),
        "unit/ingest/test_delivery_job",
        "test_what_cannot_be_appended_is_refused_whole_and_holds_up_nobody",
    ),
    "append a part of what a cap never allows": Mutant(
        "log.topic.topic:Topic.check_arrow",
        Use("Expr 1", "_(_, _(_, None, _))", "Call 1", "Call 2"),
        "unit/ingest/test_delivery_job",
        "test_a_chunk_that_a_cap_never_allows_refuses_all_of_it",
    ),
    "remove a leftover that is delivered": Mutant(
        "ingest.delivery_job:IngestJob._remove_leftovers",
        Drop("Expr 1", "_([_ for _ in _ if _ not in _])", "Compare 1"),
        "unit/ingest/test_delivery_job",
        "test_leftovers_go_after_a_week_and_never_a_file_that_is_delivered",
    ),
    "refuse a delivery for a bit that flips on the way": Mutant(
        "ingest.staged_files:_read",
        Set("For 1", "for _ in _(2):", "Constant 1", 1),
        "unit/ingest/test_staged_files",
        "test_bytes_that_change_on_the_way_once_are_read_again",
    ),
    "discard what is delivered": Mutant(
        "pipelines.delivery_client:discard",
        Use("Assign 5", "_ = {_ for _ in _} - {_ for _ in _}", "BinOp 1", "SetComp 1"),
        "unit/pipelines/test_delivery_client",
        "test_discard_removes_what_was_never_delivered_and_nothing_else",
    ),
    "remove the files of a delivery that is made again": Mutant(
        "pipelines.delivery_client:deliver",
        Replace(
            "Expr 4",
            "_(_, _, _, _=_, _=_, _=_)",
            "Call 1",
            (
                "{Assign 3: Name 2}({name 1}({Name 2}, {Name 7})).{name 2}([file.{name "
                "3} for file in {Name 4}])"
            ),
            others=("_ = _(_(_)._)",),
            names=(
                "pipelines.delivery_client:lake_of",
                "platform.objectstore.protocol:Objects.delete",
                "ingest.delivery_codec:StagedFile.key",
            ),
        ),
        "unit/pipelines/test_delivery_client",
        "test_delivering_the_same_files_again_does_no_harm[another]",
    ),
    "take a number twice": Mutant(
        "log.append.append:_find_numbered",
        Swap("If 1", "if _ is None or _ > _[0]:", "Compare 2", ">="),
        "unit/log/state/test_producer_seq",
        "test_a_number_is_taken_once",
    ),
    "acknowledge an older number before its sync": Mutant(
        "log.append.append:_find_duplicate",
        Drop("Assign 4", "_ = _ or _", "Attribute 1"),
        "unit/log/state/test_producer_seq",
        "test_a_repeated_number_is_acknowledged_only_after_its_sync",
    ),
    "tell in a root of numbers that are not synced": Mutant(
        "log.checkpoint.checkpoint_store:CheckpointStore.write",
        Remove("Expr 1", "_(_)"),
        "unit/log/state/test_producer_seq",
        "test_a_number_comes_with_its_rows_or_not_at_all_through_a_power_loss",
    ),
    "forget numbers at a checkpoint": Mutant(
        "log.checkpoint.checkpoint_store:entry_of",
        Set(
            "Return 1",
            "return _(_=_, _=_, _=_, _=_, _=_, _=_, _=_ + _, ... 89beead1",
            "BoolOp 1",
            {},
        ),
        "unit/log/state/test_producer_seq",
        "test_a_number_is_known_to_every_later_opening",
    ),
    "append a delivery at whatever head there is": Mutant(
        "ingest.delivery_codec:TopicDelivery.head_before",
        Set("Return 1", "return None if _(_, _) else _ + _", "IfExp 1", None),
        "unit/ingest/test_delivery_job",
        "test_a_delivery_at_a_head_is_refused_when_the_topic_has_gone_on",
    ),
    "take another's commit for one's own": Mutant(
        "pipelines.materialize:_Run._deliver",
        Force("If 1", "if not _(_):", False),
        "unit/pipelines/test_materialize",
        "test_of_two_deliveries_from_one_head_the_second_begins_again",
    ),
    "leave what a delivered commit replaced": Mutant(
        "query.materialized.result_log:_replaced",
        Set("For 2", "for _, _ in _:", "Attribute 1", ()),
        "unit/pipelines/test_materialize",
        "test_show_and_deliveries_take_turns_and_leave_no_frames_behind",
    ),
    "give Spark rows of the past": Mutant(
        "views.table.files.row_reader:_file_rows",
        Set("Assign 2", "_ = _ < _ or _ > _", "BoolOp 1", False),
        "unit/views/table/test_external_scan",
        "test_a_file_with_rows_that_are_not_wanted_is_cut",
    ),
    "import from the beginning again": Mutant(
        "pipelines.transfer.import_files:_Import.run",
        Use("Assign 9", "_ = _[_:]", "Subscript 1", "Name 2"),
        IMPORTS,
        "test_an_import_that_died_goes_on_and_repeats_nothing[3]",
    ),
    "forget what an import has delivered": Mutant(
        "pipelines.transfer.import_files:_Import._identify",
        Replace(
            "Assign 5",
            "_ = f(_, _) if _ else f(_)",
            "IfExp 1",
            "{name 1}().{name 2}().hex()",
            names=("platform.disk:OsDisk", "platform.disk:OsDisk.random_id"),
        ),
        IMPORTS,
        "test_an_import_that_is_complete_appends_nothing",
    ),
    "let an id stand for any files": Mutant(
        "pipelines.transfer.import_files:_Import._delivered_number",
        Force("If 3", "if _((_ != _ for _ in _)):", False),
        IMPORTS,
        "test_a_file_that_changed_under_an_id_is_refused",
    ),
    "leave what was staged and not delivered": Mutant(
        "pipelines.transfer.import_files:_Import._discard",
        Force("If 1", "if _:", False),
        IMPORTS,
        "test_a_part_that_is_refused_leaves_nothing_staged",
    ),
    "end a slice in the middle of a line": Mutant(
        "pipelines.transfer.file_formats:_Reader._blocks",
        Use("Assign 3", "_ = _(_, _) (2 of 2)", "Call 1", "Attribute 1"),
        IMPORTS,
        "test_however_files_are_cut_the_rows_are_the_same",
    ),
    "take a bad row for a good one": Mutant(
        "pipelines.transfer.row_mapping:_check",
        Force("If 2", "if _ == '':", False),
        f"{IMPORTS}_rows",
        "test_a_bad_row_ends_the_import_and_is_named[null.csv]",
    ),
    "go on with an export at another position": Mutant(
        "pipelines.transfer.export_files:_Export.run",
        Drop("Assign 7", "_ = _ or _(_, _, _, _)", "Name 2"),
        EXPORTS,
        "test_an_export_that_died_goes_on_with_the_same_records[-3]",
    ),
    "export what was done once more": Mutant(
        "pipelines.transfer.export_files:_Export._finished_ranges",
        Set("For 1", "for _ in _(_(_)):", "Call 1", []),
        EXPORTS,
        "test_an_export_that_died_goes_on_with_the_same_records[-3]",
    ),
    "skip in silence what has gone meanwhile": Mutant(
        "pipelines.transfer.export_files:_batches",
        Remove("Expr 2", "_(_(_=_, _=_, _=_))"),
        EXPORTS,
        "test_what_is_evicted_after_the_plan_is_told",
    ),
    "export into whatever is there": Mutant(
        "pipelines.transfer.export_files:_Export._load_manifest",
        Force("If 1", "if _:", False),
        EXPORTS,
        "test_a_folder_that_is_not_empty_is_refused",
    ),
}
