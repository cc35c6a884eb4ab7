"""Mutants of the server: what it acknowledges, counts, refuses and forgets."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Leave, Once, Remove, Replace, Set, Use

APPENDS = "server/test_appends_api"
AUDIT = "unit/security/test_audit"
AUTH = "server/test_auth"
BODIES = "server/test_append_bodies"
DURABLE = "server/test_durable"
FAILED = "server/test_failed_disk"
FOLLOWING = "client/test_following"
GROUPS = "server/test_groups_api"
HOT = "server/test_hot_path"
METRICS = "server/test_metrics"
OPENING = "unit/views/groups/test_opening"
RESTARTS = "unit/views/groups/test_restarts"


SERVER = {
    "served: a query has no deadline": Mutant(
        "server.limits.query_registry:RunningQuery._expire",
        Replace("Expr 1", "_(_(504, '', f(_), _={'': '', '': _}))", "Attribute 1", "str"),
        "server/test_running_queries",
        "test_an_endless_query_ends_at_its_deadline[application/json]",
    ),
    "served: a query goes on without its client": Mutant(
        "server.handlers.query_request:_stop_on_disconnect",
        Remove("Expr 1", "_(_(''))"),
        "server/test_running_queries",
        "test_a_query_ends_when_its_client_goes[application/json]",
    ),
    "served: a process with rows to send serves another query": Mutant(
        "query.sql.process_sandbox:QueryProcesses.release",
        Drop("If 1", "if _ and _:", "Attribute 1"),
        "unit/query/sql/test_process_sandbox",
        "test_a_query_that_is_left_or_stopped_ends_its_process",
    ),
    "served: every answer ends its process": Mutant(
        "server.http.arrow_streams:ChunkedResponse.cancel",
        Drop("If 1", "if _ is not None and (not _):", "UnaryOp 1"),
        "server/test_running_queries",
        "test_a_process_serves_the_next_query_after_an_answer_and_after_an_error",
    ),
    "served: errors of a process have no class": Mutant(
        "query.sql.process_sandbox:_error_of",
        Replace("Return 3", "return _(_) (2 of 3)", "Name 1", "Exception"),
        "unit/query/sql/test_process_sandbox",
        "test_an_error_is_the_same_as_in_this_process",
    ),
    "served: queries of a token are not counted": Mutant(
        "server.limits.query_registry:QueryRegistry.start",
        Replace("If 1", "if _(_(_, ())) >= _:", "Compare 1", "{Call 1} > 10 * {Attribute 3}"),
        "server/test_running_queries",
        "test_a_token_runs_a_few_queries_at_once_and_nobody_else_waits_for_them",
    ),
    "served: reads of the lake take threads of local work": Mutant(
        "server.handlers.read:_pool",
        Use("Return 2", "return _ if _(_) else _", "Attribute 3", "Attribute 2"),
        "server/test_pools",
        "test_what_is_known_to_be_cold_is_read_by_threads_of_the_lake[diff]",
    ),
    "served: acknowledge what a failed sync has lost": Mutant(
        "server.commit_waiters:_ShardQueue._notify",
        Set("Expr 1", "_(_, None if _ <= _ else _)", "IfExp 1", None),
        FAILED,
        "test_everybody_who_waits_for_a_sync_that_fails_is_told_and_nobody_gets_an_ack",
    ),
    "served: a failed disk takes back what was synced": Mutant(
        "server.commit_waiters:_ShardQueue._notify",
        Use("Expr 1", "_(_, None if _ <= _ else _)", "IfExp 1", "Name 5"),
        DURABLE,
        "test_what_was_synced_before_the_disk_failed_is_acknowledged_all_the_same",
    ),
    "served: tell only the first who waits": Mutant(
        "server.commit_waiters:_ShardQueue._notify",
        Once("While 1", "while _ and (_ is not None or _[0][0] <= _):"),
        DURABLE,
        "test_all_who_came_in_one_turn_of_the_loop_are_told_by_one_sync",
    ),
    "served: call a failed store healthy in metrics": Mutant(
        "server.routes.prometheus:_of_store",
        Replace("Expr 1", "yield _('', _ == _, {'': _})", "Compare 1", "{Name 3} == 'green'"),
        FAILED,
        "test_everybody_who_waits_for_a_sync_that_fails_is_told_and_nobody_gets_an_ack",
    ),
    "served: a failed log takes records, says the metric": Mutant(
        "server.routes.prometheus:_of_log",
        Set("Expr 9", "yield _('', _, _) (9 of 10)", "Attribute 1", False),
        FAILED,
        "test_everybody_who_waits_for_a_sync_that_fails_is_told_and_nobody_gets_an_ack",
    ),
    "served: measure no sync": Mutant(
        "log.wal.committer:Committer._round",
        Set("Expr 12", "_(_(), _=_)", "Name 3", False),
        METRICS,
        "test_numbers_follow_what_is_done",
    ),
    "served: count syncs where their time is told": Mutant(
        "server.routes.prometheus:_of_log",
        Use(
            "Expr 12",
            "yield _(_, _, '') (1 of 2)",
            "Attribute 1",
            "Assign 2: Name 1",
            others=("_ = 0",),
        ),
        METRICS,
        "test_how_long_syncs_took_is_told_in_microseconds",
    ),
    "served: bytes of a hot append are free": Mutant(
        "server.connection.fast_append:FastAppend.append",
        Drop("Expr 1", "_(_, _, _(_))", "Call 2"),
        HOT,
        "test_bytes_count_whichever_way_they_come[hot]",
    ),
    "served: bytes behind a known head are free": Mutant(
        "server.limits.rate_limits:RateLimits.has_room",
        Drop("If 1", "if _ is not None or _ is not None:", "Compare 2"),
        "server/test_quotas",
        "test_where_bytes_or_requests_are_counted_nothing_passes_by",
    ),
    "served: bytes of an answer are free": Mutant(
        "server.app:_App._respond",
        Remove("Expr 4", "_(_, _(_), _(_))"),
        HOT,
        "test_what_is_read_counts_in_bytes_too",
    ),
    "served: bytes of a publish are free": Mutant(
        "server.routes.websocket:_Connection.handle",
        Drop("If 1", "if not _ or _ >= _ or _ or (_() > _):", "Attribute 4"),
        "server/live/test_ws",
        "test_what_is_published_counts_in_bytes",
    ),
    "served: one record more than a batch may have": Mutant(
        "server.handlers.append:_admit",
        Replace("If 1", "if not 0 < _ <= _:", "Name 2", "{it} + 1"),
        APPENDS,
        "test_records_of_an_append_may_be_fewer_by_setting",
    ),
    "served: settle any number of deliveries": Mutant(
        "server.routes.groups:_check_count",
        Force("If 1", "if _ > _:", False),
        GROUPS,
        "test_one_request_settles_so_many_deliveries_at_most",
    ),
    "served: start without a word": Mutant(
        "server.auth.auth:Auth.start",
        Remove("Expr 1", "_('', _)"),
        AUTH,
        "test_the_start_is_in_the_audit_log_with_what_was_found",
    ),
    "served: start as if all were well": Mutant(
        "server.auth.auth:Auth.start",
        Set("Assign 2", "_ = {'': _, '': _, '': _}", "Attribute 3", "green"),
        AUTH,
        "test_the_start_tells_what_is_wrong_with_the_store",
    ),
    "served: begin the chain of the audit log anew": Mutant(
        "security.audit:_end_of",
        Use(
            "Return 2",
            "return (_, _)",
            "Attribute 2",
            "Return 1: Name 1",
            others=("return (0, _)",),
        ),
        AUDIT,
        "test_the_chain_goes_on_after_a_restart_of_the_server",
    ),
    "served: forget idempotency keys in a replay": Mutant(
        "log.recovery.replay:Replay._records",
        Force("If 7", "if _ is not None:", False),
        APPENDS,
        "test_idempotency_keys_survive_a_restart",
    ),
    "served: a slow disk is healthy": Mutant(
        "log.wal.stats:SyncTimes.slow",
        Force("If 2", "if _(_) < _:", True),
        "unit/store/test_slow_disk",
        "test_syncs_of_a_second_turn_health_yellow_with_figures_until_a_minute_has_passed",
    ),
    "served: see slow syncs only when they have ended": Mutant(
        "log.wal.stats:SyncTimes.slow",
        Replace(
            "If 1",
            "if _ is not None and _ - _ > _:",
            "BoolOp 1",
            "False and {Compare 1} and {Compare 2}",
        ),
        "unit/store/test_slow_disk",
        "test_a_sync_that_does_not_return_is_reported_while_it_lasts",
    ),
    "served: remember any number of idempotency keys": Mutant(
        "log.state.idempotency_index:IdempotencyIndex._evict",
        Leave("Expr 1", "_(_(_(_)))", "break"),
        "unit/log/topic/test_idempotency_bounds",
        "test_a_topic_remembers_so_many_keys_and_evicts_the_oldest[goes on]",
    ),
    "served: measure windows of keys with the wall clock": Mutant(
        "log.wal.elapsed_clock:ElapsedClock.now_us",
        Replace(
            "Return 1",
            "return _ + _((_() - _) * 1000000)",
            "BinOp 1",
            "{Attribute 3}.{name 1}()",
            names=("platform.clock:Clock.now_us",),
        ),
        "unit/log/topic/test_idempotency_bounds",
        "test_a_clock_that_jumps_forward_ends_no_window_early[goes on]",
    ),
    "served: keep the keys of idle topics": Mutant(
        "log.retention.retention_floors:enforce_all",
        Set("If 1", "if _ is not None and _ is not None:", "Compare 1", False),
        "unit/log/topic/test_idempotency_bounds",
        "test_keys_of_an_idle_topic_are_forgotten_when_their_windows_are_over",
    ),
    "served: no look at the head that JSON expects": Mutant(
        "server.handlers.append:_place_records",
        Set("Return 1", "return _(_, _=_, _=_, _=_, _=_, _=_, _=_)", "Attribute 2", None),
        APPENDS,
        "test_an_append_at_another_head_conflicts_and_leaves_nothing",
    ),
    "served: no look at the head that a table expects": Mutant(
        "server.handlers.append:_place_request",
        Set("Assign 3", "_ = _(_, _=_, _=_)", "Attribute 2", None),
        BODIES,
        "test_whatever_the_body_an_append_at_another_head_leaves_nothing"
        "[application/vnd.apache.arrow.stream]",
    ),
    "served: no look at the head in the address": Mutant(
        "server.handlers.append_request:request_of_json",
        Use(
            "Return 1",
            "return _(_, None, _ if _ is None else _, _(_(_, ... 06b5a42a",
            "IfExp 2",
            "Attribute 5",
        ),
        BODIES,
        "test_whatever_the_body_an_append_at_another_head_leaves_nothing[application/json]",
    ),
    "served: a member of before the restart goes on": Mutant(
        "server.routes.groups:_member",
        Force("If 2", "if _(_) != _:", False),
        GROUPS,
        "test_after_a_restart_a_member_joins_again_and_its_late_ack_counts_for_nothing",
    ),
    "served: every opening of a group is the first": Mutant(
        "views.groups.offset_store:OffsetStore.take_over",
        Set("Assign 4", "_ = 1 if _ is None else _ + 1", "BinOp 1", 1),
        RESTARTS,
        "test_a_second_opening_takes_over_and_the_first_is_told",
    ),
    "served: options of a group are not kept": Mutant(
        "views.groups.options:OptionsStore.resolve",
        Remove("Expr 1", "_(_)"),
        OPENING,
        "test_options_that_differ_are_refused_and_told",
    ),
    "served: altered options are told and not kept": Mutant(
        "views.groups.group_registry:GroupRegistry.alter",
        Remove("Expr 1", "_(_)"),
        GROUPS,
        "test_altered_options_are_told_and_members_join_again",
    ),
    "served: a lease is extended by what others have": Mutant(
        "views.groups.consumer_group:Group.extend",
        Set("Expr 1", "_(_, _ + _)", "Attribute 4", 30.0),
        "unit/views/groups/test_acks",
        "test_an_extended_delivery_is_kept_for_a_whole_lease_from_then[90.0]",
    ),
    "served: a queue counts the letters of all": Mutant(
        "views.queue.dead_letter_count:DeadLetterCount._read_new",
        Drop("Assign 2", "_ = [_ for _ in _ if _ == _]", "Compare 1"),
        "unit/views/queue/test_dead_letters",
        "test_each_queue_counts_its_own_letters_of_a_topic_that_they_share",
    ),
    "served: a client leaves its session behind": Mutant(
        "client.blocking.follow:RemoteFollower._delete_session",
        Remove("Expr 1", "_(_('', _))"),
        FOLLOWING,
        "test_who_stops_following_leaves_no_session_behind",
    ),
    "served: anybody gives a topic to a view": Mutant(
        "server.handlers.topic_options:_views",
        Force("If 1", "if _:", False),
        "server/test_topics_api",
        "test_nobody_gives_a_topic_to_a_view",
    ),
    "served: a command is missing": Mutant(
        "cli.program:make_app",
        Replace("For 1", "for _ in _():", "Call 1", "list({it})[1:]"),
        "docs/test_command_line",
        "test_every_command_is_in_the_table_and_no_other",
    ),
}
