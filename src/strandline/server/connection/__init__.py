"""Connections: accept, TLS, strict HTTP parsing, and the fast path for appends."""
