"""Mutants of views: what makes a fold the log's, saved state safe, and decisions one step."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

HOST = "unit/views/test_host"
SHELF = "unit/views/test_shelf"
TOGETHER = "unit/views/test_together"

VIEWS = {
    "take records as folded in that could not be read": Mutant(
        "views.host:Host._follow",
        "            page = topic.read(applied, _ROWS_AT_ONCE)\n",
        "            try:\n                page = topic.read(applied, _ROWS_AT_ONCE)\n"
        "            except Exception:\n                self.applied[source] = head\n"
        "                continue\n",
        "test_views_calls_fail",
        "test_any_call_may_fail_under_a_view",
    ),
    "save a view before its records are durable": Mutant(
        "topic.topic:Topic.secure",
        "shard.committer.sync_now()",
        "pass",
        SHELF,
        "test_saving_makes_the_log_durable_first",
    ),
    "save records that came after the sync": Mutant(
        "views.host:Host.save",
        "            for topic in self.topics:\n                topic.secure()\n",
        "",
        SHELF,
        "test_what_comes_while_a_view_is_saved_is_durable_if_it_is_saved",
    ),
    "let records go that the saved state still needs": Mutant(
        "views.host:Host.release",
        "BitMap64() if seqs is None else seqs & BitMap64(range(secured + 1))",
        "seqs or BitMap64()",
        HOST,
        "test_only_what_the_saved_state_has_seen_is_let_go",
    ),
    "let records go that another view needs": Mutant(
        "views.host:Host.release",
        "if self.strangers(source):",
        "if False:",
        TOGETHER,
        "test_a_topic_with_several_views_keeps_its_records",
    ),
    "show a view what another has written for itself": Mutant(
        "views.host:_without",
        "meta is None or not meta.startswith(marks)",
        "True",
        TOGETHER,
        "test_what_only_one_view_can_read_is_for_that_view_alone",
    ),
    "append a decision though others came between": Mutant(
        "views.host:Host.decide",
        "self._place(draft, self.applied[draft.source])",
        "self._place(draft, None)",
        HOST,
        "test_a_decision_is_made_again_when_a_plain_append_came_between",
    ),
    "go on with a fold that failed in the middle": Mutant(
        "views.host:Host._apply",
        "self._broken = True",
        "self._broken = False",
        HOST,
        "test_a_fold_that_failed_in_the_middle_is_folded_again",
    ),
    "fold the rows of one's own in without looking whose turn it is": Mutant(
        "views.host:Host._follow",
        "if first_seq == applied + 1:",
        "if True:",
        HOST,
        "test_rows_of_ones_own_that_were_read_from_the_log_are_not_folded_in_twice",
    ),
    "use saved state whatever its options were": Mutant(
        "views.host:fits",
        " or saved.config != config",
        "",
        SHELF,
        "test_saved_state_of_other_options_is_not_used",
    ),
    "use saved state of a topic that lost records below it": Mutant(
        "views.host:fits",
        "not ahead and saved.gaps == gaps_of(topics, saved.applied)",
        "True",
        SHELF,
        "test_saved_state_of_records_that_are_lost_since_is_not_used",
    ),
    "use an older version of the views": Mutant(
        "views.shelf:Shelf._read_catalogue",
        "recovered.passed_over and not self._readonly",
        "False",
        SHELF,
        "test_a_damaged_version_folds_views_again_though_records_were_let_go",
    ),
    "forget that something is committed and not saved": Mutant(
        "views.shelf:Shelf.save",
        "if self._unsaved:",
        "if saved is not None:",
        SHELF,
        "test_what_could_not_be_saved_is_saved_the_next_time_though_nothing_was_added",
    ),
    "leave the pages when a view is folded again": Mutant(
        "views.host:Host.begin_again",
        "self.session.delete(page_id)",
        "pass",
        SHELF,
        "test_a_view_that_is_folded_again_is_the_same",
    ),
    "let a topic with a view lose records": Mutant(
        "topic.topic:Topic.delete",
        "if self._state.config.views:",
        "if False:",
        HOST,
        "test_a_topic_with_a_view_keeps_its_records",
    ),
}
