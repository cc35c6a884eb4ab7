"""The tokens of a server: made, listed, revoked, rotated; and who one is."""

from __future__ import annotations

import builtins

from strandline.api import tokens as wire
from strandline.client.asynchronous.endpoint import AsyncRoute

_DAY_MS = 86_400_000


class AsyncTokens:
    """Who may do what at a server. Safe from many tasks of one loop."""

    def __init__(self, at: AsyncRoute) -> None:
        self._at = at

    async def create(
        self, scopes: str, *, principal: str = "", label: str = "", days: float = 90
    ) -> wire.CreatedToken:
        """A new token; its text is told this once."""
        asked = wire.CreateToken(
            scopes=scopes, principal=principal, label=label, valid_ms=round(days * _DAY_MS)
        )
        return await self._at.do("tokens", asked, wire.CreatedToken)

    async def list(self) -> builtins.list[wire.TokenInfo]:
        """All tokens, without their secrets, the newest last."""
        return (await self._at.get("tokens", wire.TokenList)).tokens

    async def revoke(self, token_id: str) -> wire.TokenInfo:
        """End a token at once, and every stream that it opened."""
        return await self._at.below("tokens", token_id).drop("", wire.TokenInfo)

    async def rotate(
        self, token_id: str, *, grace_s: float = 86_400, days: float = 90
    ) -> wire.CreatedToken:
        """Another token for the same principal; the old one ends after a while."""
        asked = wire.RotateToken(grace_ms=round(grace_s * 1000), valid_ms=round(days * _DAY_MS))
        return await self._at.below("tokens", token_id).do("rotate", asked, wire.CreatedToken)

    async def whoami(self) -> wire.WhoAmI:
        """Who asks, and what he may do."""
        return await self._at.get("whoami", wire.WhoAmI)

    async def audit(self, after: int = 0, limit: int = 256) -> wire.AuditPage:
        """Entries of the audit log behind a cursor."""
        query = {"from_seq": str(after), "limit": str(limit)}
        return await self._at.get("audit", wire.AuditPage, query)
