"""Pipelines that a store declares, run when they are due, one run of each at a time."""
