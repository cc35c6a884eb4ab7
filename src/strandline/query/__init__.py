"""Queries: a command language over event tables, and SQL over all topics and views."""
