"""Mutants of indexes: a filter leaves out no row that it must return."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import All, Force, Remove, Replace, Set, Swap, Use

INDEX = "unit/views/table/index"
FENCE = f"{INDEX}/test_min_max"
KINDS = f"{INDEX}/test_kinds"
LADDER = f"{INDEX}/test_top_k_bounds"
OLDER = f"{INDEX}/test_older_files"
FUSE = f"{INDEX}/test_binary_fuse"
CODEC = f"{INDEX}/test_codec"
PRUNING = f"{INDEX}/test_zone_filter"
SWAPPED = "unit/views/table/files/test_swapped_indexes"


ZONES = {
    "zones: not is what is left over": Mutant(
        "views.table.index.zone_filter:ZoneFilter.may",
        All(
            Use("Return 1", "return _(_, _=not _)", "UnaryOp 1", "Name 3"),
            Replace("Return 1", "return _(_, _=not _)", "Call 1", "~{it}"),
        ),
        FENCE,
        "test_not_keeps_the_zones_that_may_have_a_row_for_which_it_is_false",
    ),
    "zones: not leaves and and or as they are": Mutant(
        "views.table.index.zone_filter:_conjuncts",
        Use("match_case 2", "case _(_) | _(_) if _(_, _) is not _:", "Compare 1", "Call 1"),
        PRUNING,
        "test_not_of_and_is_or_inside_of_and_as_well",
    ),
    "zones: the opposite of a comparison forgets missing values": Mutant(
        "views.table.index.predicate:field_test_of",
        Set("Return 5", "return _(_(_, _(_, _), _, _), _)", "Name 9", False),
        FENCE,
        "test_not_keeps_the_zones_that_may_have_a_row_for_which_it_is_false",
    ),
    "zones: the opposite of smaller is larger": Mutant(
        "views.table.index.predicate:_closed_bounds",
        Replace("Return 4", "return (_, None)", "Name 1", "{it} + 1"),
        FENCE,
        "test_not_keeps_the_zones_that_may_have_a_row_for_which_it_is_false",
    ),
    "zones: a closed bound is open": Mutant(
        "views.table.index.min_max:MinMaxIndex._overlaps",
        Swap("AugAssign 1", "_ &= _ > _ if _ and _ else _ >= _", "Compare 2", ">"),
        FENCE,
        "test_a_comparison_keeps_the_zones_whose_bounds_allow_it",
    ),
    "zones: cut texts are compared as if they were whole": Mutant(
        "views.table.index.min_max:build",
        Set("Assign 6", "_ = _((_(_) == _ for _ in _ + _))", "Call 1", True),
        FENCE,
        "test_texts_that_end_with_nul_are_not_lost",
    ),
    "zones: a range of two bounds forgets missing values": Mutant(
        "views.table.index.zone_filter:_intersect",
        Set("Return 2", "return _(_(_, _), _ and _)", "BoolOp 1", False),
        PRUNING,
        "test_a_missing_value_is_on_no_side_of_two_bounds",
    ),
    "zones: the last hour of a range is left out": Mutant(
        "views.table.index.calendar:CalendarIndex._zones_within",
        Use("Assign 2", "_ = _ if _ is None else _(_) + 1", "BinOp 1", "Call 1"),
        KINDS,
        "test_a_moment_on_the_hour_is_in_the_hour_that_it_begins",
    ),
    "zones: a bin does not reach its greatest value": Mutant(
        "views.table.index.imprint:ImprintIndex._bins_within",
        Set("Assign 3", "_ = _(_(_, _, '' if _ else '')) (1 of 2)", "IfExp 1", "right"),
        KINDS,
        "test_an_imprint_is_right_at_the_edges_of_its_bins[i64]",
    ),
    "zones: bins end before their last value": Mutant(
        "views.table.index.imprint:build",
        Use(
            "Assign 11",
            "_[_] = _(_[_], _[_[_ + 1] - 1])",
            "BinOp 1",
            "Assign 10: Subscript 4",
            others=("_[_] = _(_[_], _[_[_]])",),
        ),
        KINDS,
        "test_an_imprint_is_right_at_the_edges_of_its_bins[i64]",
    ),
    "zones: a filter loses a key": Mutant(
        "views.table.index.binary_fuse:_build_table",
        Use("For 1", "for _, _ in _(_):", "Call 1", "Name 4"),
        FUSE,
        "test_every_key_is_found[1000]",
    ),
    "zones: a filter that could not be made is used": Mutant(
        "views.table.index.binary_fuse:_build_table",
        Set("If 1", "if _((_(_) for _, _ in _)) < _(_):", "Call 3", 0),
        FUSE,
        "test_every_key_is_found_whatever_the_seed_meets",
    ),
    "zones: a zone's filter is asked for its neighbour": Mutant(
        "views.table.index.membership:ZoneMembershipIndex.__init__",
        All(
            Set("Assign 5", "_ = _(_, _(''), _='') - 1", "Constant 2", "left"),
            Use("Assign 5", "_ = _(_, _(''), _='') - 1", "BinOp 1", "Call 1"),
        ),
        KINDS,
        "test_large_filters_are_cut_into_shards",
    ),
    "zones: one other text is not enough": Mutant(
        "views.table.index.bitmap:BitmapIndex.may",
        Set("Return 2", "return _ > 0", "Constant 1", 1),
        KINDS,
        "test_a_bitmap_knows_the_zones_of_each_variant",
    ),
    "zones: contexts that begin a zone are left out": Mutant(
        "views.table.index.context_ranges:ContextIndex.may",
        Use(
            "Assign 3",
            "_[_:_(_, _)] = True",
            "Name 3",
            "Assign 2: Name 2",
            others=("_ = _(_, _) (2 of 2)",),
        ),
        KINDS,
        "test_contexts_are_found_by_their_range",
    ),
    "zones: a float asks for whole numbers that it cannot hold": Mutant(
        "views.table.index.predicate:_neighbours",
        Replace("If 2", "if _ in ('', '') and _ == '' and (_(_) < _):", "Name 5", "2 ** 63"),
        OLDER,
        "test_whole_numbers_that_no_float_holds_are_never_lost",
    ),
    "zones: rows that may not be wanted count for the first": Mutant(
        "views.table.index.index_reader:_top_input",
        Force("If 1", "if _ is not None:", False),
        LADDER,
        "test_rows_that_may_not_fulfil_the_condition_do_not_count",
    ),
    "zones: a rank counts rows that are missing": Mutant(
        "views.table.index.top_k_bounds:_steps",
        Replace(
            "Assign 8",
            "_ = _(_ <= _, _(_, _=0), 0)",
            "Call 1",
            "{Call 2} * {Name 2}.ones_like({Name 4})",
        ),
        LADDER,
        "test_rows_without_a_value_come_last_in_both_directions",
    ),
    "zones: use a section without looking at its checksum": Mutant(
        "views.table.index.index_reader:Indexes._section",
        Remove("Expr 1", "_(_, _, _)"),
        CODEC,
        "test_damage_names_the_index_and_its_place",
    ),
    "zones: use the indexes of another file": Mutant(
        "views.table.files.index_file:read_indexes",
        Force("If 2", "if _ != _(_, _):", False),
        SWAPPED,
        "test_swapped_indexes_are_reported_and_hide_no_row[False]",
    ),
    "zones: use nameless indexes of other seqs": Mutant(
        "views.table.files.index_file:read_indexes",
        Force("If 3", "if not _(_, _) or not _(_, _):", False),
        SWAPPED,
        "test_swapped_indexes_are_reported_and_hide_no_row[True]",
    ),
}
