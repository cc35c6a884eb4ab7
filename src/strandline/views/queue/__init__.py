"""A work queue on two topics: jobs, and the leases under which they are worked on.

The state, without a clock:

    codec.py      what stands in the records, as bytes
    chunk.py      jobs as columns, a run of seqs each
    board.py      all jobs: which may be claimed, which wait for a time
    moments.py    which chunk must be looked at when
    table.py      from the hash of a key to a job
    chains.py     jobs of a group, one after the other
    leases.py     who holds what, until when
    jobs.py       what can happen to jobs
    survey.py     the state said once more, so that older records of leases may go
    pages.py      chunks as pages of the reservoir
    fold.py       the fold: records in, state out

What is done with it:

    queue.py      the queue as users see it
    job.py        what they get: a claimed job, numbers
    options.py    what they say of a job
    times.py      seconds and moments
    putting.py    jobs in
    keys.py       unique keys
    expiry.py     jobs that are over: by ttl, age, or caps
    bounds.py     what may be appended: memory, caps that reject
    purging.py    waiting jobs thrown away
    claiming.py   jobs out: one pass for all who ask at the same time
    bell.py       wakes those who wait for a job
    settling.py   ack, nack, extend: what the holder of a lease may do
    dead.py       dead letters: listed, put back, thrown away
    letter.py     a dead letter as a record
    meant.py      which dead letters are meant
    upkeep.py     lets go of what the log no longer needs
"""
