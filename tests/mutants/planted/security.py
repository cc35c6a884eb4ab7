"""Mutants of security: access is denied by default, and ends at once."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import All, Drop, Force, Remove, Replace, Rewrite, Set, Use

ADMISSION = "server/test_admission"
AUDIT = "unit/security/test_audit"
AUTH = "server/test_auth"
BUDGET = "server/test_byte_budget"
GATES = "server/test_gates"
MATRIX = "server/test_auth_matrix"
QUOTAS = "server/test_quotas"
REGISTRY = "unit/security/test_token_store"
SCOPES = "property/test_scopes_model"
SOCKETS = "server/live/test_ws_admission"
STREAMS = "server/test_streams_of_tokens"
TICKETS = "unit/security/test_tickets"
TOKENS = "unit/security/test_tokens"
VIEWS = "server/test_same_decision"
WEB = "server/test_web_pages"


SECURITY = {
    "security: decode a body of any number of objects": Mutant(
        "server.app:_App._receive_body",
        Force("If 3", "if _ in _:", False),
        BUDGET,
        "test_objects_in_a_body_are_counted_before_it_is_decoded[json-plain]",
    ),
    "security: let an allow win over a deny": Mutant(
        "security.scopes:Scopes.allow",
        Drop("Return 1", "return _ in _[_] and _ not in _[_]", "Compare 2"),
        SCOPES,
        "test_scopes_decide_as_the_naive_reading_does",
    ),
    "security: forget what belongs to a topic that is denied": Mutant(
        "security.scopes:Scopes.__init__",
        Set("Assign 3", "_ = {_: _(_(_, _=True), _=True) for _ in _}", "Constant 2", False),
        "unit/security/test_scopes",
        "test_what_belongs_to_a_topic_is_denied_with_it_and_read_with_it",
    ),
    "security: give away in spite of a deny": Mutant(
        "security.scopes:Scopes._covers",
        Set(
            "Return 2",
            "return _((_((_(_, _, _=True) for _ in _)) for _ ... b5fa77ad",
            "Call 5",
            False,
        ),
        SCOPES,
        "test_what_is_covered_never_allows_more",
    ),
    "security: compare digests with ==": Mutant(
        "security.tokens:same_digest",
        Replace("Return 1", "return _(_(), _())", "Call 1", "{Name 2} == {Name 3}"),
        TOKENS,
        "test_digests_are_compared_in_constant_time",
    ),
    "security: answer at once when a token is unknown": Mutant(
        "security.tokens:find",
        Replace(
            "Assign 4",
            "_ = _(_, _) (2 of 2)",
            "Call 1",
            "{Return 1: Compare 2} and {it}",
            others=("return _ if _ and _ == _ and (_ is not _) else None",),
        ),
        TOKENS,
        "test_a_look_takes_the_same_steps_whatever_is_wrong",
    ),
    "security: believe the secret under any id": Mutant(
        "security.tokens:find",
        Drop("Return 1", "return _ if _ and _ == _ and (_ is not _) else None", "Compare 1"),
        TOKENS,
        "test_only_the_right_secret_finds_a_token",
    ),
    "security: forget the expiry": Mutant(
        "security.tokens:Token.invalid_reason",
        Force("If 3", "if _ >= _:", False),
        REGISTRY,
        "test_rotating_leaves_both_valid_for_the_grace",
    ),
    "security: let a token that is remembered outlive its end": Mutant(
        "server.auth.auth:Auth.check_live",
        Force("If 4", "if _ == '' and _() >= _:", False),
        AUTH,
        "test_a_token_is_refused_before_its_time_and_after_it",
    ),
    "security: forget the beginning": Mutant(
        "security.tokens:Token.invalid_reason",
        Force("If 2", "if _ < _:", False),
        AUTH,
        "test_a_token_is_refused_before_its_time_and_after_it",
    ),
    "security: keep the secret": Mutant(
        "security.token_store:TokenStore._new_token",
        Use(
            "Assign 4",
            "_ = _(_=_, _=_(_ or _), _=_(_), _=_(_), _=_(_), ... 83063cda",
            "Call 5",
            "Attribute 5",
        ),
        REGISTRY,
        "test_the_secret_is_kept_nowhere",
    ),
    "security: leave a damaged token out": Mutant(
        "security.token_store:TokenStore._read",
        Force("If 2", "if _ != _(_()):", False),
        REGISTRY,
        "test_whatever_is_wrong_with_one_record_nobody_is_found[_older_version]",
    ),
    "security: pass over lost records of tokens": Mutant(
        "security.token_store:TokenStore._check_losses",
        Force("If 1", "if _ is not None and _ > _:", False),
        "corruption/test_tokens",
        "test_no_flipped_byte_lets_a_revoked_token_in[repaired-saved]",
    ),
    "security: keep tokens in class disk": Mutant(
        "security.token_store:TokenStore.__init__",
        Set("Assign 1", "_ = {} if _ else {'': ''}", "Constant 2", "disk"),
        REGISTRY,
        "test_a_revocation_is_durable_when_it_returns",
    ),
    "security: let local go on when there are tokens": Mutant(
        "server.auth.auth:Auth.check_live",
        Force("If 3", "if not _:", False),
        AUTH,
        "test_the_first_token_closes_the_server_at_once_and_for_ever",
    ),
    "security: take anybody without tokens for local": Mutant(
        "server.auth.auth:Auth._without_header",
        Drop("If 1", "if _ and _(_):", "Call 1"),
        AUTH,
        "test_somebody_from_elsewhere_is_not_local_however_he_got_here",
    ),
    "security: remember a header for ever": Mutant(
        "server.auth.auth:Auth._refresh",
        All(
            Remove("Expr 4", "_() (4 of 7)"),
            Remove("Expr 5", "_() (5 of 7)"),
            Remove("Expr 7", "_() (7 of 7)"),
        ),
        AUTH,
        "test_a_revoked_token_is_refused_from_the_next_request_on",
    ),
    "security: let in when tokens cannot be trusted": Mutant(
        "server.auth.auth:Auth._refresh",
        Rewrite("Raise 1", "raise _(503, '', '') from _", "del {Name 2}\nreturn"),
        AUTH,
        "test_a_store_of_tokens_that_is_damaged_denies_all_and_keeps_a_server_from_starting",
    ),
    "security: tell nobody of a revocation": Mutant(
        "server.auth.auth:Auth._report_revoked",
        Remove("Expr 3", "_(_) (2 of 2)"),
        STREAMS,
        "test_revoking_ends_a_stream[watch]",
    ),
    "security: let a stream go on without a look": Mutant(
        "server.auth.auth:Auth.check_live",
        Force("If 6", "if _:", False),
        STREAMS,
        "test_revoking_ends_a_stream[work]",
    ),
    "security: use a ticket twice": Mutant(
        "security.tickets:Tickets.redeem",
        Replace("Assign 1", "_ = _(_(_), None)", "Call 1", "{Attribute 2}.get({Call 2})"),
        TICKETS,
        "test_a_ticket_is_good_once",
    ),
    "security: lock the owner out on loopback": Mutant(
        "server.auth.auth:Auth._token",
        Force("If 1", "if not _(_):", True),
        AUTH,
        "test_the_owner_on_this_machine_is_never_locked_out",
    ),
    "security: let strangers guess for ever": Mutant(
        "server.auth.auth:Auth._failed",
        Remove("Expr 1", "_(_(_))"),
        WEB,
        "test_whoever_guesses_is_told_to_wait_and_the_owner_gets_in",
    ),
    "security: let anybody change the server's own topics": Mutant(
        "security.internal_topics:allowed",
        Drop("Return 1", "return _ == '' and _('')", "Compare 1"),
        AUTH,
        "test_the_servers_own_topics_are_changed_by_nobody_and_read_by_admins"
        "[strandline.tokens-write]",
    ),
    "security: show journals of remembered queries": Mutant(
        "security.internal_topics:allowed",
        Set("If 2", "if _(_) and _ not in ('', ''):", "Call 1", False),
        VIEWS,
        "test_whoever_may_not_read_it_sees_it_in_no_way[journal of a remembered query-outsider]",
    ),
    "security: give more than one has": Mutant(
        "security.token_store:_check_covered",
        Force("If 1", "if not _(_):", False),
        "server/test_tokens_api",
        "test_nobody_gives_away_what_he_does_not_have[all]",
    ),
    "security: revoke a token of more scopes": Mutant(
        "security.token_store:TokenStore.revoke",
        Remove("Expr 1", "_(_, _())"),
        "server/test_tokens_api",
        "test_a_token_changes_only_tokens_that_its_own_scopes_cover[tokens-all-revoke]",
    ),
    "security: do not ask what a route needs": Mutant(
        "server.app:_App._authorise",
        Remove("Expr 1", "_(_, _, _)"),
        MATRIX,
        "test_a_token_of_another_prefix_is_refused[GET /v0/topics/{topic}]",
    ),
    "security: ask about the first need alone": Mutant(
        "server.app:_App._authorise",
        Replace("For 1", "for _ in _:", "Attribute 1", "{it}[:1]"),
        MATRIX,
        "test_each_need_is_needed[POST /v0/kv/{topic}/commit]",
    ),
    "security: read the body of a request without a token": Mutant(
        "server.app:_App._authenticate",
        Replace(
            "Assign 4",
            "_ = _ if _ else _",
            "IfExp 1",
            "{Attribute 3} if {Name 2}.{name 1} else {Attribute 2}",
            names=("server.http.route:Route.needs",),
        ),
        ADMISSION,
        "test_a_body_is_refused_by_its_head[POST /v0/sql-none]",
    ),
    "security: read the body of an append without a token": Mutant(
        "server.connection.fast_append:FastAppend.plain_append",
        Replace(
            "Assign 6",
            "_ = _(_, _)",
            "Call 1",
            "{it} or {name 1}",
            names=("security.principal:ANONYMOUS",),
        ),
        ADMISSION,
        "test_the_hot_path_refuses_by_the_head_too[none-24]",
    ),
    "security: discard a refused body of any size": Mutant(
        "server.app:_App._respond",
        Force("If 1", "if _(_):", False),
        ADMISSION,
        "test_a_body_is_refused_by_its_head[POST /v0/sql-none]",
    ),
    "security: read a WebSocket without a token to the end": Mutant(
        "server.live.ws_protocol:LiveWebSocket._is_too_early",
        Force("If 2", "if _ <= _:", True),
        SOCKETS,
        "test_what_is_not_authenticated_may_send_4_kib[empty fragments]",
    ),
    "security: log a traceback for a WebSocket that hangs up": Mutant(
        "server.routes.websocket:websocket",
        Replace("ExceptHandler 1", "except _:", "Name 1", "ZeroDivisionError"),
        SOCKETS,
        "test_noise_leaves_no_line_in_the_log[nothing]",
    ),
    "security: one client may hold the whole budget": Mutant(
        "server.limits.byte_budget:ByteBudget._change",
        Force("If 2", "if _ > _:", False),
        BUDGET,
        "test_unfinished_bodies_count_and_the_next_one_is_refused[application]",
    ),
    "security: count no unfinished append": Mutant(
        "server.connection.fast_append:FastAppend.hold",
        Remove("Expr 1", "_(_(_(_, _)))"),
        BUDGET,
        "test_unfinished_bodies_count_and_the_next_one_is_refused[hot]",
    ),
    "security: unpack without counting": Mutant(
        "server.app:_App._receive_body",
        All(Remove("Expr 3", "_(_(_) + _(_, _, _))"), Remove("Expr 4", "_(_(_))")),
        BUDGET,
        "test_unpacked_bytes_count",
    ),
    "security: count no unfinished message": Mutant(
        "server.live.ws_protocol:LiveWebSocket._count",
        Use("Expr 1", "_(_ + _)", "BinOp 1", "Attribute 2"),
        BUDGET,
        "test_unfinished_messages_count_and_the_connection_ends[True]",
    ),
    "security: let any number of requests wait on one connection": Mutant(
        "server.connection.http_validation:check_waiting",
        Force("If 1", "if _ >= _:", False),
        BUDGET,
        "test_more_than_256_requests_do_not_wait_on_one_connection",
    ),
    "security: no look at Host": Mutant(
        "server.auth.host_origin:HostPolicy.check",
        Remove("Expr 1", "_(_) (1 of 2)"),
        WEB,
        "test_a_name_that_was_bent_to_this_machine_is_refused_everywhere[/v0/topics-evil.example]",
    ),
    "security: no look at Origin": Mutant(
        "server.auth.host_origin:HostPolicy.check",
        Remove("Expr 2", "_(_ or '', _)"),
        WEB,
        "test_a_page_of_elsewhere_is_refused_also_with_json[http://evil.example]",
    ),
    "security: no look at the Origin of a WebSocket": Mutant(
        "server.app:_App._websocket",
        Remove("Expr 1", "_(_(''), _(''))"),
        WEB,
        "test_a_websocket_of_a_page_of_elsewhere_is_refused",
    ),
    "security: remember a page under any name": Mutant(
        "server.auth.host_origin:HostPolicy.check",
        Set("Assign 1", "_ = (_, _)", "Name 2", None),
        GATES,
        "test_names_are_remembered_one_by_one",
    ),
    "security: count every address of a customer by itself": Mutant(
        "server.limits.rate_limits:_network",
        Use("Return 4", "return _(_((_, 64), _=False))", "Call 1", "arg 1"),
        QUOTAS,
        "test_addresses_of_ipv6_count_by_their_first_half",
    ),
    "security: count addresses without bound": Mutant(
        "server.limits.rate_limits:RateBucket.add",
        Force("While 1", "while _(_) > _:", False),
        QUOTAS,
        "test_whoever_comes_from_many_addresses_does_not_fill_the_memory",
    ),
    "security: an audit log without a chain": Mutant(
        "security.audit:_reason",
        Force("If 4", "if not _ and _ != (_ or _):", False),
        AUDIT,
        "test_whatever_is_forged_is_found[_changed_and_sealed-2]",
    ),
    "security: an audit log with holes": Mutant(
        "security.audit:_reason",
        Replace("If 1", "if _ is None:", "Compare 1", "{it} and False"),
        AUDIT,
        "test_a_record_that_is_no_entry_is_found",
    ),
    "security: escape nothing in the audit log": Mutant(
        "security.audit:escape_text",
        Force("If 1", "if _() and _():", True),
        AUDIT,
        "test_what_comes_from_outside_cannot_be_mistaken_for_anything_else",
    ),
    "security: secrets in the audit log": Mutant(
        "security.audit:escape_text",
        Use("Assign 1", "_ = _(_)[:_]", "Call 1", "Name 3"),
        AUDIT,
        "test_text_is_cut_short_and_has_no_secrets",
    ),
    "security: strangers fill the audit log": Mutant(
        "security.audit:Audit.note_failure",
        Force("If 2", "if _ > _:", False),
        AUDIT,
        "test_strangers_cannot_fill_the_log",
    ),
    "security: changes of topics leave no trace": Mutant(
        "server.http.audit:audit_request",
        Force("If 1", "if _ < 400 and _(_):", False),
        "server/test_tokens_api",
        "test_changes_of_topics_are_in_the_audit_log_with_who_and_where",
    ),
}
