"""Mutants of routers, and of what the server does under load."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Remove, Replace, Set, Use

GOVERNOR = "server/live/test_governor"
HUB = "server/live/test_hub"
ROUTERS = "unit/routers/test_definition"
SLOW = "server/live/test_slow"
STREAMS = "server/test_streams_of_tokens"


ROUTERS = {
    "served: routers in a circle": Mutant(
        "routers.routers:Routers._check_shape",
        Force("If 3", "if _ is not None: (1 of 2)", False),
        ROUTERS,
        "test_a_circle_is_refused_and_nothing_is_made",
    ),
    "served: a second loss at a source is not reported": Mutant(
        "routers.forwarder:Forwarder._report",
        Replace(
            "If 1",
            "if _ > 0:",
            "Compare 1",
            "not {Assign 2: Name 5}",
            others=("_ = _ - _(_ - 1, _)",),
        ),
        "unit/routers/test_losses",
        "test_a_second_loss_is_reported_to_a_reader_who_has_seen_the_first[at_least_once-disk]",
    ),
    "served: count only the first level of a fan-out": Mutant(
        "routers.fan_out:FanOut._count",
        Set("Assign 2", "_ = 1 + _[_(_, _)]", "BinOp 1", 1),
        "unit/routers/test_fan_out",
        "test_a_router_that_would_multiply_records_beyond_the_bound_is_refused",
    ),
    "served: run stored routers beyond the bound of copies": Mutant(
        "routers.routers:Routers._round",
        Replace("If 1", "if _ in _:", "Compare 1", "not {Name 1}"),
        "unit/routers/test_fan_out",
        "test_stored_routers_beyond_a_lowered_bound_are_held_reported_and_kept",
    ),
    "served: see only the nearest circle": Mutant(
        "routers.router_graph:find_cycle",
        Remove("Expr 2", "_(_)"),
        ROUTERS,
        "test_a_circle_is_told_with_its_topics",
    ),
    "served: a revocation ends the streams of all": Mutant(
        "server.live.hub:Hub.close_streams_of",
        Force("If 1", "if _ == _:", True),
        STREAMS,
        "test_revoking_another_token_leaves_a_stream_alone[watch]",
    ),
    "served: who watches is never asked again": Mutant(
        "server.live.hub:Hub._recheck",
        Remove("Expr 1", "_() (1 of 2)"),
        STREAMS,
        "test_a_stream_ends_when_who_watches_may_read_its_topic_no_longer",
    ),
    "served: a slow watcher is told of one too many": Mutant(
        "server.live.slow_consumers:skipped",
        Use("Assign 1", "_ = _(_=_ + 1, _=_, _=_)", "BinOp 1", "Name 3"),
        SLOW,
        "test_the_notice_names_all_that_was_missed_and_nothing_else",
    ),
    "served: topics that expire are not lossy": Mutant(
        "server.live.slow_consumers:is_lossy",
        Drop("Return 1", "return _(_ == '' or _ or _)", "Attribute 2"),
        SLOW,
        "test_a_topic_is_lossy_when_it_lets_go_of_records_by_itself[config4-True]",
    ),
    "served: who takes nothing stays for ever": Mutant(
        "server.live.slow_consumers:verdict",
        Set("Return 2", "return '' if _ > _ else ''", "IfExp 1", "wait"),
        SLOW,
        "test_who_is_full_waits_and_ends_when_his_time_is_over[10.1-False-end]",
    ),
    "served: pressure leaves the sync as it is": Mutant(
        "server.live.load_sampler:LoadSampler.sample",
        Remove("Assign 6", "_ = _ (3 of 4)"),
        HUB,
        "test_pressure_widens_the_sync_and_holds_routers_until_it_is_over",
    ),
    "served: pressure leaves routers alone": Mutant(
        "server.live.load_sampler:LoadSampler.sample",
        Remove("Assign 7", "_ = _ (4 of 4)"),
        HUB,
        "test_pressure_widens_the_sync_and_holds_routers_until_it_is_over",
    ),
    "served: pressure holds nobody up": Mutant(
        "server.live.hub:Hub._serve",
        Set("Assign 3", "_ = _(_, _=_)", "Attribute 3", False),
        HUB,
        "test_under_pressure_turns_wait_for_more_and_the_lowest_band_waits_for_calm",
    ),
    "served: a late loop is not pressure": Mutant(
        "server.live.load_sampler:LoadSampler.sample",
        Drop(
            "Assign 3", "_ = _(_=_(), _=_ / _ if _ else 0.0, _=_, _=_((_ ... 2a8fd2b8", "keyword 5"
        ),
        "server/live/test_load_sampler",
        "test_a_loop_that_runs_late_is_pressure_and_one_in_time_is_none",
    ),
    "served: deferred routers stop": Mutant(
        "routers.routers:Routers.run_job",
        Force("If 2", "if _() - _ >= _:", False),
        "unit/routers/test_job",
        "test_while_a_server_is_pressed_routers_still_make_progress",
    ),
    "served: a deferred topic is deferred silently": Mutant(
        "server.live.hub:Hub._serve",
        Remove("Expr 4", "_() (2 of 2)"),
        HUB,
        "test_watchers_of_a_deferred_topic_get_one_hint_each_time",
    ),
    "served: refuse until the whole line is gone": Mutant(
        "server.live.load_shedding:LoadShedder.sample",
        Set("Assign 5", "_ = _ >= (_ // 2 if _ else _)", "BinOp 1", 1),
        GOVERNOR,
        "test_refusing_ends_when_half_of_the_line_is_gone",
    ),
    "served: routers go on although they are to wait": Mutant(
        "routers.routers:Routers.run_job",
        Force("If 1", "if not _:", True),
        "unit/routers/test_job",
        "test_while_a_server_is_pressed_the_job_waits_and_then_forwards_all",
    ),
    "routers: a source that cannot be read keeps the store from opening": Mutant(
        "routers.forwarder:Forwarder.locate",
        Use(
            "ExceptHandler 2",
            "except (_, _) as _:",
            "Tuple 1",
            "ExceptHandler 1: Name 1",
            others=("except _:",),
        ),
        "corruption/test_held_parts",
        "test_a_damaged_block_of_its_source_holds_a_router_and_the_store_opens",
    ),
    "routers: definitions that cannot be read are changed": Mutant(
        "routers.routers:Routers._check_readable",
        Force("If 1", "if _ is not None:", False),
        "corruption/test_held_parts",
        "test_damaged_definitions_hold_all_routers_and_nothing_overwrites_them",
    ),
}
