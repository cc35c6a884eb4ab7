"""Consumer groups on plain topics: members share the records, and say what they are done with.

offsets.py     what a group is done with, and its bytes
assignment.py  which record comes next, and for whom: the three modes
inflight.py    records that members hold, and until when
membership.py  who is there
desk.py        all of this together: what a group knows in memory
keeping.py     offsets in the kv map, written by one group at a time
settling.py    acks and nacks in line, one write for all of them
reading.py     takes what waits, looks further in the topic, fetches
dead.py        records that were given up
standing.py    where a group may begin, what it is behind, its numbers
waiting.py     waits for whatever comes first
member.py      a member and its deliveries
group.py       the group itself
groups.py      the groups of one store
"""
