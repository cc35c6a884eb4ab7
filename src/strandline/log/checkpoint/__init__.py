"""Jobs that move records out of the write-ahead log: checkpoint, seal, relocate."""
