"""Mutants of pipelines, and of a store beside them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PIPELINES = {
    "forget the released part of a merged file": Mutant(
        "lake.cold:Cold.payload_below",
        "self.released_part if old_floor <= self.released < new_floor else 0",
        "0",
        "unit/topic/test_compacted_by_others",
        "test_what_straddles_counts_its_released_part_and_later_all_of_it[False]",
    ),
    "count a merged file anew": Mutant(
        "lake.cold:succeeded",
        "counts = _take(old, budgets, file)",
        "counts = file.payload",
        "unit/topic/test_compacted_by_others",
        "test_a_merged_file_counts_no_more_than_those_in_its_place",
    ),
    "compare what was let go with nothing": Mutant(
        "topic.relocator:Relocator._compare",
        "max(zone.first_seq, state.floor, known + 1)",
        "max(zone.first_seq, state.floor)",
        "unit/topic/test_compacted_by_others",
        "test_what_is_merged_after_a_crash_is_compared_as_far_as_it_is_here",
    ),
    "look for tags in whole files only": Mutant(
        "topic.deletes:find_tagged_cold",
        "cold.lasts[place] < floor or cold.firsts[place] > cold.released",
        "not floor <= cold.lasts[place] <= cold.released",
        "unit/topic/test_compacted_by_others",
        "test_a_tag_is_found_in_the_released_part_of_a_file_that_straddles",
    ),
    "leave local records to the ttl of their file": Mutant(
        "topic.retention:_ttl_floor",
        "if not straddles or not _is_older(pieces, hot_seq, cutoff):",
        "if True:",
        "unit/topic/test_compacted_by_others",
        "test_ttl_takes_local_records_to_the_record_though_their_file_goes_on",
    ),
    "let a merge end the turn of the store": Mutant(
        "topic.relocator:Relocator._keep_up",
        "except Conflict:  # somebody else has replaced it",
        "except KeyError:",
        "unit/topic/test_compacted_by_others",
        "test_a_rewrite_that_meets_a_merge_gives_way_and_leaves_nothing",
    ),
    "leave what a refused merge wrote": Mutant(
        "pipelines.compact:_Compaction._settle",
        "self._lake.objects.delete(_objects_of(group, new))",
        "pass",
        "unit/topic/test_compacted_by_others",
        "test_a_merge_that_meets_a_rewrite_gives_way_and_leaves_nothing",
    ),
    "merge rows that are gone": Mutant(
        "pipelines.merge:_Reading._live",
        "return table.filter(pa.array(keep))",
        "self.dropped = 0\n        return table",
        "unit/pipelines/test_compact",
        "test_rows_that_are_gone_are_dropped_and_no_longer_hidden",
    ),
    "believe a second answer like the first": Mutant(
        "pipelines.merge:_Source._twice",
        "self._whole = None\n            ",
        "",
        "crash/sim/test_compact_crash",
        "test_an_answer_that_is_bad_once_damages_no_group[truncated]",
    ),
    "know no shard but those of the last root": Mutant(
        "topic.roots:is_replayed",
        "replay_lsns.get(location >> LOCATION_SHARD_BITS, 0)",
        "replay_lsns[location >> LOCATION_SHARD_BITS]",
        "unit/store/test_shards",
        "test_a_shard_that_came_and_went_without_a_checkpoint_is_replayed_after_a_relocation",
    ),
    "call what has left the lake damaged": Mutant(
        "pipelines.scrub:_still_bad",
        "if newest.named(each.file.name()) is not None:",
        "if newest:",
        "unit/pipelines/test_scrub",
        "test_a_file_that_is_merged_and_swept_meanwhile_is_no_finding",
    ),
}
