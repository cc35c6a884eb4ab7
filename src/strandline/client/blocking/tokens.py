# Made from asynchronous/tokens.py by tests/house/blocking.py: change that one.
"""The tokens of a server: made, listed, revoked, rotated; and who one is."""

from __future__ import annotations

import builtins

from strandline.api import tokens as wire
from strandline.client.blocking.endpoint import RemoteRoute

_DAY_MS = 86_400_000


class RemoteTokens:
    """Who may do what at a server. Safe from many threads."""

    def __init__(self, at: RemoteRoute) -> None:
        self._at = at

    def create(
        self, scopes: str, *, principal: str = "", label: str = "", days: float = 90
    ) -> wire.CreatedToken:
        """A new token; its text is told this once."""
        asked = wire.CreateToken(
            scopes=scopes, principal=principal, label=label, valid_ms=round(days * _DAY_MS)
        )
        return self._at.do("tokens", asked, wire.CreatedToken)

    def list(self) -> builtins.list[wire.TokenInfo]:
        """All tokens, without their secrets, the newest last."""
        return (self._at.get("tokens", wire.TokenList)).tokens

    def revoke(self, token_id: str) -> wire.TokenInfo:
        """End a token at once, and every stream that it opened."""
        return self._at.below("tokens", token_id).drop("", wire.TokenInfo)

    def rotate(
        self, token_id: str, *, grace_s: float = 86_400, days: float = 90
    ) -> wire.CreatedToken:
        """Another token for the same principal; the old one ends after a while."""
        asked = wire.RotateToken(grace_ms=round(grace_s * 1000), valid_ms=round(days * _DAY_MS))
        return self._at.below("tokens", token_id).do("rotate", asked, wire.CreatedToken)

    def whoami(self) -> wire.WhoAmI:
        """Who asks, and what he may do."""
        return self._at.get("whoami", wire.WhoAmI)

    def audit(self, after: int = 0, limit: int = 256) -> wire.AuditPage:
        """Entries of the audit log behind a cursor."""
        query = {"from_seq": str(after), "limit": str(limit)}
        return self._at.get("audit", wire.AuditPage, query)
