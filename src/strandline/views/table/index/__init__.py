"""Zone indexes of a table's files: which zones may hold rows that match a condition."""
