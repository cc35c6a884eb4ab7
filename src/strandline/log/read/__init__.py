"""The read path: from a cursor, seq, time or tag to records."""
