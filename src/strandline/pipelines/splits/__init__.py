"""Input splits: which files, zones and local records a read needs, cut into tasks."""
