"""Bugs to plant in what is far from the log: lake, backups, pipelines, Spark."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FAR = {
    "let the local copy go before the commit": Mutant(
        "topic.relocator:Relocator._relocate",
        """\
            manifest = self._intake.commit(state.id, _adding(file))
            self._adopt(state, manifest)
""",
        """\
            self._adopt(state, manifest.with_added([file]))
            self._let_go(state, hot_first, {})
            manifest = self._intake.commit(state.id, _adding(file))
            self._adopt(state, manifest)
""",
        "unit/topic/test_relocation_order",
        "test_no_local_copy_is_let_go_before_the_commit",
    ),
    "let the local copy go without a commit": Mutant(
        "topic.relocator:Relocator._relocate",
        "manifest = self._intake.commit(state.id, _adding(file))",
        "manifest = manifest.with_added([file])",
        "unit/topic/test_relocation",
        "test_a_relocation_that_was_cut_off_after_its_commit_goes_on_where_it_was",
    ),
    "believe an upload without reading it back": Mutant(
        "lake.upload:Uploads.write",
        "self._read_back(topic_id, file)",
        "pass",
        "unit/topic/test_relocation",
        "test_a_file_that_reads_back_as_other_bytes_is_not_listed",
    ),
    "read a zone of the lake without its checksum": Mutant(
        "lake.reader:LakeFileReader._rows",
        "if xxh3_64_intdigest(place, self._topic_id) != info.checksum:",
        "if False:",
        "unit/topic/test_cold_reads",
        "test_damage_in_the_lake_costs_its_zone_and_nothing_else",
    ),
    "take a part of a zone for a zone": Mutant(
        "lake.reader:LakeFileReader._rows",
        "if len(fetched) != info.size:",
        "if False:",
        "unit/lake/test_lake_damage",
        "test_an_answer_that_is_too_short_or_too_long_is_damage",
    ),
    "take another's manifest for ours": Mutant(
        "lake.ledger:Ledger._write",
        "if self._history.attempt_at(manifest.number) != attempt:",
        "if False:",
        "unit/lake/test_committers_race",
        "test_a_committer_who_is_beaten_every_time_loses_nothing",
    ),
    "sweep without a grace period": Mutant(
        "lake.sweep:sweep",
        "if each.at_us <= now_us - round(grace_s * _US)",
        "if each.at_us <= now_us",
        "unit/lake/test_sweep",
        "test_a_file_that_left_stays_for_the_grace_period",
    ),
    "sweep what a retained manifest names": Mutant(
        "lake.sweep:sweep",
        "for each in over if each.number <= base",
        "for each in over",
        "unit/lake/test_sweep",
        "test_a_pinned_version_keeps_its_files",
    ),
    "tell the lake of a delete that may be undone": Mutant(
        "topic.relocator:Relocator._keep_up",
        "shard.committer.wait_synced(shard.writer.end_lsn)",
        "pass",
        "unit/topic/test_relocation_order",
        "test_the_lake_is_not_told_of_a_delete_that_a_power_loss_undoes",
    ),
    "mix the histories of two copies of a store": Mutant(
        "topic.relocator:Relocator._compare",
        "if not pa.concat_tables(ours).equals(theirs):",
        "if False:",
        "unit/topic/test_relocation",
        "test_a_copy_of_a_store_that_went_another_way_does_not_mix_with_it",
    ),
    "count what was deleted while its copy was let go": Mutant(
        "topic.relocator:Relocator._let_go",
        "payload - self._lost_since(state, seqs, taken)",
        "payload",
        "unit/topic/test_two_copies",
        "test_a_delete_while_the_local_copy_is_let_go_is_not_counted_twice",
    ),
    "scrub a lake file without its hash": Mutant(
        "lake.check:check_file",
        "if hasher.hexdigest() == file.content:",
        "if True:",
        "unit/topic/test_scrubbing",
        "test_a_bad_lake_file_is_written_anew_from_the_segments[flipped]",
    ),
    "trust what a failed backup left": Mutant(
        "backup.copier:Copier._is_rest",
        "return digest(fetch(self._objects, wanted)) == wanted.content",
        "return True",
        "test_backup_crash",
        "test_what_a_failed_attempt_left_is_read_before_it_is_used",
    ),
    "forget to tell the lake of a schema": Mutant(
        "topic.relocator:Relocator._tell_schema",
        "if manifest.with_schema(schema) is not manifest:",
        "if not manifest.schemas:",
        "test_typed_relocation_crash",
        "test_a_change_of_schema_and_a_move_without_a_crash",
    ),
    "read a column of another type as it is": Mutant(
        "lake.bounds:reads_as",
        "return False",
        "return True",
        "unit/lake/test_bounds",
        "test_a_column_is_shown_as_a_type_that_holds_it",
    ),
    "take a file for one without nulls": Mutant(
        "lake.bounds:_Column.between",
        "if stats.nulls else bounds",
        "if False else bounds",
        "unit/lake/test_bounds",
        "test_a_filter_finds_every_row_that_it_should",
    ),
    "give up a row for one field": Mutant(
        "lake.typed:Shape._by_field",
        "parts = astuple(self._cut.decode(text))",
        "return self._row_type()",
        "unit/lake/test_typed",
        "test_every_row_is_what_a_plain_reading_gives",
    ),
    "call a restore a store before it is one": Mutant(
        "backup.restore:_Restorer.run",
        "root = self._read_root(found)",
        "system.write(self._disk, self._layout.directory, self._store_id, 1)\n"
        "        root = self._read_root(found)",
        "test_backup_crash",
        "test_a_crash_at_any_step_of_a_restore_leaves_the_whole_store_or_none[kill]",
    ),
    "restore bytes that nobody checked": Mutant(
        "backup.restore:_Source.stream",
        "if hasher.hexdigest() == wanted.content:",
        "if True:",
        "test_backup_crash",
        "test_any_call_to_the_place_may_fail_in_a_restore[flipped]",
    ),
}
