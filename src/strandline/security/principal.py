"""The principal of a request: a token, a user of the query language, or anonymous."""

from __future__ import annotations

from typing import Literal

import msgspec

from strandline.security.scopes import EVERYTHING, NOTHING, Scopes

Kind = Literal["token", "user", "local", "anonymous"]


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated principal."""

    id: str
    """The id of a token, ``user:NAME``, ``local`` where no tokens are needed, or ``anonymous``."""

    kind: Kind = "token"

    name: str = ""
    """The owner of the token, or the user's name: for display and logs."""

    scopes: Scopes = NOTHING
    """The scopes at the time of authentication."""

    expires_us: int = 0
    """When the token expires, in microseconds since 1970; 0 is never."""


LOCAL = Principal(id="local", kind="local", name="local", scopes=EVERYTHING)
"""The principal of all requests to a server without tokens that only this machine can reach."""

ANONYMOUS = Principal(id="anonymous", kind="anonymous", name="anonymous")
"""The principal of requests without credentials, for public routes. It has no scopes."""
