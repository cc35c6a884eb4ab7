"""Writes through a view: what the view accepts, and the rows that do not fit."""
