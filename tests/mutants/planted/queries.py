"""Mutants of queries: the language, plans, SQL, and remembered results."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Negate, Replace, Set, Swap, Use

_PARSING = "unit/query/language/test_parser"
_POSITIONS = "unit/query/sql/test_as_of"
_SHOW = "unit/query/materialized/test_show"
_JOURNAL = "unit/query/materialized/test_result_log"
_RETENTION = "unit/query/materialized/test_retention"
_SEQUENCE = "unit/query/execute/test_sequence"


QUERIES = {
    "language: OR is heard as AND": Mutant(
        "query.language.ast_builder.conditions:either",
        Replace(
            "Return 1",
            "return _(_(_), _, _[1])",
            "Name 2",
            "{name 1}",
            names=("views.table.condition:And",),
        ),
        _PARSING,
        "test_and_binds_more_than_or_and_not_most",
    ),
    "language: DELETE does not hear FOR": Mutant(
        "query.language.ast_builder.queries:delete",
        Set("Return 1", "return _(_=_, _=_(''), _=_(''))", "Call 2", None),
        _PARSING,
        "test_every_command_is_a_value",
    ),
    "language: WITHIN is not heard": Mutant(
        "query.language.ast_builder.queries:step",
        Set(
            "Return 1",
            "return _(_='' if _ == '' else '', _=_, _=_(_) if _ else None)",
            "IfExp 2",
            None,
        ),
        _PARSING,
        "test_a_sequence_has_any_number_of_steps_each_with_a_time",
    ),
    "language: REMEMBER keeps more than the text of its query": Mutant(
        "query.language.ast_builder.queries:remember",
        Replace("Return 1", "return _(_, _, _(_))", "Call 2", "{it} + 2"),
        _PARSING,
        "test_remember_keeps_the_text_of_its_query_and_what_to_keep",
    ),
    "language: every command is known by its text": Mutant(
        "query.language.parser:parse",
        Drop("If 3", "if _(_) <= _ and _(_):", "Call 2"),
        "unit/query/test_known_texts",
        "test_what_may_hold_a_key_or_data_is_not_kept",
    ),
    "query: two columns of a result have one name in SQL": Mutant(
        "query.plan.compile:result_column",
        Replace("Return 1", "return f(_)", "Name 1", "min({it}, 1)"),
        _SHOW,
        "test_a_group_may_have_the_name_of_a_hidden_column",
    ),
    "remembered: the total of states that overflow is the plain sum": Mutant(
        "query.materialized.partial_aggregates:_total",
        Force("If 1", "if _ is None:", True),
        "property/test_large_totals",
        "test_large_totals_are_the_same_in_query_and_show",
    ),
    "query: a sum that overflows is not asked for again": Mutant(
        "query.execute.executor:_overflows",
        Negate("Assign 2", "_ = [_(_) for _, _ in _ if _]", "Attribute 2"),
        "property/test_large_totals",
        "test_a_total_that_overflows_on_the_way_is_asked_again",
    ),
    "query: a field has the column of a system column": Mutant(
        "schema:column_of",
        Replace("Return 1", "return f(_, _) if _(_) in _ else _", "Compare 1", "not {Name 3}"),
        "unit/query/test_field_names",
        "test_a_later_version_may_add_a_field_with_the_name_of_a_system_column",
    ),
    "replay: the only event of a store has its own columns": Mutant(
        "query.execute.executor:run",
        Replace(
            "If 1",
            "if _ == '':",
            "Compare 1",
            "{it} and len({Name 1}.{name 1}) > 1",
            names=("query.language.bound_ast:BoundQuery.events",),
        ),
        "unit/query/execute/test_replay",
        "test_the_columns_do_not_depend_on_how_many_events_there_are",
    ),
    "sql: as of a time leaves out the records of that time": Mutant(
        "query.sql.as_of:past_of",
        Use("Assign 3", "_ = {_: _(_ + 1) for _, _ in _()}", "BinOp 1", "Name 4"),
        _POSITIONS,
        "test_a_map_is_asked_as_of_a_time_with_what_was_over_then",
    ),
    "sql: a topic is seen as it is now": Mutant(
        "query.sql.relations.topic:snapshot_at",
        Use("Assign 2", "_ = _(_, _[_])", "Call 1", "Attribute 1"),
        _POSITIONS,
        "test_topics_tables_and_series_show_what_there_was_up_to_a_seq",
    ),
    "sql: a map of the past shows later versions": Mutant(
        "query.sql.relations.kv:MapRows._as_of",
        Force("If 1", "if _ > _:", False),
        _POSITIONS,
        "test_a_map_is_what_it_was_at_every_seq",
    ),
    "remembered: rows with no chance are not those at the end": Mutant(
        "query.materialized.partial_aggregates:first_rows",
        Set("Assign 3", "_ = '' if _ else ''", "IfExp 1", "ascending"),
        _SHOW,
        "test_the_first_rows_are_found_among_those_that_were_kept",
    ),
    "remembered: missing values come first": Mutant(
        "query.materialized.partial_aggregates:first_rows",
        Set("Assign 5", "_ = [(_, _, '') for _, _ in _()]", "Constant 1", "at_start"),
        _SHOW,
        "test_the_first_rows_are_found_among_those_that_were_kept",
    ),
    "remembered: nothing is kept as a group": Mutant(
        "query.materialized.partial_aggregates:drop_empty_groups",
        Replace("Return 1", "return _(_(_, 0))", "Attribute 2", "{Name 2}.greater_equal"),
        _SHOW,
        "test_news_that_the_query_does_not_ask_for_are_no_state",
    ),
    "remembered: two commits without rows go on from one": Mutant(
        "query.materialized.result_log:ResultLog.commit",
        Drop("Assign 9", "_ = _(_, _=_, _=_, _=_) (2 of 2)", "keyword 3"),
        _JOURNAL,
        "test_of_two_commits_without_rows_on_one_base_only_one_counts",
    ),
    "remembered: whatever has an age is too old": Mutant(
        "query.materialized.retention:expired_runs",
        Set("Assign 4", "_ = _ is not None and _ < _ - _", "Compare 2", True),
        _RETENTION,
        "test_runs_that_are_young_enough_stay_whatever_news_come",
    ),
    "sequences: parts overlap": Mutant(
        "query.execute.sequence:_Keyed.rows",
        Swap("AugAssign 1", "_ &= _ < _", "Compare 1", "<="),
        _SEQUENCE,
        "test_rows_match_as_one_by_one_in_whatever_order_they_come",
    ),
    "sequences: a condition of one event is one of all": Mutant(
        "views.table.condition:any_of",
        Drop("If 1", "if None in _ or _(_) == 1:", "Compare 1"),
        _SEQUENCE,
        "test_an_event_without_a_condition_is_not_read_by_that_of_another_one",
    ),
    "definitions: an unfinished REMEMBER takes its alias": Mutant(
        "query.materialized.materialized_queries:MaterializedQueries._topic_for",
        Use("If 2", "if _ is not None:", "Attribute 1", "Name 1"),
        "test_definition_crash",
        "test_a_definition_is_whole_or_absent_after_a_crash_and_its_name_is_usable",
    ),
    "definitions: a group loses its options before its offsets": Mutant(
        "views.groups.group_registry:GroupRegistry.delete",
        Replace(
            "Return 1",
            "return _(_(_)._(_)[1])",
            "Call 1",
            "any([{Call 3}.{name 1}(entry.{name 2}) for entry in {Name 4}])",
            names=("views.kv.kv:Kv.delete", "views.kv.values:Delete.key"),
        ),
        "test_definition_crash",
        "test_a_definition_is_whole_or_absent_after_a_crash_and_its_name_is_usable",
    ),
    "sql: the name of a recursive CTE is known before UNION": Mutant(
        "query.sql.statement:Statement._find",
        Set("Expr 7", "yield from _(_, _ | _ if _ in _ else _)", "Compare 1", True),
        "unit/query/sql/test_name_scope",
        "test_duckdb_looks_up_no_relation_that_was_not_found_in_the_text",
    ),
    "sql: names are compared as Python folds letters": Mutant(
        "query.sql.statement:_folded",
        Replace("Return 1", "return _(_)", "Call 1", "{Name 1}.lower()"),
        "unit/query/sql/test_name_scope",
        "test_only_letters_of_ascii_are_the_same_in_both_cases",
    ),
    "sql: a function is allowed by its last name": Mutant(
        "query.sql.statement:Statement._check_function",
        Drop("If 1", "if _(_) == 1 and _ == _(_[''])._() and (_ in _):", "Compare 1"),
        "unit/query/sql/test_name_scope",
        "test_a_function_that_is_not_listed_is_refused_wherever_it_stands",
    ),
    "sql: infinity in nanoseconds is a year": Mutant(
        "query.execute.time_values:microseconds",
        Use("Return 2", "return _(_, _, _)._(_('', _))", "Name 3", "Name 4"),
        "server/test_result_types",
        "test_infinity_is_infinity_in_every_format",
    ),
}
