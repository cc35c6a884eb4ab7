"""Records as rows of a view, a file for each kind of view. No pyspark."""
