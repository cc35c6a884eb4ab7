"""Converts values of views to and from structs of the API."""
