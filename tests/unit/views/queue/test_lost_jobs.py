"""Promise: records of leases that speak of jobs which are gone hinder nobody.

With several shards a power loss may take the end of the jobs' topic and leave that of the leases.
"""

from __future__ import annotations

import numpy as np

from strandline.views.queue.codec import BURY, CLAIM, END, NACK, LeaseRecord, encode_lease_record
from tests.unit.store.world import World


def test_words_about_jobs_that_are_gone_hinder_no_claim():
    world = World()
    queue = world.store.queue("mails")
    gone = np.array([7, 8], dtype=np.int64)
    words = [
        LeaseRecord(CLAIM, gone),
        LeaseRecord(NACK, gone),
        LeaseRecord(BURY, gone, 1),
        LeaseRecord(END, gone, 0),
    ]
    world.store.topic("mails:leases").append_many([encode_lease_record(word) for word in words[:3]])

    put = queue.put(b"next")
    claimed = queue.claim(5)
    world.store.topic("mails:leases").append(encode_lease_record(words[3]))

    assert [job.seq for job in claimed] == [put.seq]
    assert queue.dead.count() == 0
    assert queue.ack(claimed[0])
    before = world.store.views.digest("queue", "mails")
    world.store.rebuild("queue", "mails")
    assert world.store.views.digest("queue", "mails") == before
