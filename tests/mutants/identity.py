"""Mutants of a store's identity and openings: SYSTEM, files of another store, damaged files."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_HELD = "corruption/test_held_files"
_STRANGERS = "corruption/test_another_store"
_SYSTEM = "unit/topic/test_system"

IDENTITY = {
    "refuse a store for one unreadable segment": Mutant(
        "topic.recover:_load_segments",
        "held = held or error",
        "raise",
        _HELD,
        "test_a_damaged_file_holds_what_is_in_it_and_gives_up_nothing[end]",
    ),
    "forget the records of a held segment": Mutant(
        "topic.recover:_hold_uncovered",
        "if runs:",
        "if not runs:",
        _HELD,
        "test_a_damaged_file_holds_what_is_in_it_and_gives_up_nothing[end]",
    ),
    "keep one of two held segments": Mutant(
        "topic.sealer:Sealer._dead_segments",
        "if held & live:",
        "if False:",
        _HELD,
        "test_two_damaged_segments_are_both_kept_until_they_are_put_back",
    ),
    "repair by a strange SYSTEM file": Mutant(
        "topic.repair:_Repair._identify",
        "identity.check(self._disk, self._layout, store_id)",
        "pass",
        _STRANGERS,
        "test_a_strange_system_file_is_made_anew_by_a_repair_and_nothing_is_lost",
    ),
    "verify by a strange SYSTEM file": Mutant(
        "topic.verify:_Verification._identify",
        "identity.check(self._disk, self._layout, self._store_id)",
        "pass",
        _STRANGERS,
        "test_a_strange_system_file_is_made_anew_by_a_repair_and_nothing_is_lost",
    ),
    "read beside a strange SYSTEM file": Mutant(
        "topic.recover:recover",
        "if any(log.strangers for log in found.logs.values()):",
        "if False:",
        _STRANGERS,
        "test_when_system_is_the_stranger_it_is_the_one_that_is_named[_log_alone-True]",
    ),
    "blame the files for a strange SYSTEM": Mutant(
        "topic.recover:recover",
        "found.close()\n        identity.check(disk, layout, store_id)",
        "found.close()",
        _STRANGERS,
        "test_when_system_is_the_stranger_it_is_the_one_that_is_named[_filled-False]",
    ),
    "take another store's checkpoint": Mutant(
        "topic.root:check_place",
        "if root.store_id != store_id:",
        "if False:",
        _STRANGERS,
        "test_the_refusal_names_both_stores_and_what_to_do[/meta/-False]",
    ),
    "call another store's segment damaged": Mutant(
        "segment.reader:Segment.verify_header",
        "if header is not None and header.store_id != self._store_id:",
        "if False:",
        _STRANGERS,
        "test_a_sealed_segment_of_another_store_is_told_to_whoever_reads_it",
    ),
    "call another store's log another shard's": Mutant(
        "wal.recovery:ShardLog._whose",
        "if header.store_id == self._store_id:",
        "if True:",
        _STRANGERS,
        "test_the_refusal_names_both_stores_and_what_to_do[/wal/-False]",
    ),
    "call another store's manifest damaged": Mutant(
        "lake.history:History._explained",
        "if told is None or told == self._store_id:",
        "if True:",
        "unit/topic/test_relocation",
        "test_a_lake_url_that_was_mixed_up_is_told_apart_from_damage",
    ),
    "forget the shards of the last writer": Mutant(
        "topic.system:note_shards",
        "about.created_us, shards=shards",
        "about.created_us",
        _SYSTEM,
        "test_a_file_from_before_there_were_shards_in_it_is_read_and_gets_them",
    ),
    "note the shards before the store is open": Mutant(
        "topic.system:ensure",
        "return read(disk, directory)",
        "note_shards(disk, directory, shards)\n        return read(disk, directory)",
        "unit/store/test_shards",
        "test_an_opening_that_is_refused_leaves_system_as_it_was",
    ),
    "refuse a full disk its opening": Mutant(
        "topic.system:note_shards",
        "if error.errno not in (errno.ENOSPC, errno.EDQUOT):",
        "if True:",
        _SYSTEM,
        "test_a_full_disk_is_no_reason_not_to_open",
    ),
}
