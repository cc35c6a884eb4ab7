"""Segments: immutable files of blocks. codec, writer, reader."""
