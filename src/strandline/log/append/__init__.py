"""The append path: a batch is validated, gets its seqs and is placed in the write-ahead log."""
