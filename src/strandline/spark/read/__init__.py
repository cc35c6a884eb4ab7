"""Reads of topics and views: options, locations, splits, executor tasks. No pyspark."""
