"""Runs the pipelines that a store declares when they are due, one run of each at a time."""
