"""Requests and responses: routing, decoding, bodies, streams."""
