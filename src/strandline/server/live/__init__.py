"""Live delivery: watchers of topics over SSE and WebSocket."""
