"""The tour of the project in a terminal: ``python -m strandline.demo``."""
