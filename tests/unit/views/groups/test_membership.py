"""Promise: who is silent for a lease is gone; who speaks again is there again, as the last."""

from __future__ import annotations

from strandline.views.groups.membership import Membership


def joined(*names: str) -> tuple[Membership, list[int]]:
    membership = Membership(10.0)
    return membership, [membership.join(name, 0.0) for name in names]


def test_members_stand_in_the_order_of_joining():
    membership, _ = joined("bob", "ann")

    assert membership.names == ["bob", "ann"]


def test_a_silent_member_is_gone_after_its_lease_and_not_before():
    membership, _ = joined("ann")

    assert membership.expire(9.9) == []
    assert membership.expire(10.0) == ["ann"]
    assert membership.names == []


def test_a_member_that_does_something_stays():
    membership, (ann, _) = joined("ann", "bob")

    returned = membership.touch("ann", ann, 5.0)

    assert not returned
    assert membership.expire(14.9) == ["bob"]
    assert membership.names == ["ann"]


def test_a_member_that_comes_back_is_behind_the_others():
    membership, (ann, _) = joined("ann", "bob")
    membership.touch("bob", 2, 5.0)
    membership.expire(10.0)

    returned = membership.touch("ann", ann, 11.0)

    assert returned
    assert membership.names == ["bob", "ann"]


def test_a_member_of_the_same_name_shuts_the_earlier_one_out():
    membership, (earlier,) = joined("ann")

    later = membership.join("ann", 1.0)

    assert membership.is_fenced("ann", earlier)
    assert not membership.is_fenced("ann", later)


def test_a_name_that_joins_again_is_behind_the_others():
    membership, _ = joined("ann", "bob")

    membership.join("ann", 1.0)

    assert membership.names == ["bob", "ann"]


def test_a_member_that_was_given_up_is_not_shut_out():
    membership, (ann,) = joined("ann")

    membership.expire(10.0)

    assert not membership.is_fenced("ann", ann)


def test_nobody_sleeps_past_the_next_end():
    membership, _ = joined("ann", "bob")
    membership.touch("ann", 1, 3.0)

    assert membership.next_end() == 10.0
    assert Membership(1.0).next_end() is None


def test_one_that_is_not_there_can_leave():
    membership, _ = joined("ann")

    membership.leave("bob")
    membership.leave("ann")

    assert membership.names == []
