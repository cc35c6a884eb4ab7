"""Mutants of queues: what makes a lease one worker's, an order an order, a death final."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

BOUNDS = "unit/views/queue/test_bounds"
DEAD = "unit/views/queue/test_dead"
GROUPS = "unit/views/queue/test_groups"
SETTLING = "unit/views/queue/test_settling"

QUEUES = {
    "queue: an earlier lease is as good as the current one": Mutant(
        "views.queue.jobs:Jobs.holds",
        'found[places] = chunk.values("lease", rows) == leases[places]',
        "found[places] = True",
        SETTLING,
        "test_what_is_not_held_is_skipped_and_the_rest_is_done",
    ),
    "queue: take a ticket of a queue that was deleted": Mutant(
        "views.queue.job:life_of",
        "(began_us << _TOPIC_BITS | topic_id) << _FOLD_BITS",
        "0",
        SETTLING,
        "test_a_ticket_of_a_deleted_queue_is_none_of_the_next_one_with_its_name[False]",
    ),
    "queue: a lease ends though it was extended": Mutant(
        "views.queue.board:Board.lapse",
        '(chunk.state[rows] == HELD) & (chunk.values("grant", rows) == grant)',
        "chunk.state[rows] == HELD",
        SETTLING,
        "test_of_a_claim_only_what_was_extended_is_kept",
    ),
    "queue: measure leases by the clock on the wall": Mutant(
        "views.queue.claiming:Claiming._decide",
        "self._clock.monotonic()",
        "self._clock.now_us() / 1e6",
        SETTLING,
        "test_setting_the_clock_ends_no_lease_and_lengthens_none",
    ),
    "queue: let a job of a group go out beside an older one": Mutant(
        "views.queue.chains:Chains.join",
        "return tail != 0",
        "return False",
        GROUPS,
        "test_one_job_of_a_group_goes_out_at_a_time",
    ),
    "queue: take plain appends without asking for memory": Mutant(
        "topic.admission:Admission.place",
        "jobs.admit(batch.count)",
        "pass",
        BOUNDS,
        "test_plain_appends_to_a_queue_are_admitted_by_the_memory_of_jobs",
    ),
    "queue: refuse jobs though those that wait are over": Mutant(
        "topic.admission:Admission.place",
        "jobs.make_room()",
        "pass",
        BOUNDS,
        "test_a_ttl_lets_a_queue_that_rejects_take_jobs_again",
    ),
    "queue: discard fewer bytes than are too many": Mutant(
        "views.queue.board:Board.oldest",
        "int(np.searchsorted(np.cumsum(sizes), size)) + 1",
        "int(np.searchsorted(np.cumsum(sizes), size))",
        BOUNDS,
        "test_a_queue_that_discards_ends_its_oldest_waiting_jobs[bytes-put]",
    ),
    "queue: end a job that is exactly as old as it may be": Mutant(
        "views.queue.expiry:_advanced",
        "if ts >= before_us",
        "if ts > before_us",
        BOUNDS,
        "test_a_job_ends_when_it_is_older_than_the_ttl_and_not_before",
    ),
    "queue: deliver once more than is allowed": Mutant(
        "views.queue.claiming:Claiming._decide",
        "int(deliveries.max()) >= deliveries_max",
        "int(deliveries.max()) > deliveries_max",
        DEAD,
        "test_a_job_is_given_out_so_often_and_then_is_a_dead_letter",
    ),
}
