"""The data source ``strandline``: batch and stream, read and write."""
