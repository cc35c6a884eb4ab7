"""Consumer groups on plain topics: members share the records, and say what they are done with.

offsets.py     what a group is done with, and its bytes
assignment.py  which record comes next, and for whom: the three modes
inflight.py    records that members hold, and until when
membership.py  who is there
keeping.py     offsets in the kv map, written by one group at a time
positions.py   where a group may begin, what it is behind
dead.py        records that were given up
waiting.py     waits for whatever comes first
group.py       the group itself
member.py      a member and its deliveries
groups.py      the groups of one store
"""
