"""Limits for one client: bytes, rates, queries, results, storage."""
