"""Materialized queries: stored results, updated from new rows only."""
