"""Mutants of identity: files of another store, and parts that cannot be read."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Insert, Leave, Negate, Remove

_HELD = "corruption/test_held_files"
_STRANGERS = "corruption/test_another_store"
_SYSTEM = "unit/log/files/test_system_file"


IDENTITY = {
    "refuse a store for one unreadable segment": Mutant(
        "log.recovery.recover:_load_segments",
        Leave("Assign 5", "_ = _ or _", "raise"),
        _HELD,
        "test_a_damaged_file_holds_what_is_in_it_and_gives_up_nothing[end]",
    ),
    "forget the records of a held segment": Mutant(
        "log.recovery.recover:_hold_uncovered",
        Negate("If 1", "if _:"),
        _HELD,
        "test_a_damaged_file_holds_what_is_in_it_and_gives_up_nothing[end]",
    ),
    "keep one of two held segments": Mutant(
        "log.checkpoint.sealer:Sealer._dead_segments",
        Force("If 1", "if _ & _:", False),
        _HELD,
        "test_two_damaged_segments_are_both_kept_until_they_are_put_back",
    ),
    "repair by a strange SYSTEM file": Mutant(
        "log.repair.repair:_Repair._identify",
        Remove("Expr 1", "_(_, _, _)"),
        _STRANGERS,
        "test_a_strange_system_file_is_made_anew_by_a_repair_and_nothing_is_lost",
    ),
    "verify by a strange SYSTEM file": Mutant(
        "log.repair.verify:_Verification._identify",
        Remove("Expr 1", "_(_, _, _)"),
        _STRANGERS,
        "test_a_strange_system_file_is_made_anew_by_a_repair_and_nothing_is_lost",
    ),
    "read beside a strange SYSTEM file": Mutant(
        "log.recovery.recover:recover",
        Force("If 3", "if _((_ for _ in _())):", False),
        _STRANGERS,
        "test_when_system_is_the_stranger_it_is_the_one_that_is_named[_log_alone-True]",
    ),
    "blame the files for a strange SYSTEM": Mutant(
        "log.recovery.recover:recover",
        Remove("Expr 8", "_(_, _, _) (2 of 2)"),
        _STRANGERS,
        "test_when_system_is_the_stranger_it_is_the_one_that_is_named[_filled-False]",
    ),
    "take another store's checkpoint": Mutant(
        "log.files.checkpoint_codec:check_identity",
        Force("If 1", "if _ != _: (1 of 2)", False),
        _STRANGERS,
        "test_the_refusal_names_both_stores_and_what_to_do[/meta/-False]",
    ),
    "call another store's segment damaged": Mutant(
        "log.segments.reader:Segment.verify_header",
        Force("If 3", "if _ is not None and _ != _:", False),
        _STRANGERS,
        "test_a_sealed_segment_of_another_store_is_told_to_whoever_reads_it",
    ),
    "call another store's log another shard's": Mutant(
        "log.wal.recovery:ShardLog._owner_mismatch",
        Force("If 1", "if _ == _:", True),
        _STRANGERS,
        "test_the_refusal_names_both_stores_and_what_to_do[/wal/-False]",
    ),
    "call another store's manifest damaged": Mutant(
        "lake.manifest.manifest_history:ManifestHistory._with_cause",
        Force("If 1", "if _ is None or _ == _:", True),
        "unit/log/topic/test_relocation",
        "test_a_lake_url_that_was_mixed_up_is_told_apart_from_damage",
    ),
    "forget the shards of the last writer": Mutant(
        "log.files.system_file:note_shards",
        Drop("Expr 1", "_(_, _, _, _, _=_)", "keyword 1"),
        _SYSTEM,
        "test_a_file_from_before_there_were_shards_in_it_is_read_and_gets_them",
    ),
    "note the shards before the store is open": Mutant(
        "log.files.system_file:ensure",
        Insert(
            "Return 1",
            "return _(_, _)",
            "{name 1}({Name 2}, {Name 3}, {Expr 2: Name 6})",
            others=("_(_, _, _, _, _=_)",),
            names=("log.files.system_file:note_shards",),
        ),
        "unit/store/test_shards",
        "test_an_opening_that_is_refused_leaves_system_as_it_was",
    ),
    "refuse a full disk its opening": Mutant(
        "log.files.system_file:note_shards",
        Force("If 2", "if _ not in (_, _):", True),
        _SYSTEM,
        "test_a_full_disk_is_no_reason_not_to_open",
    ),
}
