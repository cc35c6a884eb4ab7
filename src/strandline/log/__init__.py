"""The durable log: write-ahead log, segments, topics, checkpoints, recovery and repair."""
