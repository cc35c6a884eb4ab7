"""Input splits: the files, zones and local records of a read, divided into tasks."""
