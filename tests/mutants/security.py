"""Mutants of security: what denies by default, ends at once, and lets nobody in when in doubt."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ADMISSION = "server/test_admission"
AUDIT = "unit/security/test_audit"
AUTH = "server/test_auth"
BUDGET = "server/test_byte_budget"
GATES = "server/test_gates"
MATRIX = "server/test_auth_matrix"
QUOTAS = "server/test_quotas"
REGISTRY = "unit/security/test_registry"
SCOPES = "property/test_scopes_model"
SOCKETS = "server/live/test_ws_admission"
STREAMS = "server/test_streams_of_tokens"
TICKETS = "unit/security/test_tickets"
TOKENS = "unit/security/test_tokens"
VIEWS = "server/test_same_decision"
WEB = "server/test_web_pages"

SECURITY = {
    "security: decode a body of any number of objects": Mutant(
        "server.app:App._take_body",
        "if call.media_type in _TEXTUAL:",
        "if False:",
        BUDGET,
        "test_objects_in_a_body_are_counted_before_it_is_decoded[json-plain]",
    ),
    "security: let an allow win over a deny": Mutant(
        "security.scopes:Scopes.allow",
        "topic in self._allowed[action] and topic not in self._denied[action]",
        "topic in self._allowed[action]",
        SCOPES,
        "test_scopes_decide_as_the_naive_reading_does",
    ),
    "security: forget what belongs to a topic that is denied": Mutant(
        "security.scopes:Scopes.__init__",
        "action: _Names(self._patterns(action, deny=True), with_companions=True)",
        "action: _Names(self._patterns(action, deny=True), with_companions=False)",
        "unit/security/test_scopes",
        "test_what_belongs_to_a_topic_is_denied_with_it_and_read_with_it",
    ),
    "security: give away in spite of a deny": Mutant(
        "security.scopes:Scopes._covers",
        "if _touch(pattern, denied)",
        "if False",
        SCOPES,
        "test_what_is_covered_never_allows_more",
    ),
    "security: compare digests with ==": Mutant(
        "security.tokens:same_digest",
        "hmac.compare_digest(one.encode(), other.encode())",
        "one == other",
        TOKENS,
        "test_digests_are_compared_in_constant_time",
    ),
    "security: answer at once when a token is unknown": Mutant(
        "security.tokens:find",
        "right = same_digest(digest, kept.digest)",
        "right = kept is not NOBODY and same_digest(digest, kept.digest)",
        TOKENS,
        "test_a_look_takes_the_same_steps_whatever_is_wrong",
    ),
    "security: believe the secret under any id": Mutant(
        "security.tokens:find",
        "right and kept.id == given.id and kept is not NOBODY",
        "right and kept is not NOBODY",
        TOKENS,
        "test_only_the_right_secret_finds_a_token",
    ),
    "security: forget the expiry": Mutant(
        "security.tokens:Token.why_not",
        "if now_us >= self.expires_us:",
        "if False:",
        REGISTRY,
        "test_rotating_leaves_both_valid_for_the_grace",
    ),
    "security: let a token that is remembered outlive its end": Mutant(
        "server.auth:Auth.check_live",
        'if who.kind == "token" and self._clock.now_us() >= who.expires_us:',
        "if False:",
        AUTH,
        "test_a_token_is_refused_before_its_time_and_after_it",
    ),
    "security: forget the beginning": Mutant(
        "security.tokens:Token.why_not",
        "if now_us < self.not_before_us:",
        "if False:",
        AUTH,
        "test_a_token_is_refused_before_its_time_and_after_it",
    ),
    "security: keep the secret": Mutant(
        "security.registry:Registry._made",
        "label=tokens.checked_label(label),",
        "label=given.secret,",
        REGISTRY,
        "test_the_secret_is_kept_nowhere",
    ),
    "security: leave a damaged token out": Mutant(
        "security.registry:Registry._read",
        "if seal.digest != _digest(kept.values()):",
        "if False:",
        REGISTRY,
        "test_whatever_is_wrong_with_one_record_nobody_is_found[_older_version]",
    ),
    "security: pass over lost records of tokens": Mutant(
        "security.registry:Registry._check_losses",
        "if gap is not None and gap.gap_to > seal.losses_seen:",
        "if False:",
        "corruption/test_tokens",
        "test_no_flipped_byte_lets_a_revoked_token_in[repaired-saved]",
    ),
    "security: keep tokens in class disk": Mutant(
        "security.registry:Registry.__init__",
        '{"durability": "fsync"}',
        '{"durability": "disk"}',
        REGISTRY,
        "test_a_revocation_is_durable_when_it_returns",
    ),
    "security: let local go on when there are tokens": Mutant(
        "server.auth:Auth.check_live",
        "if not self._open:",
        "if False:",
        AUTH,
        "test_the_first_token_closes_the_server_at_once_and_for_ever",
    ),
    "security: take anybody without tokens for local": Mutant(
        "server.auth:Auth._nobody",
        "if self._open and is_loopback(address):",
        "if self._open:",
        AUTH,
        "test_somebody_from_elsewhere_is_not_local_however_he_got_here",
    ),
    "security: remember a header for ever": Mutant(
        "server.auth:Auth._look",
        "            self._remembered.clear()\n            self._granted.clear()\n"
        "            self._rights.clear()\n            self._ended.clear()\n",
        "            self._rights.clear()\n",
        AUTH,
        "test_a_revoked_token_is_refused_from_the_next_request_on",
    ),
    "security: let in when tokens cannot be trusted": Mutant(
        "server.auth:Auth._look",
        'raise Refused(503, "unavailable", "the tokens cannot be trusted: nobody may") from error',
        "del error\n            return",
        AUTH,
        "test_a_store_of_tokens_that_is_damaged_denies_all_and_keeps_a_server_from_starting",
    ),
    "security: tell nobody of a revocation": Mutant(
        "server.auth:Auth._end",
        "tell(who.id)",
        "pass",
        STREAMS,
        "test_revoking_ends_a_stream[watch]",
    ),
    "security: let a stream go on without a look": Mutant(
        "server.auth:Auth.check_live",
        "        if reason:\n",
        "        if False:\n",
        STREAMS,
        "test_revoking_ends_a_stream[work]",
    ),
    "security: use a ticket twice": Mutant(
        "security.tickets:Tickets.take",
        "self._issued.pop(_digest(text), None)",
        "self._issued.get(_digest(text))",
        TICKETS,
        "test_a_ticket_is_good_once",
    ),
    "security: lock the owner out on loopback": Mutant(
        "server.auth:Auth._token",
        "if not is_loopback(address):",
        "if True:",
        AUTH,
        "test_the_owner_on_this_machine_is_never_locked_out",
    ),
    "security: let strangers guess for ever": Mutant(
        "server.auth:Auth._failed",
        "self.quotas.failures.pour(network_of(address))",
        "pass",
        WEB,
        "test_whoever_guesses_is_told_to_wait_and_the_owner_gets_in",
    ),
    "security: let anybody change the server's own topics": Mutant(
        "security.rules:allowed",
        'return action == "read" and scopes.allow("admin")\n    if topic',
        'return scopes.allow("admin")\n    if topic',
        AUTH,
        "test_the_servers_own_topics_are_changed_by_nobody_and_read_by_admins"
        "[strandline.tokens-write]",
    ),
    "security: show journals of remembered queries": Mutant(
        "security.rules:allowed",
        "if topic.startswith(REMEMBERED) and",
        "if False and",
        VIEWS,
        "test_whoever_may_not_read_it_sees_it_in_no_way[journal of a remembered query-outsider]",
    ),
    "security: give more than one has": Mutant(
        "security.registry:_check_covered",
        "if not holder.cover(scopes):",
        "if False:",
        "server/test_tokens_api",
        "test_nobody_gives_away_what_he_does_not_have[all]",
    ),
    "security: revoke a token of more scopes": Mutant(
        "security.registry:Registry.revoke",
        "_check_covered(holder, found.parsed())",
        "pass",
        "server/test_tokens_api",
        "test_a_token_changes_only_tokens_that_its_own_scopes_cover[tokens-all-revoke]",
    ),
    "security: do not ask what a route needs": Mutant(
        "server.app:App._admitted",
        "self._parts.auth.authorise(who, need.action, name)",
        "pass",
        MATRIX,
        "test_a_token_of_another_prefix_is_refused[GET /v0/topics/{topic}]",
    ),
    "security: ask about the first need alone": Mutant(
        "server.app:App._admitted",
        "for need in route.needs:",
        "for need in route.needs[:1]:",
        MATRIX,
        "test_each_need_is_needed[POST /v0/kv/{topic}/commit]",
    ),
    "security: read the body of a request without a token": Mutant(
        "server.app:App._who",
        "auth.identify if route.is_public else auth.authenticate",
        "auth.authenticate if route.needs else auth.identify",
        ADMISSION,
        "test_a_body_is_refused_by_its_head[POST /v0/sql-none]",
    ),
    "security: read the body of an append without a token": Mutant(
        "server.hot:Hot.plain",
        "who = parts.auth.known(authorization, address)",
        "who = parts.auth.known(authorization, address) or NOBODY",
        ADMISSION,
        "test_the_hot_path_refuses_by_the_head_too[none-24]",
    ),
    "security: discard a refused body of any size": Mutant(
        "server.app:App._answer",
        "if bodies.is_large(request.headers):",
        "if False:",
        ADMISSION,
        "test_a_body_is_refused_by_its_head[POST /v0/sql-none]",
    ),
    "security: read a WebSocket without a token to the end": Mutant(
        "server.live.socket:LiveWebSocket._is_too_early",
        "if self._early <= EARLY_BYTES_MAX:",
        "if True:",
        SOCKETS,
        "test_what_is_not_authenticated_may_send_4_kib[empty fragments]",
    ),
    "security: log a traceback for a WebSocket that hangs up": Mutant(
        "server.sockets:websocket",
        "except WebSocketDisconnect:",
        "except ZeroDivisionError:",
        SOCKETS,
        "test_noise_leaves_no_line_in_the_log[nothing]",
    ),
    "security: one client may hold the whole budget": Mutant(
        "server.byte_budget:ByteBudget._change",
        "if held > self._client_bytes_max:",
        "if False:",
        BUDGET,
        "test_unfinished_bodies_count_and_the_next_one_is_refused[application]",
    ),
    "security: count no unfinished append": Mutant(
        "server.hot:Hot.hold",
        "append.hold.resize(sum(map(len, append.pieces)))",
        "pass",
        BUDGET,
        "test_unfinished_bodies_count_and_the_next_one_is_refused[hot]",
    ),
    "security: unpack without counting": Mutant(
        "server.app:App._take_body",
        "hold.resize(len(raw) + bodies.unpacked_size(raw, encoding, size_max))\n"
        "            raw = await run(bodies.unpacked, raw, encoding, size_max)\n"
        "            hold.resize(len(raw))\n",
        "raw = await run(bodies.unpacked, raw, encoding, size_max)\n",
        BUDGET,
        "test_unpacked_bytes_count",
    ),
    "security: count no unfinished message": Mutant(
        "server.live.socket:LiveWebSocket._count",
        "hold.resize(unfinished + self._queued)",
        "hold.resize(self._queued)",
        BUDGET,
        "test_unfinished_messages_count_and_the_connection_ends[True]",
    ),
    "security: let any number of requests wait on one connection": Mutant(
        "server.strictness:check_waiting",
        "if count >= WAITING_MAX:",
        "if False:",
        BUDGET,
        "test_more_than_256_requests_do_not_wait_on_one_connection",
    ),
    "security: no look at Host": Mutant(
        "server.gates:Gate.check",
        "self._check_host(host)",
        "pass",
        WEB,
        "test_a_name_that_was_bent_to_this_machine_is_refused_everywhere[/v0/topics-evil.example]",
    ),
    "security: no look at Origin": Mutant(
        "server.gates:Gate.check",
        'self._check_origin(host or "", origin)',
        "pass",
        WEB,
        "test_a_page_of_elsewhere_is_refused_also_with_json[http://evil.example]",
    ),
    "security: no look at the Origin of a WebSocket": Mutant(
        "server.app:App._websocket",
        'self._gate.check(socket.headers.get("host"), socket.headers.get("origin"))',
        "pass",
        WEB,
        "test_a_websocket_of_a_page_of_elsewhere_is_refused",
    ),
    "security: remember a page under any name": Mutant(
        "server.gates:Gate.check",
        "pair = (host, origin)",
        "pair = (None, origin)",
        GATES,
        "test_names_are_remembered_one_by_one",
    ),
    "security: count every address of a customer by itself": Mutant(
        "server.quotas:_network",
        "return str(ipaddress.IPv6Network((found, 64), strict=False))",
        "return address",
        QUOTAS,
        "test_addresses_of_ipv6_count_by_their_first_half",
    ),
    "security: count addresses without bound": Mutant(
        "server.quotas:Bucket.pour",
        "while len(self._levels) > COUNTED_MAX:",
        "while False:",
        QUOTAS,
        "test_whoever_comes_from_many_addresses_does_not_fill_the_memory",
    ),
    "security: an audit log without a chain": Mutant(
        "security.audit:_reason",
        "if not first and entry.previous != (last_hash or _BEGINNING):",
        "if False:",
        AUDIT,
        "test_whatever_is_forged_is_found[_changed_and_sealed-2]",
    ),
    "security: an audit log with holes": Mutant(
        "security.audit:_reason",
        "if entry is None:",
        "if entry is None and False:",
        AUDIT,
        "test_a_record_that_is_no_entry_is_found",
    ),
    "security: escape nothing in the audit log": Mutant(
        "security.audit:plain",
        "if short.isascii() and short.isprintable():",
        "if True:",
        AUDIT,
        "test_what_comes_from_outside_cannot_be_mistaken_for_anything_else",
    ),
    "security: secrets in the audit log": Mutant(
        "security.audit:plain",
        "redacted(text)[:_TEXT_MAX]",
        "text[:_TEXT_MAX]",
        AUDIT,
        "test_text_is_cut_short_and_has_no_secrets",
    ),
    "security: strangers fill the audit log": Mutant(
        "security.audit:Audit.note_failure",
        "if self._failures > FAILURES_PER_MINUTE:",
        "if False:",
        AUDIT,
        "test_strangers_cannot_fill_the_log",
    ),
    "security: changes of topics leave no trace": Mutant(
        "server.auditing:note",
        "if status < 400 and is_noted(route):",
        "if False:",
        "server/test_tokens_api",
        "test_changes_of_topics_are_in_the_audit_log_with_who_and_where",
    ),
}
