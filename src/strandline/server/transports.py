"""The transport of a connection, for streams that write their frames straight to it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from starlette.types import Scope

NAME = "strandline.transport"
"""The key among the extensions of a scope; the value is the transport."""
TAKING = "strandline.taking"
"""Where a scope has the connection of a WebSocket that lets messages be answered at once."""


def taking(scope: Scope) -> Any:
    """The connection that offers messages to its ``taker``; None where there is no such."""
    return scope.get("extensions", {}).get(TAKING)


def transport_of(scope: Scope) -> asyncio.Transport | None:
    """The transport of a request; None where another server than ours runs the application."""
    return cast("asyncio.Transport | None", scope.get("extensions", {}).get(NAME))
