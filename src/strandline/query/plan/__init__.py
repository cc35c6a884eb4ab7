"""Logical plans of bound queries, compiled to SQL of DuckDB or Spark."""
