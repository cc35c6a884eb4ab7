"""The code broken on purpose: one promise at a time, each with the test that must notice.

A mutant replaces a few characters of one function. ``STRANDLINE_MUTANT=name`` plants it before any
test runs (``tests/conftest.py``). When the function has changed so that the text is not in it any
more, the mutant says so: give it the new text, or drop it when the promise is gone.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
import types

from tests.mutants.mutant import Mutant
from tests.mutants.pipelines import PIPELINES
from tests.mutants.transfers import TRANSFERS

MUTANTS = {
    "acknowledge before the sync": Mutant(
        "wal.committer:Committer._round",
        "files[-1].sync()",
        "pass",
        "test_power_loss",
        "test_records_behind_a_rotation_are_durable_when_they_are_acknowledged",
    ),
    "rotate without syncing the directory": Mutant(
        "wal.committer:Committer._round",
        "if names_dirty:",
        "if False:",
        "test_power_loss",
        "test_records_behind_a_rotation_are_durable_when_they_are_acknowledged",
    ),
    "rotate without syncing the old file": Mutant(
        "wal.committer:Committer._round",
        "for file in files[:-1]:",
        "for file in ():",
        "test_power_loss",
        "test_records_placed_over_several_files_become_durable_together",
    ),
    "forget what an interrupted sync was to sync": Mutant(
        "wal.committer:Committer._round",
        "except BaseException:\n            writer.give_back(files[:-1], names_dirty=names_dirty)",
        "except BaseException:",
        "test_calls_fail",
        "test_an_interrupted_sync_leaves_nothing_unsynced_behind",
    ),
    "retry a failed sync": Mutant(
        "wal.committer:Committer._round",
        """\
            writer.poison(f"a sync of shard {writer.files.shard} failed ({error})")
            self._pending.clear()
            self._check()
""",
        """\
            del error
            files[-1].sync()
""",
        "test_sync_fails",
        "test_everybody_who_waited_for_a_failed_sync_is_told",
    ),
    "replace a file without syncing it": Mutant(
        "env.disk:OsDurableFile.commit",
        "os.fsync(_open_fd(self._fd, self._path))",
        "pass",
        "test_disk_order",
        "test_a_replacement_syncs_the_file_renames_it_and_syncs_the_directory",
    ),
    "link a new file without syncing it": Mutant(
        "env.disk:OsDurableFile.commit_new",
        "os.fsync(_open_fd(self._fd, self._path))",
        "pass",
        "test_disk_order",
        "test_a_new_file_is_synced_linked_and_its_directory_synced",
    ),
    "link a new file without syncing its directory": Mutant(
        "env.disk:OsDurableFile.commit_new",
        "_sync_dir(os.path.dirname(self._path))",
        "pass",
        "test_disk_order",
        "test_a_new_file_is_synced_linked_and_its_directory_synced",
    ),
    "replace a file without syncing its directory": Mutant(
        "env.disk:OsDurableFile.commit",
        "_sync_dir(os.path.dirname(self._path))",
        "pass",
        "test_disk_order",
        "test_a_replacement_syncs_the_file_renames_it_and_syncs_the_directory",
    ),
    "ignore a short write": Mutant(
        "env.disk:_write_all",
        "while done < size:",
        "while False:",
        "test_disk_order",
        "test_a_short_write_is_continued_until_every_byte_is_there",
    ),
    "leave a half frame in front of the next": Mutant(
        "wal.writer:Writer._roll_back",
        "file.write(offset, [bytes(size)])",
        "self._offset = offset + size",
        "test_calls_fail",
        "test_any_write_may_be_cut_short[5000-write]",
    ),
    "go on in the file of a failed write": Mutant(
        "wal.writer:Writer._roll_back",
        "self._leave_file()",
        "pass",
        "test_calls_fail",
        "test_a_frame_behind_a_failed_write_does_not_mix_with_it_after_a_power_loss",
    ),
    "store the first eight bytes first": Mutant(
        "wal.writer:Writer._store_frame",
        """\
            if size <= _MAPPED_SIZE_MAX:
""",
        """\
            file.words[offset >> 3] = first
            if size <= _MAPPED_SIZE_MAX:
