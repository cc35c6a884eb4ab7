"""Promise: whatever is moved, skipped or settled, the desk knows where every record is."""

from __future__ import annotations

from strandline.views.groups.group_state import DeliveryState, GroupOptions
from strandline.views.groups.offsets import Offsets


def desk_with(count: int, **options: object) -> DeliveryState:
    """A desk at which so many records wait for ann."""
    desk = DeliveryState(GroupOptions(**options))
    desk.reset(Offsets())
    desk.join("ann", 0.0)
    for seq in range(1, count + 1):
        desk.backlog.offer(seq, None)
    desk.cursor = count
    return desk


def test_looking_on_begins_behind_all_that_is_done():
    desk = DeliveryState(GroupOptions())
    offsets = Offsets()
    offsets.mark_done(range(2, 5001))
    desk.reset(offsets)
    at_first = desk.read_cursor()
    desk.cursor = 1

    then = desk.read_cursor()

    assert (at_first, then) == (0, 5000)


def test_what_is_held_while_the_group_is_moved_is_nobodys():
    desk = desk_with(3, window=10)
    (lease, *_), _ = desk.take_leases("ann", 3, 0.0)
    assert desk.hold(lease.record.seq, lease.token) is not None

    desk.reset(Offsets())
    desk.restore([lease])
    desk.finish([lease])
    desk.give_back([lease], 0.0)

    assert desk.is_stale([lease])
    assert (len(desk.inflight), len(desk.backlog), desk.capacity) == (0, 0, 10)


def test_what_is_held_takes_room_until_it_is_settled():
    desk = desk_with(3, window=3)
    (first, second, third), _ = desk.take_leases("ann", 3, 0.0)
    for lease in (first, second, third):
        desk.hold(lease.record.seq, lease.token)
    rooms = [desk.capacity]

    desk.finish([first])
    rooms.append(desk.capacity)
    desk.give_back([second], 0.0)
    rooms.append(desk.capacity)
    desk.restore([third])
    rooms.append(desk.capacity)

    assert rooms == [0, 1, 1, 1]


def test_a_record_that_is_found_done_is_not_granted():
    desk = desk_with(2)
    desk.offsets.mark_done([1])

    hopeful, hopeless = desk.take_leases("ann", 9, 0.0)

    assert [lease.record.seq for lease in hopeful] == [2]
    assert hopeless == []


def test_time_brings_the_earliest_of_leases_members_and_delays():
    desk = desk_with(2, lease_s=30.0)
    (first, second), _ = desk.take_leases("ann", 2, 5.0)
    desk.hold(first.record.seq, first.token)

    desk.touch("ann", 1, 7.0)
    with_lease = desk.next_event()
    desk.give_back([first], 12.0)
    with_delay = desk.next_event()
    desk.release([second], 0.0)
    desk.take_leases("ann", 2, 12.0)

    assert (with_lease, with_delay) == (35.0, 12.0)
    assert desk.next_event() == 35.0
