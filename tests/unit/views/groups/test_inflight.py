"""Promise: a record is in the hands of one member at a time, and a lease ends when it is over."""

from __future__ import annotations

import pytest

from strandline.views.groups.assignment import WaitingRecord
from strandline.views.groups.inflight import Inflight, Lease


def granted(inflight: Inflight, seq: int, member: str = "ann", *, until: float = 10.0) -> Lease:
    return inflight.grant(WaitingRecord(seq, None), member, 1, now=0.0, until=until)


def test_a_record_in_flight_is_not_granted_again():
    inflight = Inflight()
    granted(inflight, 1)

    with pytest.raises(AssertionError, match="one member"):
        granted(inflight, 1, "bob")


def test_a_lease_is_known_by_its_token_only():
    inflight = Inflight()
    lease = granted(inflight, 1)

    assert inflight.held(1, lease.token) == lease
    assert inflight.held(1, lease.token + 1) is None
    assert inflight.held(2, lease.token) is None


def test_the_token_of_an_earlier_delivery_is_worth_nothing():
    inflight = Inflight()
    earlier = granted(inflight, 1)
    inflight.end(earlier)

    later = granted(inflight, 1, "bob")

    assert inflight.held(1, earlier.token) is None
    assert inflight.held(1, later.token) == later


def test_tokens_go_on_when_everything_is_taken_away():
    inflight = Inflight()
    earlier = granted(inflight, 1)

    inflight.clear()
    later = granted(inflight, 1)

    assert later.token > earlier.token
    assert inflight.expire(10.0) == [later]


def test_leases_are_over_at_their_end_and_not_before():
    inflight = Inflight()
    first, second = granted(inflight, 1, until=5.0), granted(inflight, 2, until=6.0)

    assert inflight.expire(4.9) == []
    assert inflight.expire(5.0) == [first]
    assert inflight.expire(9.0) == [second]
    assert len(inflight) == 0


def test_an_extended_lease_ends_later():
    inflight = Inflight()
    lease = granted(inflight, 1, until=5.0)

    inflight.extend(lease, 8.0)

    assert inflight.expire(7.9) == []
    assert [over.token for over in inflight.expire(8.0)] == [lease.token]


def test_a_lease_is_never_shortened():
    inflight = Inflight()
    lease = granted(inflight, 1, until=5.0)

    inflight.extend(lease, 3.0)

    assert inflight.expire(4.9) == []


def test_a_lease_that_is_put_back_ends_as_it_would_have():
    inflight = Inflight()
    lease = granted(inflight, 1, until=5.0)
    inflight.end(lease)
    nothing = inflight.expire(5.0)

    inflight.restore(lease)

    assert nothing == []
    assert inflight.expire(5.0) == [lease]


def test_what_a_member_holds_is_in_order_of_seq():
    inflight = Inflight()
    for seq, member in ((3, "ann"), (1, "ann"), (2, "bob")):
        granted(inflight, seq, member)

    assert [lease.record.seq for lease in inflight.of("ann")] == [1, 3]
    assert [lease.record.seq for lease in inflight] == [1, 2, 3]


def test_nobody_sleeps_past_the_next_end():
    inflight = Inflight()
    assert inflight.next_end() is None

    granted(inflight, 1, until=5.0)
    granted(inflight, 2, until=3.0)

    assert inflight.next_end() == 3.0


def test_acked_leases_do_not_pile_up_until_their_end():
    inflight = Inflight()
    kept = granted(inflight, 1)

    for seq in range(2, 5000):
        inflight.end(granted(inflight, seq))

    assert len(inflight._ends) < 500
    assert inflight.expire(10.0) == [kept]


def test_leases_from_before_everything_was_taken_away_are_stale():
    inflight = Inflight()
    before = granted(inflight, 1)

    inflight.clear()

    assert inflight.is_stale(before)
    assert not inflight.is_stale(granted(inflight, 1))
