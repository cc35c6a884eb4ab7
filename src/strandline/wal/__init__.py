"""1 durable: the write-ahead log. codec, writer, committer, reader, recovery."""
