"""Promise: whatever is moved, skipped or settled, the desk knows where every record is."""

from __future__ import annotations

from strandline.views.groups.group_state import Desk, GroupOptions
from strandline.views.groups.offsets import Offsets


def desk_with(count: int, **options: object) -> Desk:
    """A desk at which so many records wait for ann."""
    desk = Desk(GroupOptions(**options))
    desk.begin(Offsets())
    desk.join("ann", 0.0)
    for seq in range(1, count + 1):
        desk.backlog.offer(seq, None)
    desk.cursor = count
    return desk


def test_looking_on_begins_behind_all_that_is_done():
    desk = Desk(GroupOptions())
    offsets = Offsets()
    offsets.settle(range(2, 5001))
    desk.begin(offsets)
    at_first = desk.look_from()
    desk.cursor = 1

    then = desk.look_from()

    assert (at_first, then) == (0, 5000)


def test_what_is_held_while_the_group_is_moved_is_nobodys():
    desk = desk_with(3, window=10)
    (lease, *_), _ = desk.take("ann", 3, 0.0)
    assert desk.hold(lease.taken.seq, lease.token) is not None

    desk.begin(Offsets())
    desk.let_go([lease])
    desk.settle([lease])
    desk.give_back([lease], 0.0)

    assert desk.is_stale([lease])
    assert (len(desk.inflight), len(desk.backlog), desk.room) == (0, 0, 10)


def test_what_is_held_takes_room_until_it_is_settled():
    desk = desk_with(3, window=3)
    (first, second, third), _ = desk.take("ann", 3, 0.0)
    for lease in (first, second, third):
        desk.hold(lease.taken.seq, lease.token)
    rooms = [desk.room]

    desk.settle([first])
    rooms.append(desk.room)
    desk.give_back([second], 0.0)
    rooms.append(desk.room)
    desk.let_go([third])
    rooms.append(desk.room)

    assert rooms == [0, 1, 1, 1]


def test_a_record_that_is_found_done_is_not_granted():
    desk = desk_with(2)
    desk.offsets.settle([1])

    hopeful, hopeless = desk.take("ann", 9, 0.0)

    assert [lease.taken.seq for lease in hopeful] == [2]
    assert hopeless == []


def test_time_brings_the_earliest_of_leases_members_and_delays():
    desk = desk_with(2, lease_s=30.0)
    (first, second), _ = desk.take("ann", 2, 5.0)
    desk.hold(first.taken.seq, first.token)

    desk.touch("ann", 1, 7.0)
    with_lease = desk.next_event()
    desk.give_back([first], 12.0)
    with_delay = desk.next_event()
    desk.release([second], 0.0)
    desk.take("ann", 2, 12.0)

    assert (with_lease, with_delay) == (35.0, 12.0)
    assert desk.next_event() == 35.0
