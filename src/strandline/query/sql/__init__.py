"""SQL over everything that a store has: topics, maps, queues, series, metrics and tables."""
