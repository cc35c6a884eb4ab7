"""The transport of a connection, for streams that write their frames straight to it."""

from __future__ import annotations

import asyncio
from typing import cast

from starlette.types import Scope

NAME = "strandline.transport"
"""The key among the extensions of a scope; the value is the transport."""


def transport_of(scope: Scope) -> asyncio.Transport | None:
    """The transport of a request; None where another server than ours runs the application."""
    return cast("asyncio.Transport | None", scope.get("extensions", {}).get(NAME))