""",
        "test_power_loss",
        "test_a_kill_between_any_two_stores_of_a_frame_leaves_no_half_frame[3000]",
    ),
    "do not mask zero sectors": Mutant(
        "wal.writer:Writer._without_zero_sectors",
        "if not _zero_sector_suspected(buffers, file_offset):",
        "if True:",
        "test_damage",
        "test_a_damaged_last_frame_full_of_zeros_is_no_torn_write",
    ),
    "begin a term without saying so on the disk": Mutant(
        "wal.writer:Writer._rotate",
        "first_of_term = self._file is None or self._offset == codec.FILE_HEADER_SIZE",
        "first_of_term = False",
        "test_lost_tails",
        "test_a_power_loss_right_after_a_clean_close_and_one_append_is_reported[disk]",
    ),
    "keep a replaced file in the list": Mutant(
        "wal.files:ShardFiles.add",
        "if known.first_lsn != entry.first_lsn",
        "if True",
        "test_checkpoint_crash",
        "test_a_file_that_was_begun_twice_at_the_same_place_is_not_removed_with_the_first_one",
    ),
    "read a record of the log without its checksum": Mutant(
        "wal.reader:Reader.single",
        "if codec.body_ok(body, body_check, self._seed):",
        "if True:",
        "test_damage",
        "test_a_flipped_bit_under_an_open_log_is_noticed_by_a_reader",
    ),
    "read a segment without its checksums": Mutant(
        "segment.reader:Segment.read_block",
        'if codec.block_checksum(stored, self._seed, row["offset"]) != row["checksum"]:',
        "if False:",
        "test_damage",
        "test_a_flipped_bit_in_a_segment_is_noticed_by_a_reader",
    ),
    "cut the log at the first bad frame": Mutant(
        "wal.recovery:ShardLog._stopped",
        "if torn and base + offset >= durable:",
        "if True:",
        "test_damage",
        "test_a_log_is_not_cut_at_a_damaged_frame",
    ),
    "take synced zeros for a torn write": Mutant(
        "wal.recovery:ShardLog._stopped",
        "if torn and base + offset >= durable:",
        "if torn:",
        "test_damage",
        "test_zeros_where_synced_frames_were_are_no_torn_write",
    ),
    "check a frame without its place": Mutant(
        "wal.recovery:ShardLog._frames",
        "if lsn != base + offset or size <= HEADER_SIZE",
        "if size <= HEADER_SIZE",
        "test_damage",
        "test_a_frame_that_was_written_to_the_next_frames_place_is_noticed",
    ),
    "trust the page cache after a restart": Mutant(
        "store:Store._wire",
        "reopen.secure_tail(disk, log)",
        "pass",
        "test_sync_fails",
        "test_what_the_next_opening_shows_after_a_failed_sync_is_made_durable_before",
    ),
    "delete what nothing refers to": Mutant(
        "topic.reopen:_quarantine",
        'disk.rename(path, f"{layout.quarantine}/{folder}-{name}")',
        "disk.remove(path)",
        "test_damage",
        "test_a_segment_that_nothing_refers_to_is_set_aside_not_deleted",
    ),
    "clean up although a root is damaged": Mutant(
        "topic.reopen:quarantine_orphans",
        """\
            found.complaints.append(str(error))
            return
""",
        """\
            continue
