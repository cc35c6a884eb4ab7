"""Who asks: a token, a user of the command language, or nobody in particular."""

from __future__ import annotations

from typing import Literal

import msgspec

from strandline.security.scopes import EVERYTHING, NOTHING, Scopes

Kind = Literal["token", "user", "local", "nobody"]


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who was authenticated."""

    id: str
    """The id of a token, ``user:NAME``, ``local`` where no tokens are needed, or ``nobody``."""

    kind: Kind = "token"

    name: str = ""
    """Whose token it is, or the user's name: for people and logs."""

    scopes: Scopes = NOTHING
    """What he might do when he was authenticated."""

    expires_us: int = 0
    """When the token ends, in microseconds since 1970; 0 is never."""


LOCAL = Principal(id="local", kind="local", name="local", scopes=EVERYTHING)
"""Whoever asks a server that nobody but this machine can reach, and that has no tokens."""

NOBODY = Principal(id="nobody", kind="nobody", name="nobody")
"""Whoever does not say who he is, at routes that are open to all. He may do nothing else."""
