"""Opening a store after a close or a crash: load the checkpoint, replay the log."""
