"""Remembered queries: what was found is kept, and a later look adds only what is new."""
