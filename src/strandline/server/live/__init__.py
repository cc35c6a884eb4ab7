"""Live delivery of records over SSE and WebSocket."""
