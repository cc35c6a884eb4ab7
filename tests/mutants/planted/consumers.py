"""Mutants of queues and groups: leases, keys in one lane, acknowledged records."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Remove, Replace, Set, Swap, Use

BOUNDS = "unit/views/queue/test_queue_bounds"
DEAD = "unit/views/queue/test_dead_letters"
GROUPS = "unit/views/queue/test_groups"
SETTLING = "unit/views/queue/test_acks"
ASSIGNMENT = "unit/views/groups/test_assignment"
INFLIGHT = "unit/views/groups/test_inflight"
OFFSETS = "unit/views/groups/test_offsets"
RESTARTS = "unit/views/groups/test_restarts"


CONSUMERS = {
    "queue: an earlier lease is as good as the current one": Mutant(
        "views.queue.state.transitions:Jobs.holds",
        Set("Assign 3", "_[_] = _('', _) == _[_]", "Compare 1", True),
        SETTLING,
        "test_what_is_not_held_is_skipped_and_the_rest_is_done",
    ),
    "queue: take a ticket of a queue that was deleted": Mutant(
        "views.queue.job:lease_epoch_of",
        Set("Return 1", "return (_ << _ | _) << _", "BinOp 1", 0),
        SETTLING,
        "test_a_ticket_of_a_deleted_queue_is_none_of_the_next_one_with_its_name[False]",
    ),
    "queue: a lease ends though it was extended": Mutant(
        "views.queue.state.job_table:JobTable.lapse",
        Use("Assign 1", "_ = (_[_] == _) & (_('', _) == _)", "BinOp 1", "Compare 1"),
        SETTLING,
        "test_of_a_claim_only_what_was_extended_is_kept",
    ),
    "queue: measure leases by the clock on the wall": Mutant(
        "views.queue.claim:Claims._decide",
        Replace("Assign 1", "_, _ = (_(), _())", "Call 1", "{Call 2} / 1000000.0"),
        SETTLING,
        "test_setting_the_clock_ends_no_lease_and_lengthens_none",
    ),
    "queue: let a job of a group go out beside an older one": Mutant(
        "views.queue.state.ordered_groups:OrderedGroups.join",
        Set("Return 1", "return _ != 0", "Compare 1", False),
        GROUPS,
        "test_one_job_of_a_group_goes_out_at_a_time",
    ),
    "queue: take plain appends without asking for memory": Mutant(
        "log.topic.admission:Admission.place",
        Remove("Expr 1", "_(_) (1 of 2)"),
        BOUNDS,
        "test_plain_appends_to_a_queue_are_admitted_by_the_memory_of_jobs",
    ),
    "queue: refuse jobs though those that wait are over": Mutant(
        "log.topic.admission:Admission.place",
        Remove("Expr 3", "_()"),
        BOUNDS,
        "test_a_ttl_lets_a_queue_that_rejects_take_jobs_again",
    ),
    "queue: discard fewer bytes than are too many": Mutant(
        "views.queue.state.job_table:JobTable.oldest",
        Use("Assign 2", "_ = _(_, _(_(_(_), _)) + 1)", "BinOp 1", "Call 2"),
        BOUNDS,
        "test_a_queue_that_discards_ends_its_oldest_waiting_jobs[bytes-put]",
    ),
    "queue: end a job that is exactly as old as it may be": Mutant(
        "views.queue.expiry:_advance_age_limit",
        Swap("If 1", "if _ >= _:", "Compare 1", ">"),
        BOUNDS,
        "test_a_job_ends_when_it_is_older_than_the_ttl_and_not_before",
    ),
    "queue: deliver once more than is allowed": Mutant(
        "views.queue.claim:Claims._decide",
        Swap("If 4", "if _ and _(_()) >= _:", "Compare 1", ">"),
        DEAD,
        "test_a_job_is_given_out_so_often_and_then_is_a_dead_letter",
    ),
    "group: raise the floor over what is not acked": Mutant(
        "views.groups.offsets:Offsets._raise_floor",
        Replace("Assign 1", "_ = _(_, _ + 1) - 1", "BinOp 1", "max({Attribute 2})"),
        OFFSETS,
        "test_offsets_are_the_set_of_what_is_done",
    ),
    "group: forget acks above the floor": Mutant(
        "views.groups.offsets:encode",
        Set(
            "Return 1",
            "return _(_(_=_, _=_, _=_, _=_, _=_() if _ else b... 463dc8a8",
            "IfExp 1",
            b"",
        ),
        RESTARTS,
        "test_acks_above_the_floor_survive_a_restart",
    ),
    "group: an earlier delivery is as good as the current one": Mutant(
        "views.groups.inflight:Inflight.held",
        Drop("Return 1", "return _ if _ is not None and _ == _ else None", "Compare 2"),
        INFLIGHT,
        "test_the_token_of_an_earlier_delivery_is_worth_nothing",
    ),
    "group: a key goes out twice at once": Mutant(
        "views.groups.assignment:KeySharedBacklog.offer",
        Drop("If 3", "if _(_) == 1 and (not _):", "UnaryOp 1"),
        ASSIGNMENT,
        "test_a_record_that_comes_while_the_last_of_its_key_is_in_flight_waits",
    ),
    "group: a key in flight moves to a member that joins": Mutant(
        "views.groups.assignment:KeySharedBacklog.change_members",
        Drop("If 1", "if _ and (not _) and (_ is None):", "UnaryOp 1"),
        ASSIGNMENT,
        "test_a_key_in_flight_stays_with_its_member_when_another_becomes_its_owner",
    ),
    "group: acks of a topic that is gone count for the next": Mutant(
        "views.groups.offsets:Offsets.truncate",
        Remove("Assign 1", "_ = _(_, _)"),
        RESTARTS,
        "test_offsets_beyond_the_head_are_forgotten",
    ),
}
