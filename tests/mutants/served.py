"""Mutants of serving: what is acknowledged, counted, refused, told and forgotten by a server."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

APPENDS = "server/test_appends_api"
AUDIT = "unit/security/test_audit"
AUTH = "server/test_auth"
BODIES = "server/test_append_bodies"
DURABLE = "server/test_durable"
FAILED = "server/test_failed_disk"
FOLLOWING = "client/test_following"
GOVERNOR = "server/live/test_governor"
GROUPS = "server/test_groups_api"
HOT = "server/test_hot_path"
HUB = "server/live/test_hub"
METRICS = "server/test_metrics"
OPENING = "unit/views/groups/test_opening"
RESTARTS = "unit/views/groups/test_restarts"
ROUTERS = "unit/routers/test_definition"
SLOW = "server/live/test_slow"
STREAMS = "server/test_streams_of_tokens"

SERVED = {
    "served: a query has no deadline": Mutant(
        "server.query_registry:RunningQuery._expire",
        "self.stop(",
        "str(",
        "server/test_running_queries",
        "test_an_endless_query_ends_at_its_deadline[application/json]",
    ),
    "served: a query goes on without its client": Mutant(
        "server.query_request:_stop_when_gone",
        'query.stop(ClientGone("the client has gone"))',
        "pass",
        "server/test_running_queries",
        "test_a_query_ends_when_its_client_goes[application/json]",
    ),
    "served: queries of a token are not counted": Mutant(
        "server.query_registry:QueryRegistry.begin",
        ">= self._per_token_max",
        "> 10 * self._per_token_max",
        "server/test_running_queries",
        "test_a_token_runs_a_few_queries_at_once_and_nobody_else_waits_for_them",
    ),
    "served: reads of the lake take threads of local work": Mutant(
        "server.reading:_pool",
        "else bridge.lake",
        "else bridge.slow",
        "server/test_pools",
        "test_what_is_known_to_be_cold_is_read_by_threads_of_the_lake[diff]",
    ),
    "served: acknowledge what a failed sync has lost": Mutant(
        "server.durable:_Line._tell",
        "None if lsn <= upto else error",
        "None",
        FAILED,
        "test_everybody_who_waits_for_a_sync_that_fails_is_told_and_nobody_gets_an_ack",
    ),
    "served: a failed disk takes back what was synced": Mutant(
        "server.durable:_Line._tell",
        "None if lsn <= upto else error",
        "error",
        DURABLE,
        "test_what_was_synced_before_the_disk_failed_is_acknowledged_all_the_same",
    ),
    "served: tell only the first who waits": Mutant(
        "server.durable:_Line._tell",
        "while waiting and",
        "if waiting and",
        DURABLE,
        "test_all_who_came_in_one_turn_of_the_loop_are_told_by_one_sync",
    ),
    "served: call a failed store healthy in metrics": Mutant(
        "server.metrics:_of_store",
        "health.status == status",
        'status == "green"',
        FAILED,
        "test_everybody_who_waits_for_a_sync_that_fails_is_told_and_nobody_gets_an_ack",
    ),
    "served: a failed log takes records, says the metric": Mutant(
        "server.metrics:_of_log",
        "numbers.failed, shard",
        "False, shard",
        FAILED,
        "test_everybody_who_waits_for_a_sync_that_fails_is_told_and_nobody_gets_an_ack",
    ),
    "served: measure no sync": Mutant(
        "wal.committer:Committer._round",
        "self.times.end(writer.monotonic(), synced=synced)",
        "self.times.end(writer.monotonic(), synced=False)",
        METRICS,
        "test_numbers_follow_what_is_done",
    ),
    "served: count syncs where their time is told": Mutant(
        "server.metrics:_of_log",
        '_of_syncs(numbers.sync_total_us, shard, "_sum")',
        '_of_syncs(count, shard, "_sum")',
        METRICS,
        "test_how_long_syncs_took_is_told_in_microseconds",
    ),
    "served: bytes of a hot append are free": Mutant(
        "server.hot:Hot.take",
        "auth.quotas.begin(who, address, len(body))",
        "auth.quotas.begin(who, address)",
        HOT,
        "test_bytes_count_whichever_way_they_come[hot]",
    ),
    "served: bytes behind a known head are free": Mutant(
        "server.quotas:Quotas.has_room",
        " or self._bytes is not None",
        "",
        "server/test_quotas",
        "test_where_bytes_or_requests_are_counted_nothing_passes_by",
    ),
    "served: bytes of an answer are free": Mutant(
        "server.app:App._answer",
        "self._parts.auth.quotas.count(call.who, address_of(call.connection), len(body))",
        "pass",
        HOT,
        "test_what_is_read_counts_in_bytes_too",
    ),
    "served: bytes of a publish are free": Mutant(
        "server.sockets:_Connection.take",
        "or call.parts.auth.quotas.counts_bytes",
        "",
        "server/live/test_ws",
        "test_what_is_published_counts_in_bytes",
    ),
    "served: routers in a circle": Mutant(
        "routers.routers:Routers._check_shape",
        "if cycle is not None:",
        "if False:",
        ROUTERS,
        "test_a_circle_is_refused_and_nothing_is_made",
    ),
    "served: a second loss at a source is not reported": Mutant(
        "routers.lane:Lane._report",
        "if count > 0:",
        "if not reported:",
        "unit/routers/test_losses",
        "test_a_second_loss_is_reported_to_a_reader_who_has_seen_the_first[at_least_once-disk]",
    ),
    "served: count only the first level of a fan-out": Mutant(
        "routers.fan_out:FanOut._count",
        "weight = 1 + self._copies[self._after(place, router)]",
        "weight = 1",
        "unit/routers/test_fan_out",
        "test_a_router_that_would_multiply_records_beyond_the_bound_is_refused",
    ),
    "served: run stored routers beyond the bound of copies": Mutant(
        "routers.routers:Routers._round",
        "if name in self._excess:",
        "if not name:",
        "unit/routers/test_fan_out",
        "test_stored_routers_beyond_a_lowered_bound_are_held_reported_and_kept",
    ),
    "served: see only the nearest circle": Mutant(
        "routers.cycles:find_cycle",
        "waiting.append(dest)",
        "pass",
        ROUTERS,
        "test_a_circle_is_told_with_its_topics",
    ),
    "served: one record more than a batch may have": Mutant(
        "server.appending:_admit",
        "count <= count_max",
        "count <= count_max + 1",
        APPENDS,
        "test_records_of_an_append_may_be_fewer_by_setting",
    ),
    "served: settle any number of deliveries": Mutant(
        "server.groups:_check_count",
        "if count > count_max:",
        "if False:",
        GROUPS,
        "test_one_request_settles_so_many_deliveries_at_most",
    ),
    "served: start without a word": Mutant(
        "server.auth:Auth.start",
        'self.audit.note("start", told)',
        "pass",
        AUTH,
        "test_the_start_is_in_the_audit_log_with_what_was_found",
    ),
    "served: start as if all were well": Mutant(
        "server.auth:Auth.start",
        '"health": found.status',
        '"health": "green"',
        AUTH,
        "test_the_start_tells_what_is_wrong_with_the_store",
    ),
    "served: begin the chain of the audit log anew": Mutant(
        "security.audit:_end_of",
        "return found.entries, found.last_hash",
        "return found.entries, _BEGINNING",
        AUDIT,
        "test_the_chain_goes_on_after_a_restart_of_the_server",
    ),
    "served: a revocation ends the streams of all": Mutant(
        "server.live.hub:Hub.close_streams_of",
        "if stream.who.id == principal_id:",
        "if True:",
        STREAMS,
        "test_revoking_another_token_leaves_a_stream_alone[watch]",
    ),
    "served: who watches is never asked again": Mutant(
        "server.live.hub:Hub._recheck",
        "stream.check()",
        "pass",
        STREAMS,
        "test_a_stream_ends_when_who_watches_may_read_its_topic_no_longer",
    ),
    "served: a slow watcher is told of one too many": Mutant(
        "server.live.slow:skipped",
        "gap_from=after + 1",
        "gap_from=after",
        SLOW,
        "test_the_notice_names_all_that_was_missed_and_nothing_else",
    ),
    "served: topics that expire are not lossy": Mutant(
        "server.live.slow:is_lossy",
        " or config.ttl_ms",
        "",
        SLOW,
        "test_a_topic_is_lossy_when_it_lets_go_of_records_by_itself[config4-True]",
    ),
    "served: who takes nothing stays for ever": Mutant(
        "server.live.slow:verdict",
        '"end" if full_s > settings.patience_s else "wait"',
        '"wait"',
        SLOW,
        "test_who_is_full_waits_and_ends_when_his_time_is_over[10.1-False-end]",
    ),
    "served: forget idempotency keys in a replay": Mutant(
        "topic.replay:Replay._records",
        "if key is not None:",
        "if False:",
        APPENDS,
        "test_idempotency_keys_survive_a_restart",
    ),
    "served: a slow disk is healthy": Mutant(
        "wal.numbers:SyncTimes.slow",
        "sum(took) < SLOW_TOTAL_S",
        "True",
        "unit/store/test_slow_disk",
        "test_syncs_of_a_second_turn_health_yellow_with_figures_until_a_minute_has_passed",
    ),
    "served: see slow syncs only when they have ended": Mutant(
        "wal.numbers:SyncTimes.slow",
        "began_s is not None and",
        "False and began_s is not None and",
        "unit/store/test_slow_disk",
        "test_a_sync_that_does_not_return_is_reported_while_it_lasts",
    ),
    "served: remember any number of idempotency keys": Mutant(
        "topic.idempotency_index:IdempotencyIndex._evict",
        "self._remove(next(iter(self._known)))",
        "break",
        "unit/topic/test_idempotency_bounds",
        "test_a_topic_remembers_so_many_keys_and_evicts_the_oldest[goes on]",
    ),
    "served: measure windows of keys with the wall clock": Mutant(
        "wal.elapsed_clock:ElapsedClock.now_us",
        "return self._first_us + round((self._clock.monotonic() - self._since_s) * 1_000_000)",
        "return self._clock.now_us()",
        "unit/topic/test_idempotency_bounds",
        "test_a_clock_that_jumps_forward_ends_no_window_early[goes on]",
    ),
    "served: keep the keys of idle topics": Mutant(
        "topic.floors:enforce_all",
        "state.idempotency is not None and",
        "False and",
        "unit/topic/test_idempotency_bounds",
        "test_keys_of_an_idle_topic_are_forgotten_when_their_windows_are_over",
    ),
    "served: no look at the head that JSON expects": Mutant(
        "server.appending:_place_records",
        "expected_head=asked.expected_head",
        "expected_head=None",
        APPENDS,
        "test_an_append_at_another_head_conflicts_and_leaves_nothing",
    ),
    "served: no look at the head that a table expects": Mutant(
        "server.appending:_place_asked",
        "expected_head=asked.expected_head",
        "expected_head=None",
        BODIES,
        "test_whatever_the_body_an_append_at_another_head_leaves_nothing"
        "[application/vnd.apache.arrow.stream]",
    ),
    "served: no look at the head in the address": Mutant(
        "server.asked:asked_of_json",
        "said.expected_head_seq if request.expected_head_seq is None "
        "else request.expected_head_seq",
        "request.expected_head_seq",
        BODIES,
        "test_whatever_the_body_an_append_at_another_head_leaves_nothing[application/json]",
    ),
    "served: a member of before the restart goes on": Mutant(
        "server.groups:_member",
        "if int(generation) != group.generation:",
        "if False:",
        GROUPS,
        "test_after_a_restart_a_member_joins_again_and_its_late_ack_counts_for_nothing",
    ),
    "served: every opening of a group is the first": Mutant(
        "views.groups.keeping:Keeper.take_over",
        "found.generation + 1",
        "1",
        RESTARTS,
        "test_a_second_opening_takes_over_and_the_first_is_told",
    ),
    "served: options of a group are not kept": Mutant(
        "views.groups.options:KeptOptions.opened",
        "            self.save(made)\n",
        "            pass\n",
        OPENING,
        "test_options_that_differ_are_refused_and_told",
    ),
    "served: altered options are told and not kept": Mutant(
        "views.groups.groups:Groups.alter",
        "kept.save(changed)",
        "pass",
        GROUPS,
        "test_altered_options_are_told_and_members_join_again",
    ),
    "served: a lease is extended by what others have": Mutant(
        "views.groups.group:Group.extend",
        "now + self.options.lease_s",
        "now + 30.0",
        "unit/views/groups/test_acks",
        "test_an_extended_delivery_is_kept_for_a_whole_lease_from_then[90.0]",
    ),
    "served: pressure leaves the sync as it is": Mutant(
        "server.live.load_sampler:LoadSampler.sample",
        "committer.window_s = governor.window_s",
        "pass",
        HUB,
        "test_pressure_widens_the_sync_and_holds_routers_until_it_is_over",
    ),
    "served: pressure leaves routers alone": Mutant(
        "server.live.load_sampler:LoadSampler.sample",
        "self._store.routers.deferred = governor.is_deferring",
        "pass",
        HUB,
        "test_pressure_widens_the_sync_and_holds_routers_until_it_is_over",
    ),
    "served: pressure holds nobody up": Mutant(
        "server.live.hub:Hub._serve",
        "deferring=self.governor.is_deferring",
        "deferring=False",
        HUB,
        "test_under_pressure_turns_wait_for_more_and_the_lowest_band_waits_for_calm",
    ),
    "served: a late loop is not pressure": Mutant(
        "server.live.load_sampler:LoadSampler.sample",
        "lag_s=self._lag_s,",
        "",
        "server/live/test_load_sampler",
        "test_a_loop_that_runs_late_is_pressure_and_one_in_time_is_none",
    ),
    "served: deferred routers stop": Mutant(
        "routers.routers:Routers.run_job",
        "elif self._clock.monotonic() - self._round_s >= DEFERRED_S:",
        "elif False:",
        "unit/routers/test_job",
        "test_while_a_server_is_pressed_routers_still_make_progress",
    ),
    "served: a deferred topic is deferred silently": Mutant(
        "server.live.hub:Hub._serve",
        "self._hint_deferred()",
        "pass",
        HUB,
        "test_watchers_of_a_deferred_topic_get_one_hint_each_time",
    ),
    "served: refuse until the whole line is gone": Mutant(
        "server.live.governor:Governor.sample",
        "most // 2 if self.is_refusing else most",
        "1 if self.is_refusing else most",
        GOVERNOR,
        "test_refusing_ends_when_half_of_the_line_is_gone",
    ),
    "served: routers go on although they are to wait": Mutant(
        "routers.routers:Routers.run_job",
        "if not self.deferred:",
        "if True:",
        "unit/routers/test_job",
        "test_while_a_server_is_pressed_the_job_waits_and_then_forwards_all",
    ),
    "served: a queue counts the letters of all": Mutant(
        "views.queue.own_letters:OwnLetters._look",
        " if record.node == self._node",
        "",
        "unit/views/queue/test_dead",
        "test_each_queue_counts_its_own_letters_of_a_topic_that_they_share",
    ),
    "served: a client leaves its session behind": Mutant(
        "client.blocking.following:RemoteFollowing._forget",
        'self._connection.mention(Ask("DELETE", session.stream_url))',
        "pass",
        FOLLOWING,
        "test_who_stops_following_leaves_no_session_behind",
    ),
    "served: anybody gives a topic to a view": Mutant(
        "server.making:_views",
        "if views.owner:",
        "if False:",
        "server/test_topics_api",
        "test_nobody_gives_a_topic_to_a_view",
    ),
    "served: a command is missing": Mutant(
        "cli.main:make_app",
        "enumerate(COMMANDS.items())",
        "enumerate(list(COMMANDS.items())[1:])",
        "docs/test_command_line",
        "test_every_command_is_in_the_table_and_no_other",
    ),
    "routers: a source that cannot be read keeps the store from opening": Mutant(
        "routers.lane:Lane.locate",
        "except (OSError, StrandlineError) as error:",
        "except Poisoned as error:",
        "corruption/test_held_parts",
        "test_a_damaged_block_of_its_source_holds_a_router_and_the_store_opens",
    ),
    "routers: definitions that cannot be read are changed": Mutant(
        "routers.routers:Routers._check_readable",
        "if self._unreadable is not None:",
        "if False:",
        "corruption/test_held_parts",
        "test_damaged_definitions_hold_all_routers_and_nothing_overwrites_them",
    ),
}
