"""Mutants of questions: what a command says, what SQL sees, what is remembered, what follows."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PARSING = "unit/query/test_parsing"
_POSITIONS = "unit/query/sql/test_positions"
_SHOW = "unit/query/remember/test_show"
_JOURNAL = "unit/query/remember/test_journal"
_RETENTION = "unit/query/remember/test_retention"
_SEQUENCE = "unit/query/test_sequence"

QUESTIONS = {
    "language: OR is heard as AND": Mutant(
        "query.building.conditions:either",
        "Or(flat)",
        "And(flat)",
        _PARSING,
        "test_and_binds_more_than_or_and_not_most",
    ),
    "language: DELETE does not hear FOR": Mutant(
        "query.building.questions:delete",
        'context=found.get("for")',
        "context=None",
        _PARSING,
        "test_every_command_is_a_value",
    ),
    "language: WITHIN is not heard": Mutant(
        "query.building.questions:step",
        "duration_of(duration) if duration else None",
        "None",
        _PARSING,
        "test_a_sequence_has_any_number_of_steps_each_with_a_time",
    ),
    "language: REMEMBER keeps more than the text of its query": Mutant(
        "query.building.questions:remember",
        "asked.at, at_of(word)",
        "asked.at, at_of(word) + 2",
        _PARSING,
        "test_remember_keeps_the_text_of_its_query_and_what_to_keep",
    ),
    "language: every command is known by its text": Mutant(
        "query.parsing:parse",
        "and _QUESTION.match(text)",
        "",
        "unit/query/test_known_texts",
        "test_what_may_hold_a_key_or_data_is_not_kept",
    ),
    "query: two columns of a result have one name in SQL": Mutant(
        "query.compile:result_column",
        'f"__c{place}"',
        'f"__c{min(place, 1)}"',
        _SHOW,
        "test_a_group_may_have_the_name_of_a_hidden_column",
    ),
    "remembered: the total of states that overflow is the plain sum": Mutant(
        "query.remember.states:_total",
        "if scaled is None",
        "if True",
        "property/test_large_totals",
        "test_large_totals_are_the_same_in_query_and_show",
    ),
    "query: a sum that overflows is not asked for again": Mutant(
        "query.execute:_overflows",
        "if figure.is_double",
        "if not figure.is_double",
        "property/test_large_totals",
        "test_a_total_that_overflows_on_the_way_is_asked_again",
    ),
    "query: a field has the column of a system column": Mutant(
        "schema:column_of",
        "if name_key(field) in own",
        "if not own",
        "unit/query/test_field_names",
        "test_a_later_version_may_add_a_field_with_the_name_of_a_system_column",
    ),
    "replay: the only event of a store has its own columns": Mutant(
        "query.execute:run",
        'bound.kind == "replay_all"',
        'bound.kind == "replay_all" and len(bound.events) > 1',
        "unit/query/test_replay",
        "test_the_columns_do_not_depend_on_how_many_events_there_are",
    ),
    "sql: as of a time leaves out the records of that time": Mutant(
        "query.sql.positions:past_of",
        "cursor_at(moment_us + 1)",
        "cursor_at(moment_us)",
        _POSITIONS,
        "test_a_map_is_asked_as_of_a_time_with_what_was_over_then",
    ),
    "sql: a topic is seen as it is now": Mutant(
        "query.sql.topics:snapshot_at",
        "min(snapshot.head_seq, position.heads[topic.name])",
        "snapshot.head_seq",
        _POSITIONS,
        "test_topics_tables_and_series_show_what_there_was_up_to_a_seq",
    ),
    "sql: a map of the past shows later versions": Mutant(
        "query.sql.maps:MapRows._as_of",
        "if slot.version > self.head_seq:",
        "if False:",
        _POSITIONS,
        "test_a_map_is_what_it_was_at_every_seq",
    ),
    "remembered: rows with no chance are not those at the end": Mutant(
        "query.remember.states:in_front",
        '"descending" if shape.bound.descending else "ascending"',
        '"ascending"',
        _SHOW,
        "test_the_first_rows_are_found_among_those_that_were_kept",
    ),
    "remembered: missing values come first": Mutant(
        "query.remember.states:in_front",
        '"at_end"',
        '"at_start"',
        _SHOW,
        "test_the_first_rows_are_found_among_those_that_were_kept",
    ),
    "remembered: nothing is kept as a group": Mutant(
        "query.remember.states:without_nothing",
        "pc.greater(rows, 0)",
        "pc.greater_equal(rows, 0)",
        _SHOW,
        "test_news_that_the_query_does_not_ask_for_are_no_state",
    ),
    "remembered: two commits without rows go on from one": Mutant(
        "query.remember.journal:Journal.commit",
        "tag=MARK, meta=going_on, expected_head=head)",
        "tag=MARK, meta=going_on)",
        _JOURNAL,
        "test_of_two_commits_without_rows_on_one_base_only_one_counts",
    ),
    "remembered: whatever has an age is too old": Mutant(
        "query.remember.retention:runs_over",
        "run.newest_us < now_us - keep.age_max_us",
        "True",
        _RETENTION,
        "test_runs_that_are_young_enough_stay_whatever_news_come",
    ),
    "sequences: parts overlap": Mutant(
        "query.sequence:_Keyed.rows",
        "among &= self.codes < high",
        "among &= self.codes <= high",
        _SEQUENCE,
        "test_rows_match_as_one_by_one_in_whatever_order_they_come",
    ),
    "sequences: a condition of one event is one of all": Mutant(
        "views.table.condition:either",
        "if None in parts or len(parts) == 1:",
        "if len(parts) == 1:",
        _SEQUENCE,
        "test_an_event_without_a_condition_is_not_read_by_that_of_another_one",
    ),
    "definitions: an unfinished REMEMBER takes its alias": Mutant(
        "query.remember.remembered:Remembered._topic_for",
        "if base.manifest is not None:",
        "if base is not None:",
        "test_definition_crash",
        "test_a_definition_is_whole_or_absent_after_a_crash_and_its_name_is_usable",
    ),
    "definitions: a group loses its options before its offsets": Mutant(
        "views.groups.groups:Groups.delete",
        "return bool(self._offsets(found).batch(entries)[1])",
        "return any([self._offsets(found).delete(entry.key) for entry in entries])",
        "test_definition_crash",
        "test_a_definition_is_whole_or_absent_after_a_crash_and_its_name_is_usable",
    ),
    "sql: the name of a recursive CTE is known before UNION": Mutant(
        "query.sql.statement:Statement._find",
        "if name in _CTE_PARTS",
        "if True",
        "unit/query/sql/test_name_scope",
        "test_duckdb_looks_up_no_relation_that_was_not_found_in_the_text",
    ),
    "sql: names are compared as Python folds letters": Mutant(
        "query.sql.statement:_folded",
        "name.translate(_SMALL)",
        "name.lower()",
        "unit/query/sql/test_name_scope",
        "test_only_letters_of_ascii_are_the_same_in_both_cases",
    ),
    "sql: a function is allowed by its last name": Mutant(
        "query.sql.statement:Statement._check_function",
        "len(path) == 1 and",
        "",
        "unit/query/sql/test_name_scope",
        "test_a_function_that_is_not_listed_is_refused_wherever_it_stands",
    ),
    "sql: infinity in nanoseconds is a year": Mutant(
        "query.time_values:microseconds",
        "return pc.if_else(is_infinite, numbers, scaled)",
        "return pc.if_else(is_infinite, scaled, scaled)",
        "server/test_result_types",
        "test_infinity_is_infinity_in_every_format",
    ),
}
