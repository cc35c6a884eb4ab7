"""The state of a topic in memory: floors, counts, tail, tag index, idempotency keys."""
