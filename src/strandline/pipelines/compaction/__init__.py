"""Compaction of lake files: candidate selection, merge tasks, compaction by key."""
