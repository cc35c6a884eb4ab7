"""Retention: which records caps and ttl remove, and the floors that follow."""
