"""QUERY and SQL calculated by Spark."""
