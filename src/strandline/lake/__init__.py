"""3 cold: Parquet files listed by numbered manifests. entry, writer, reader, zone, manifest.

This package is a public door too: ``strandline.lake.dataset`` and its like need no store.
"""

from strandline.lake.outside import FileFacts, TopicFiles, dataset, files, topics

__all__ = ["FileFacts", "TopicFiles", "dataset", "files", "topics"]
