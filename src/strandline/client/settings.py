"""What a program may set of its connection to a server. Data only."""

from __future__ import annotations

import msgspec


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a client waits, and what it keeps open."""

    connect_s_max: float = 5.0
    """How long making a connection may take."""

    answer_s_max: float = 30.0
    """How long an answer may let nothing come. Waiting for records or jobs is not counted."""

    connections_max: int = 100
    """Connections at a time. Who needs one more waits for it, as long as for an answer."""

    idle_connections_max: int = 100
    """Connections that are kept for later requests. Fewer than tasks that ask at once: connections
    are made and closed all the time."""

    idle_s_max: float = 30.0
    """How long they are kept. Longer than the server does: requests meet closed connections."""

    retry_s_max: float = 30.0
    """How long a request is tried again that is safe to repeat, or was refused for the moment. 0
    tries once. Appends are known again by the server for the topic's ``idempotency_window_ms``,
    and are not repeated beyond that."""

    reconnect_s_max: float = 300.0
    """The same for what waits in a loop (``follow``, ``watch``): how long a server may be away."""
