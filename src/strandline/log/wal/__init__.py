"""The write-ahead log: codec, writer, group commit, reader, recovery."""
