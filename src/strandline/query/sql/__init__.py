"""SQL over all topics and views of a store."""
