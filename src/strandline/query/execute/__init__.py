"""Execution: snapshots of tables are scanned, DuckDB calculates, results are returned."""
