"""Limits of bytes, rates, queries, results and storage."""
