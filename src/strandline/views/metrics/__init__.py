"""Metrics: points with tags and numeric fields, aggregated by queries and rules."""
