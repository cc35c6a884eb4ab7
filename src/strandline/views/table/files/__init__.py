"""Files of a table: Parquet, and beside each a file of zone indexes."""
