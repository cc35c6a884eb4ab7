"""4 one ordered log: state, append, read, deletes, retention, replay, checkpoint."""
