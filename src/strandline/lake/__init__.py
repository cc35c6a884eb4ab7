"""The lake: records that were moved to an object store, as Parquet files listed by manifests.

This package is public: ``strandline.lake.dataset`` and the other functions need no store.
"""

from strandline.lake.external_reader import FileFacts, TopicFiles, dataset, files, topics

__all__ = ["FileFacts", "TopicFiles", "dataset", "files", "topics"]
