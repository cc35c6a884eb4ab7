"""3 cold: Parquet files listed by numbered manifests. entry, writer, reader, zone, manifest."""
