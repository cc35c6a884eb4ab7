"""The tour of the project in a terminal: ``python -m examples.tour``."""
