"""A store over HTTP, SSE and WebSocket: the only async place, which meets it in ``bridge.py``."""
