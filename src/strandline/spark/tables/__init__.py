"""Topics and event tables as DataFrames through Spark's Parquet reader."""
