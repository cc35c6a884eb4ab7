"""Mutants of views: what makes saved state and records agree."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Move, Remove, Replace, Rewrite, Set, Use

HOST = "unit/views/test_view_runner"
SHELF = "unit/views/test_view_registry"
TOGETHER = "unit/views/test_together"


VIEWS = {
    "take records as folded in that could not be read": Mutant(
        "views.view_runner:ViewRunner._follow",
        Rewrite(
            "Assign 3",
            "_ = _(_, _) (1 of 2)",
            (
                "try:\n"
                "    {it}\n"
                "except Exception:\n"
                "    {While 1: Subscript 1} = {If 1: Name 5}\n"
                "    continue"
            ),
            others=("while (_ := _[_]) < _:", "if _ and _[0]._ <= _ + 1 and (_[0]._ <= _):"),
        ),
        "test_views_calls_fail",
        "test_any_call_may_fail_under_a_view",
    ),
    "save a view before its records are durable": Mutant(
        "log.topic.topic:Topic.sync",
        Remove("Expr 2", "_() (2 of 2)"),
        SHELF,
        "test_saving_makes_the_log_durable_first",
    ),
    "save records that came after the sync": Mutant(
        "views.view_runner:ViewRunner.save",
        Move("For 2", "for _ in _: (2 of 2)", "Expr 3", others=("_() (3 of 4)",)),
        SHELF,
        "test_what_comes_while_a_view_is_saved_is_durable_if_it_is_saved",
    ),
    "let records go that the saved state still needs": Mutant(
        "views.view_runner:ViewRunner.release",
        Replace(
            "Assign 2",
            "_ = _() if _ is None else _ & _(_(_ + 1))",
            "IfExp 1",
            "{Name 2} or {Call 1}",
        ),
        HOST,
        "test_only_what_the_saved_state_has_seen_is_let_go",
    ),
    "let records go that another view needs": Mutant(
        "views.view_runner:ViewRunner.release",
        Force("If 1", "if _(_):", False),
        TOGETHER,
        "test_a_topic_with_several_views_keeps_its_records",
    ),
    "show a view what another has written for itself": Mutant(
        "views.view_runner:_without",
        Set("Assign 1", "_ = [_ is None or not _(_) for _ in _]", "BoolOp 1", True),
        TOGETHER,
        "test_what_only_one_view_can_read_is_for_that_view_alone",
    ),
    "append a decision though others came between": Mutant(
        "views.view_runner:ViewRunner.decide",
        Set("Assign 2", "_ = _(_, _[_])", "Subscript 1", None),
        HOST,
        "test_a_decision_is_made_again_when_a_plain_append_came_between",
    ),
    "go on with a fold that failed in the middle": Mutant(
        "views.view_runner:ViewRunner._apply",
        Set("Assign 1", "_ = True", "Constant 1", False),
        HOST,
        "test_a_fold_that_failed_in_the_middle_is_folded_again",
    ),
    "fold the rows of one's own in without looking whose turn it is": Mutant(
        "views.view_runner:ViewRunner._follow",
        Force("If 2", "if _ == _ + 1:", True),
        HOST,
        "test_rows_of_ones_own_that_were_read_from_the_log_are_not_folded_in_twice",
    ),
    "use saved state whatever its options were": Mutant(
        "views.view_runner:is_current",
        Drop("If 1", "if _ != [_ for _ in _] or _ != _:", "Compare 2"),
        SHELF,
        "test_saved_state_of_other_options_is_not_used",
    ),
    "use saved state of a topic that lost records below it": Mutant(
        "views.view_runner:is_current",
        Set("Return 2", "return not _ and _ == _(_, _)", "BoolOp 1", True),
        SHELF,
        "test_saved_state_of_records_that_are_lost_since_is_not_used",
    ),
    "use an older version of the views": Mutant(
        "views.view_registry:ViewRegistry._read_index",
        Force("If 2", "if _ and (not _):", False),
        SHELF,
        "test_a_damaged_version_folds_views_again_though_records_were_let_go",
    ),
    "forget that something is committed and not saved": Mutant(
        "views.view_registry:ViewRegistry.save",
        Use("If 3", "if _:", "Attribute 1", "If 2: Compare 1", others=("if _ is not None:",)),
        SHELF,
        "test_what_could_not_be_saved_is_saved_the_next_time_though_nothing_was_added",
    ),
    "leave the pages when a view is folded again": Mutant(
        "views.view_runner:ViewRunner.refold",
        Remove("Expr 2", "_(_)"),
        SHELF,
        "test_a_view_that_is_folded_again_is_the_same",
    ),
    "let a topic with a view lose records": Mutant(
        "log.topic.topic:Topic.delete",
        Force("If 5", "if _:", False),
        HOST,
        "test_a_topic_with_a_view_keeps_its_records",
    ),
}
