"""Pipelines that run when they are due: declared in a store's settings, one run at a time each."""
