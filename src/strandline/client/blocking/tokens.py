# Made from asynchronous/tokens.py by tests/house/blocking.py: change that one.
"""Creates, lists, revokes and rotates the tokens of a server, and reads the audit log."""

from __future__ import annotations

import builtins

from strandline.api import tokens as wire
from strandline.client.blocking.endpoint import RemoteEndpoint

_DAY_MS = 86_400_000


class RemoteTokens:
    """The tokens of a server. Safe from many threads."""

    def __init__(self, endpoint: RemoteEndpoint) -> None:
        self._endpoint = endpoint

    def create(
        self, scopes: str, *, principal: str = "", label: str = "", days: float = 90
    ) -> wire.CreatedToken:
        """Create a token; only this response contains its text."""
        body = wire.CreateToken(
            scopes=scopes, principal=principal, label=label, valid_ms=round(days * _DAY_MS)
        )
        return self._endpoint.post("tokens", body, wire.CreatedToken)

    def list(self) -> builtins.list[wire.TokenInfo]:
        """All tokens, without their secrets, the newest last."""
        return (self._endpoint.get("tokens", wire.TokenList)).tokens

    def revoke(self, token_id: str) -> wire.TokenInfo:
        """Revoke a token at once, and close the streams that it opened."""
        return self._endpoint.below("tokens", token_id).delete("", wire.TokenInfo)

    def rotate(
        self, token_id: str, *, grace_s: float = 86_400, days: float = 90
    ) -> wire.CreatedToken:
        """Create a new token for the same principal; the old one expires after ``grace_s``."""
        body = wire.RotateToken(grace_ms=round(grace_s * 1000), valid_ms=round(days * _DAY_MS))
        return self._endpoint.below("tokens", token_id).post("rotate", body, wire.CreatedToken)

    def whoami(self) -> wire.WhoAmI:
        """The principal and the scopes of the client's token."""
        return self._endpoint.get("whoami", wire.WhoAmI)

    def audit(self, after: int = 0, limit: int = 256) -> wire.AuditPage:
        """Entries of the audit log after a cursor."""
        query = {"from_seq": str(after), "limit": str(limit)}
        return self._endpoint.get("audit", wire.AuditPage, query)
