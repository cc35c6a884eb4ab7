"""Settings of a connection to a server. Data only."""

from __future__ import annotations

import msgspec


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timeouts and connection limits of a client."""

    connect_s_max: float = 5.0
    """Timeout for making a connection."""

    response_s_max: float = 30.0
    """Longest time without data in a response. Waiting for records or jobs is not counted."""

    connections_max: int = 100
    """Connections at a time. A request that needs one more waits for it up to ``response_s_max``.
    """

    idle_connections_max: int = 100
    """Idle connections that are kept. With fewer than concurrent requests, connections are made
    and closed all the time."""

    idle_s_max: float = 30.0
    """How long idle connections are kept. If longer than on the server, requests meet closed
    connections."""

    retry_s_max: float = 30.0
    """For how long a request is retried that is safe to repeat, or was rejected for now. 0 tries
    once. The server recognizes a repeated append for the ``idempotency_window_ms`` of the topic;
    an append is not repeated beyond that."""

    reconnect_s_max: float = 300.0
    """The same for loops (``follow``, ``watch``): how long a server may be unavailable."""
