"""The transport of a connection, for streams that write their frames directly to it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from starlette.types import Scope

NAME = "strandline.transport"
"""The key of the transport in a scope's extensions."""
WEBSOCKET = "strandline.taking"
"""The key of a WebSocket connection that offers messages to a ``taker``."""


def websocket_of(scope: Scope) -> Any:
    """The connection that offers messages to its ``taker``; None if there is none."""
    return scope.get("extensions", {}).get(WEBSOCKET)


def transport_of(scope: Scope) -> asyncio.Transport | None:
    """The transport of a request; None when another server runs the application."""
    return cast("asyncio.Transport | None", scope.get("extensions", {}).get(NAME))
