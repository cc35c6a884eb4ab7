"""Import and export of Parquet, CSV and JSON files."""
