"""Mutants of groups: what makes a record one member's, a key one lane, an ack final."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ASSIGNMENT = "unit/views/groups/test_assignment"
INFLIGHT = "unit/views/groups/test_inflight"
OFFSETS = "unit/views/groups/test_offsets"
RESTARTS = "unit/views/groups/test_restarts"

GROUPS = {
    "group: raise the floor over what is not acked": Mutant(
        "views.groups.offsets:Offsets._raise_floor",
        "first_absent(self.done, self.floor + 1) - 1",
        "max(self.done)",
        OFFSETS,
        "test_offsets_are_the_set_of_what_is_done",
    ),
    "group: forget acks above the floor": Mutant(
        "views.groups.offsets:encode",
        'offsets.done.serialize() if offsets.done else b""',
        'b""',
        RESTARTS,
        "test_acks_above_the_floor_survive_a_restart",
    ),
    "group: an earlier delivery is as good as the current one": Mutant(
        "views.groups.inflight:Inflight.held",
        "lease is not None and lease.token == token",
        "lease is not None",
        INFLIGHT,
        "test_the_token_of_an_earlier_delivery_is_worth_nothing",
    ),
    "group: a key goes out twice at once": Mutant(
        "views.groups.assignment:KeyShared.offer",
        "if len(lane.seqs) == 1 and not lane.taken:",
        "if len(lane.seqs) == 1:",
        ASSIGNMENT,
        "test_a_record_that_comes_while_the_last_of_its_key_is_in_flight_waits",
    ),
    "group: a key in flight moves to a member that joins": Mutant(
        "views.groups.assignment:KeyShared.change_members",
        "if lane.seqs and not lane.taken and lane.due is None:",
        "if lane.seqs and lane.due is None:",
        ASSIGNMENT,
        "test_a_key_in_flight_stays_with_its_member_when_another_becomes_its_owner",
    ),
    "group: acks of a topic that is gone count for the next": Mutant(
        "views.groups.offsets:Offsets.cut",
        "self.floor = min(self.floor, head_seq)",
        "pass",
        RESTARTS,
        "test_offsets_beyond_the_head_are_forgotten",
    ),
}
