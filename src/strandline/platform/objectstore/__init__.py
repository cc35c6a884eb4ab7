"""Object stores: S3, Azure, GCS, local folders and memory behind one protocol."""
