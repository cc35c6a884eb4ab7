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

from tests.mutants.clients import CLIENTS
from tests.mutants.deliveries import DELIVERIES
from tests.mutants.far import FAR
from tests.mutants.groups import GROUPS
from tests.mutants.identity import IDENTITY
from tests.mutants.kv import KV
from tests.mutants.memory import MEMORY
from tests.mutants.metrics import METRICS
from tests.mutants.mutant import Mutant
from tests.mutants.pipelines import PIPELINES
from tests.mutants.questions import QUESTIONS
from tests.mutants.queues import QUEUES
from tests.mutants.rebuilding import REBUILDING
from tests.mutants.reservoir import RESERVOIR
from tests.mutants.security import SECURITY
from tests.mutants.series import SERIES
from tests.mutants.served import SERVED
from tests.mutants.simulated import SIMULATED
from tests.mutants.tables import TABLES
from tests.mutants.transfers import TRANSFERS
from tests.mutants.views import VIEWS
from tests.mutants.zones import ZONES

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
        'return durability == "memory" or not found.page_cache_kept',
        "return False",
        "test_lost_tails",
        "test_a_power_loss_right_after_a_clean_close_and_one_append_is_reported[disk]",
    ),
    "take the boot for the page cache": Mutant(
        "wal.files:ShardFiles.page_cache",
        "self.disk.page_cache_id(self.directory)",
        "self.disk.boot_id()",
        "test_lost_tails",
        "test_a_remount_is_reported_as_a_power_loss_is[disk]",
    ),
    "take an unknown page cache for the same": Mutant(
        "env.page_cache:page_cache_id",
        "or os.urandom(16).hex()",
        'or ""',
        "unit/env/test_page_cache",
        "test_what_cannot_be_identified_never_equals_an_earlier_id",
    ),
    "give seqs out before they are reserved": Mutant(
        "topic.append:reserve",
        "return shard.writer.end_lsn if needed > state.ceiling else 0",
        "return 0",
        "test_lost_tails",
        "test_seqs_beyond_the_first_reservation_are_not_used_again[ephemeral]",
    ),
    "hide a loss from the opening after a kill": Mutant(
        "topic.reopen:declare_lost_tails",
        "hiding = [] if found.page_cache_kept else shards",
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
        "topic.deleting:Deleting._carry_out",
        "flush_waiting(state, shard, below)",
        "pass",
        "test_deletes_survive",
        "test_a_delete_by_seq_of_records_in_memory_survives",
    ),
    "return from a delete before it is durable": Mutant(
        "topic.deleting:Deleting._durable",
        'if self._state.config.durability == "fsync":',
        "if False:",
        "test_deletes_survive",
        "test_a_delete_in_an_fsync_topic_is_durable_when_it_returns",
    ),
    "let a sync wait for the writer's lock like an append": Mutant(
        "wal.committer:Committer._round",
        "writer.acquire_first(_TRIES_FOR_COROUTINES if self._futures else 1)",
        "writer.acquire()",
        "unit/wal/test_baton",
        "test_a_sync_does_not_wait_for_a_flood_of_appends[the fast lane]",
    ),
    "do not send the fast lane to the slow one when a sync waits": Mutant(
        "wal.writer:Writer._make_room",
        "raise HandOver",
        "pass",
        "unit/wal/test_baton",
        "test_a_sync_does_not_wait_for_a_flood_of_appends[the fast lane]",
    ),
    "spend a tag up to the head, whatever the bound": Mutant(
        "topic.tag_index:TagIndex.spend",
        "if part.last_seq < before:",
        "if True:",
        "property/test_tag_deletes_model",
        "test_deletes_through_the_index_are_those_of_a_scan",
    ),
    "write a root with payloads by averages": Mutant(
        "topic.roots:Roots._capture",
        "acquire_settled(shard.writer, group)",
        "shard.writer.acquire()",
        "unit/topic/test_deleted_payload",
        "test_bytes_are_exact_after_segments_are_written_again[True-kill]",
    ),
    "set a cap by bytes with payloads by averages": Mutant(
        "topic.altering:alter",
        "settle(state)",
        "pass",
        "unit/topic/test_deleted_payload",
        "test_a_cap_by_bytes_that_is_set_later_counts_exactly",
    ),
    "keep an index that no delete uses": Mutant(
        "topic.append:_published",
        "state.tags = None",
        "pass",
        "unit/topic/test_tag_deletes",
        "test_an_index_that_no_delete_uses_is_dropped",
    ),
    "make an index under the lock of other topics": Mutant(
        "topic.deleting:Deleting._delete_tagged",
        "tag_search.prepare(state, index, pieces)",
        "self._shard.maintenance.acquire(); tag_search.prepare(state, index, pieces); "
        "self._shard.maintenance.release()",
        "unit/topic/test_tag_deletes",
        "test_an_index_is_made_without_the_locks_of_other_topics[_shared]",
    ),
    "forget the tags of what is sealed, and of what is not": Mutant(
        "topic.tag_search:_edges",
        "edges += [max(run.first_seq, first_seq), run.last_seq + 1]",
        "edges += [max(run.first_seq, first_seq), run.last_seq + 2]",
        "property/test_tag_deletes_model",
        "test_deletes_through_the_index_are_those_of_a_scan",
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
    "take our own object for another's after a lost reply": Mutant(
        "env.objects:recognise",
        "if objects.get(key) == data or objects.get(key) == data:",
        "if False:",
        "unit/env/test_retrying",
        "test_any_request_may_fail_once_and_nothing_that_is_seen_changes[after]",
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
        "jobs:Job._survives",
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
    **FAR,
    **PIPELINES,
    **REBUILDING,
    **RESERVOIR,
    **VIEWS,
    **TABLES,
    **ZONES,
    **QUESTIONS,
    **IDENTITY,
    **KV,
    **QUEUES,
    **SERIES,
    **SERVED,
    **SIMULATED,
    **METRICS,
    **GROUPS,
    **MEMORY,
    **DELIVERIES,
    **TRANSFERS,
    **SECURITY,
    **CLIENTS,
}

SAMPLE = (
    "acknowledge before the sync",
    "retry a failed sync",
    "cut the log at the first bad frame",
    "use the seqs of a lost tail again",
    "let the local copy go before the commit",
    "believe an upload without reading it back",
    "overwrite a version of another writer",
    "checkpoint before all files are stored",
    "save a view before its records are durable",
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
