"""Zone indexes of a table's files: which zones may hold rows that fulfil a condition."""
