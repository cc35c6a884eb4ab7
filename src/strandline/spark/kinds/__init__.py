"""Records as the rows of a view: one file for each kind. No pyspark here."""
