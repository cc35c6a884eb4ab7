"""Serves a store over HTTP, SSE and WebSocket. The only package with an event loop."""
