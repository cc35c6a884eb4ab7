"""Mutants of zone indexes: what keeps every zone that holds a row which is asked for."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

INDEX = "unit/views/table/index"
FENCE = f"{INDEX}/test_fence"
KINDS = f"{INDEX}/test_kinds"
LADDER = f"{INDEX}/test_ladder"
OLDER = f"{INDEX}/test_older_files"
FUSE = f"{INDEX}/test_fuse"
CODEC = f"{INDEX}/test_codec"
PRUNING = f"{INDEX}/test_pruning"
SWAPPED = "unit/views/table/files/test_swapped_indexes"

ZONES = {
    "zones: not is what is left over": Mutant(
        "views.table.index.pruning:Asking.may",
        "return self.may(of, negated=not negated)",
        "return ~self.may(of, negated=negated)",
        FENCE,
        "test_not_keeps_the_zones_that_may_have_a_row_for_which_it_is_false",
    ),
    "zones: not leaves and and or as they are": Mutant(
        "views.table.index.pruning:_conjuncts",
        "isinstance(condition, And) is not negated",
        "isinstance(condition, And)",
        PRUNING,
        "test_not_of_and_is_or_inside_of_and_as_well",
    ),
    "zones: the opposite of a comparison forgets missing values": Mutant(
        "views.table.index.predicate:wish_of",
        "stored, asked), negated)",
        "stored, asked), False)",
        FENCE,
        "test_not_keeps_the_zones_that_may_have_a_row_for_which_it_is_false",
    ),
    "zones: the opposite of smaller is larger": Mutant(
        "views.table.index.predicate:_closed",
        "return above, None",
        "return above + 1, None",
        FENCE,
        "test_not_keeps_the_zones_that_may_have_a_row_for_which_it_is_false",
    ),
    "zones: a closed bound is open": Mutant(
        "views.table.index.fence:Fence._overlaps",
        "self.greatest >= low",
        "self.greatest > low",
        FENCE,
        "test_a_comparison_keeps_the_zones_whose_bounds_allow_it",
    ),
    "zones: cut texts are compared as if they were whole": Mutant(
        "views.table.index.fence:build",
        "exact = all(cut(text) == text for text in least + most)",
        "exact = True",
        FENCE,
        "test_texts_that_end_with_nul_are_not_lost",
    ),
    "zones: a range of two bounds forgets missing values": Mutant(
        "views.table.index.pruning:_both",
        "before.null and wish.null",
        "False",
        PRUNING,
        "test_a_missing_value_is_on_no_side_of_two_bounds",
    ),
    "zones: the last hour of a range is left out": Mutant(
        "views.table.index.calendar:Calendar._within",
        "self._bucket(high) + 1",
        "self._bucket(high)",
        KINDS,
        "test_a_moment_on_the_hour_is_in_the_hour_that_it_begins",
    ),
    "zones: a bin does not reach its greatest value": Mutant(
        "views.table.index.imprint:Imprint._range",
        '"right" if test.low_open else "left"',
        '"right"',
        KINDS,
        "test_an_imprint_is_right_at_the_edges_of_its_bins[i64]",
    ),
    "zones: bins end before their last value": Mutant(
        "views.table.index.imprint:build",
        "values[places[there + 1] - 1]",
        "values[places[there]]",
        KINDS,
        "test_an_imprint_is_right_at_the_edges_of_its_bins[i64]",
    ),
    "zones: a filter loses a key": Mutant(
        "views.table.index.fuse:_table",
        "for keys, lonely in reversed(turns):",
        "for keys, lonely in turns:",
        FUSE,
        "test_every_key_is_found[1000]",
    ),
    "zones: a filter that could not be made is used": Mutant(
        "views.table.index.fuse:_table",
        "< len(hashed)",
        "< 0",
        FUSE,
        "test_every_key_is_found_whatever_the_seed_meets",
    ),
    "zones: a zone's filter is asked for its neighbour": Mutant(
        "views.table.index.membership:Membership.__init__",
        'side="right") - 1',
        'side="left")',
        KINDS,
        "test_large_filters_are_cut_into_shards",
    ),
    "zones: one other text is not enough": Mutant(
        "views.table.index.bitmap:Bitmap.may",
        "return others > 0",
        "return others > 1",
        KINDS,
        "test_a_bitmap_knows_the_zones_of_each_variant",
    ),
    "zones: contexts that begin a zone are left out": Mutant(
        "views.table.index.context:Context.may",
        "bisect_right(self._firsts, value)",
        "bisect_left(self._firsts, value)",
        KINDS,
        "test_contexts_are_found_by_their_range",
    ),
    "zones: a float asks for whole numbers that it cannot hold": Mutant(
        "views.table.index.predicate:_whole",
        "abs(value) < _FLOAT_EXACT",
        "abs(value) < 2**63",
        OLDER,
        "test_whole_numbers_that_no_float_holds_are_never_lost",
    ),
    "zones: rows that may not be wanted count for the first": Mutant(
        "views.table.index.read:_runners",
        "if where is not None:",
        "if False:",
        LADDER,
        "test_rows_that_may_not_fulfil_the_condition_do_not_count",
    ),
    "zones: a rank counts rows that are missing": Mutant(
        "views.table.index.ladder:_steps",
        "np.where(ranks <= present, np.diff(ranks, prepend=0), 0)",
        "np.diff(ranks, prepend=0) * np.ones_like(present)",
        LADDER,
        "test_rows_without_a_value_come_last_in_both_directions",
    ),
    "zones: use a section without looking at its checksum": Mutant(
        "views.table.index.read:Indexes._section",
        "codec.check_section(data, entry, self._name)",
        "pass",
        CODEC,
        "test_damage_names_the_index_and_its_place",
    ),
    "zones: use the indexes of another file": Mutant(
        "views.table.files.sides:read_side",
        "found.origin != origin_of(table_id, file)",
        "False",
        SWAPPED,
        "test_swapped_indexes_are_reported_and_hide_no_row[False]",
    ),
    "zones: use nameless indexes of other seqs": Mutant(
        "views.table.files.sides:read_side",
        "not np.array_equal(least, lows) or not np.array_equal(greatest, highs)",
        "False",
        SWAPPED,
        "test_swapped_indexes_are_reported_and_hide_no_row[True]",
    ),
}
