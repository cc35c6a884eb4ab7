"""Input of metrics: line protocol, columns and rows to batches, batches to records."""
