"""2 sealed: immutable files of blocks. codec, writer, reader, plan."""
