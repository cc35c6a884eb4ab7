"""The files of a table: Parquet and, beside each, a file of indexes by zone."""
