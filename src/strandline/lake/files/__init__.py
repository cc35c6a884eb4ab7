"""Parquet files of the lake: schema, writer, reader, column statistics."""