""",
        "test_damage",
        "test_nothing_is_set_aside_when_either_root_is_damaged[0]",
    ),
    "use the seqs of a lost tail again": Mutant(
        "topic.reopen:may_have_lost",
        'return durability == "memory" or not same_boot',
        "return False",
        "test_lost_tails",
        "test_a_power_loss_right_after_a_clean_close_and_one_append_is_reported[disk]",
    ),
    "give seqs out before they are reserved": Mutant(
        "topic.append:_reserve",
        "return shard.writer.end_lsn if needed > state.ceiling else 0",
        "return 0",
        "test_lost_tails",
        "test_seqs_beyond_the_first_reservation_are_not_used_again[ephemeral]",
    ),
    "hide a loss from the opening after a kill": Mutant(
        "topic.reopen:declare_lost_tails",
        "hiding = [] if same_boot else shards",
        "hiding = []",
        "test_lost_tails",
        "test_a_kill_while_losses_are_being_declared_does_not_hide_them[disk]",
    ),
    "take records behind the last word of a close": Mutant(
        "topic.ending:end_shard",
        'writer.turn_away(Closed("the store is closed: open it again"))',
        "pass",
        "test_lost_tails",
        "test_an_append_during_a_close_is_refused_or_kept",
    ),
    "log a delete before the records that it deletes": Mutant(
        "topic.topic:Topic._delete",
        "flush_waiting(state, shard)",
        "pass",
        "test_deletes_survive",
        "test_a_delete_by_seq_of_records_in_memory_survives",
    ),
    "return from a delete before it is durable": Mutant(
        "topic.topic:Topic.delete",
        'if state.config.durability == "fsync":',
        "if False:",
        "test_deletes_survive",
        "test_a_delete_in_an_fsync_topic_is_durable_when_it_returns",
    ),
    "remove log files that the older root needs": Mutant(
        "topic.roots:Roots.clean",
        "self.previous.replay_lsn(shard.number)",
        "self.current.replay_lsn(shard.number)",
        "test_checkpoint_crash",
        "test_a_damaged_newest_root_costs_nothing",
    ),
    "remove a shard that the older root needs": Mutant(
        "topic.roots:Roots.clean",
        "covered = min(entry.replay_lsn, self.current.replay_lsn(entry.shard)) >= end_lsn",
        "covered = True",
        "test_checkpoint_crash",
        "test_a_damaged_newest_root_costs_nothing_after_shards_were_given_up",
    ),
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
        "if xxh3_64_intdigest(stored, self._topic_id) != info.checksum:",
        "if False:",
        "unit/topic/test_cold_reads",
        "test_damage_in_the_lake_costs_its_zone_and_nothing_else",
    ),
    "take another's manifest for ours": Mutant(
        "lake.ledger:Ledger._write",
        "if self._history.attempt_at(manifest.number) != attempt:",
        "if False:",
        "unit/lake/test_committers_race",
        "test_a_committer_who_is_beaten_every_time_loses_nothing",
    ),
    "take our own object for another's after a lost reply": Mutant(
        "env.objects:recognise",
        "if objects.get(key) == data or objects.get(key) == data:",
        "if False:",
        "unit/env/test_retrying",
        "test_any_request_may_fail_once_and_nothing_that_is_seen_changes[after]",
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
    "scrub a segment by what is remembered of it": Mutant(
        "topic.scrubber:Scrubber._check_segment",
        "walk_segment(self._disk, self._library.afresh(segment))",
        "walk_segment(self._disk, segment)",
        "unit/topic/test_scrubbing",
        "test_a_segment_whose_index_alone_is_damaged_needs_no_lake",
    ),
    "give up what the lake still has": Mutant(
        "topic.rewrite:Rewriter.run",
        "spans = [(max(first, state.cold_next), last) for first, last in wanted.spans[state.id]]",
        "spans = wanted.spans[state.id]",
        "corruption/test_repair_from_lake",
        "test_damaged_segments_that_the_lake_has_are_dropped_without_loss[missing-no lake]",
    ),
    "swallow a bug in a job": Mutant(
        "jobs:Job._turn",
        "return self._die(repr(error))",
        "return bool(repr(error))",
        "test_job_death",
        "test_a_bug_in_the_sync_job_turns_the_store_red_and_ends_all_appends",
    ),
    "let a dead backup hold files": Mutant(
        "topic.pins:Pins.held",
        "self._let_go(path, alone)",
        "return True",
        "test_backup_crash",
        "test_a_crash_of_the_store_at_any_step_of_a_backup_loses_nothing[kill]",
    ),
    "trust what a failed backup left": Mutant(
        "backup.copier:Copier._is_rest",
        "return digest(fetch(self._objects, wanted)) == wanted.content",
        "return True",
        "test_backup_crash",
        "test_what_a_failed_attempt_left_is_read_before_it_is_used",
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
    **PIPELINES,
    **TRANSFERS,
}

SAMPLE = (
    "acknowledge before the sync",
    "retry a failed sync",
    "cut the log at the first bad frame",
    "use the seqs of a lost tail again",
    "let the local copy go before the commit",
    "believe an upload without reading it back",
)
"""Run with every ``make test``; all of them with ``make crash``."""


def plant(name: str) -> None:
    """Break the function, for everybody who has imported it already, too."""
    mutant = MUTANTS[name]
    function = _function(mutant.place)
    source = textwrap.dedent(_mutated(mutant))
    space = dict(function.__globals__)
    exec(compile(source, f"<mutant: {name}>", "exec"), space)  # our own source, see above
    function.__code__ = space[function.__name__].__code__


def fits(mutant: Mutant) -> bool:
    """Whether the text to replace is in the function once."""
    return inspect.getsource(_function(mutant.place)).count(mutant.old) == 1


def _mutated(mutant: Mutant) -> str:
    assert fits(mutant), f"{mutant.place} has changed: {mutant.old!r} is not in it once"
    return inspect.getsource(_function(mutant.place)).replace(mutant.old, mutant.new)


def _function(place: str) -> types.FunctionType:
    module, _, name = place.partition(":")
    found: object = importlib.import_module(f"strandline.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    assert isinstance(found, types.FunctionType)
    return found
